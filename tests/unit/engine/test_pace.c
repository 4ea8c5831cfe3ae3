// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

enum { WRITES = 400000 };
static int64_t when[WRITES];
static uint64_t bytes[WRITES];

/* A writer that is always ready, now and then idle for a while, with writes of 4 KiB up to half a percent of a second. */
static int write_for(int64_t seconds, uint64_t rate)
{
	struct rf_pace p;
	int64_t now = 12345;
	int n = 0;
	rf_pace_init(&p, rate);
	while (now < seconds * 1000000000 && n < WRITES) {
		now += rf_pace_wait(&p, now);
		assert_int_equal(rf_pace_wait(&p, now), 0);
		when[n] = now;
		bytes[n] = 4096 * (1 + (uint64_t)rand() % (rate / 200 / 4096));
		rf_pace_took(&p, now, bytes[n]);
		n++;
		if (rand() % 500 == 0)
			now += rand() % 300000000;
	}
	return n;
}

static void no_second_sees_more_than_the_limit(void **state)
{
	const uint64_t rate = 100 << 20;
	srand(7);
	int n = write_for(60, rate);
	assert_true(n > 1000);
	uint64_t sum = 0;
	for (int first = 0, last = 0; last < n; last++) {
		sum += bytes[last];
		while (when[last] - when[first] >= 1000000000)
			sum -= bytes[first++];
		assert_true(sum <= rate + rate / 20);
	}
}

static void limit_is_used(void **state)
{
	struct rf_pace p;
	int64_t now = 1000000000;
	uint64_t sum = 0;
	rf_pace_init(&p, 100 << 20);
	while (now < 11000000000) {
		now += rf_pace_wait(&p, now);
		rf_pace_took(&p, now, 256 << 10);
		sum += 256 << 10;
	}
	assert_true(sum >= 995ull << 20);
	assert_true(sum <= 1005ull << 20);
}

static void no_limit_never_waits(void **state)
{
	struct rf_pace p;
	rf_pace_init(&p, 0);
	rf_pace_took(&p, 5, 1ull << 40);
	assert_int_equal(rf_pace_wait(&p, 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_second_sees_more_than_the_limit),
	    cmocka_unit_test(limit_is_used),
	    cmocka_unit_test(no_limit_never_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
