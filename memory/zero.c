// SPDX-License-Identifier: LGPL-2.1-or-later
/* The zero test runs over every page of round 0, so it must run at memory speed. Nearly every page that is not zero
 * shows it in its first bytes or in its middle; those are looked at before anything else. */
#include "memory/zero.h"

#include "memory/pages.h"

#include <stddef.h>
#include <stdint.h>

/* Vectors of the compiler: 16 bytes on plain x86-64, and other 64-bit hosts have as much. may_alias: it is guest memory. */
typedef uint64_t vector __attribute__((vector_size(16), may_alias));

enum { STEP = 8, VECTORS = RF_PAGE_BYTES / sizeof(vector) };

static inline int any(vector v)
{
	return (v[0] | v[1]) != 0;
}

bool rf_page_is_zero(const void *page)
{
	const vector *v = page;

	if (any(v[0] | v[VECTORS / 2] | v[VECTORS - 1]))
		return false;
	for (size_t i = 0; i < VECTORS; i += STEP) {
		vector low = (v[i] | v[i + 1]) | (v[i + 2] | v[i + 3]);
		vector high = (v[i + 4] | v[i + 5]) | (v[i + 6] | v[i + 7]);

		if (any(low | high))
			return false;
	}
	return true;
}
