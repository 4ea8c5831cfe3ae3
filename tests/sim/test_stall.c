// SPDX-License-Identifier: LGPL-2.1-or-later
/* When to stop the guest, and what if it writes faster than the link carries. */
#include "harness.h"

/* 20000 pages a second all over 64 MiB, on a link for 5000: no round gets smaller */
static void begin_hopeless(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	s->model.bytes_per_second = 20 * MIB;
	story_writes(s, 20000, 64);
}

/* --on-stall wait, --timeout 30s -> it goes on trying for 30 s, then the guest runs on */
static void tell_wait(uint64_t seed)
{
	struct story s;

	begin_hopeless(&s, seed);
	s.source.options.timeout_ns = 30 * RF_S;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, NULL);
	story_assert(&s, s.source.ended_ns >= 30 * RF_S && s.source.ended_ns < 33 * RF_S);
	story_assert(&s, !s.source.guest->calls[RF_VERSIONS_PAUSE]);
	story_end(&s);
}

static void test_wait(void **state)
{
	for_seeds(101, 2, tell_wait);
}

/* --on-stall force -> it is stopped all the same, and moves */
static void tell_force(uint64_t seed)
{
	struct story s;

	begin_hopeless(&s, seed);
	s.source.options.on_stall = RF_ON_STALL_FORCE;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.downtime_ns > s.source.options.downtime_limit_ns);
	/* What is still on its way, and what of that is written again, counts for the downtime that was predicted. */
	story_assert(&s, s.source.stats.predicted_downtime_ns * 4 >= s.source.stats.downtime_ns * 3);
	story_assert(&s, s.source.stats.predicted_downtime_ns * 4 <= s.source.stats.downtime_ns * 5);
	story_end(&s);
}

static void test_force(void **state)
{
	for_seeds(111, 8, tell_force);
}

static void tell_abort(uint64_t seed)
{
	struct story s;

	begin_hopeless(&s, seed);
	s.source.options.on_stall = RF_ON_STALL_ABORT;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, NULL);
	story_assert(&s, !s.source.guest->calls[RF_VERSIONS_PAUSE]);
	story_end(&s);
}

static void test_abort(void **state)
{
	for_seeds(121, 2, tell_abort);
}

static void calm_down(struct story *s)
{
	s->source.guest->spec.writes_per_s = 100;
}

/* hopeless for 20 s, then calm -> --on-stall wait was right to wait */
static void tell_patience(uint64_t seed)
{
	struct story s;

	begin_hopeless(&s, seed);
	story_at(&s, 20 * RF_S, calm_down);
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.ended_ns > 20 * RF_S);
	story_assert(&s, s.source.stats.downtime_ns < s.source.options.downtime_limit_ns);
	story_end(&s);
}

static void test_patience(void **state)
{
	for_seeds(131, 2, tell_patience);
}

/* a downtime limit of 2 s -> the guest is stopped at the low point anyway, long below the ceiling */
static void tell_low_point(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 2000, 32);
	s.source.options.downtime_limit_ns = 2 * RF_S;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.downtime_ns < 300 * (uint64_t)RF_MS);
	story_end(&s);
}

static void test_low_point(void **state)
{
	for_seeds(141, 2, tell_low_point);
}

/* --switchover threshold, a limit of 300 ms -> it leaves in the middle of round 0, once the rest fits */
static void tell_threshold(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 500, 8);
	s.source.options.switchover = RF_SWITCHOVER_THRESHOLD;
	s.source.options.queue_depth = 16;
	s.source.options.max_write_bytes = 64 << 10; /* so that little is on its way when it leaves */
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.rounds[0].bytes + 10 * MIB < rf_versions_data(s.source.guest) * RF_PAGE_BYTES);
	story_assert(&s, s.source.stats.rounds[s.source.stats.nrounds - 1].bytes > 10 * MIB);
	story_assert(&s, s.source.stats.downtime_ns < s.source.options.downtime_limit_ns * 11 / 10);
	story_end(&s);
}

static void test_threshold(void **state)
{
	for_seeds(151, 3, tell_threshold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_wait),     cmocka_unit_test(test_force),     cmocka_unit_test(test_abort),
	    cmocka_unit_test(test_patience), cmocka_unit_test(test_low_point), cmocka_unit_test(test_threshold),
	};

	return run_stories("stall", tests);
}
