// SPDX-License-Identifier: LGPL-2.1-or-later
/* Arithmetic on numbers that came from outside: true when the result fits. Little-endian 64-bit hosts only. */
#ifndef RAMFERRY_COMMON_CHECKED_H
#define RAMFERRY_COMMON_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "ramferry's wire format is the memory of a little-endian host");
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "ramferry needs a 64-bit host");

static inline bool rf_add_u64(uint64_t a, uint64_t b, uint64_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

/* Does [first, first + count) lie within [0, limit)? An empty range lies anywhere up to and at the limit. */
static inline bool rf_range_within(uint64_t first, uint64_t count, uint64_t limit)
{
	return first <= limit && count <= limit - first;
}

static inline uint64_t rf_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t rf_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool rf_is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* Round up to a multiple of `unit` (a power of two). The caller knows that it fits. */
static inline uint64_t rf_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) & ~(unit - 1);
}

static inline uint64_t rf_div_round_up(uint64_t n, uint64_t unit)
{
	return n / unit + (n % unit != 0);
}

#endif
