// SPDX-License-Identifier: LGPL-2.1-or-later
/* Deadlines for everything that waits for QEMU: nothing in this folder waits without a bound. */
#ifndef RAMFERRY_QEMU_CLOCK_H
#define RAMFERRY_QEMU_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t rf_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline int64_t rf_deadline_ms(int ms)
{
	return rf_clock_ns() + ms * INT64_C(1000000);
}

/* For poll(): rounded up, so that it is 0 only when the deadline has passed. */
static inline int rf_deadline_left_ms(int64_t deadline)
{
	int64_t left = deadline - rf_clock_ns();
	return left > 0 ? (int)((left + 999999) / 1000000) : 0;
}

static inline void rf_sleep_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&t, NULL);
}

#endif
