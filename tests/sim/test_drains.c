// SPDX-License-Identifier: LGPL-2.1-or-later
/* Guests whose disks read into their memory past the page tables (design.md 4.2). The guest of versions dirties a page once,
 * when such a read begins, and changes it until it ends; so without drain points the page arrives as it was in between. */
#include "harness.h"

#include <inttypes.h>

/* reads of up to 100 ms into any page, and writes -> all arrives, with a few drain points, and nothing is suspect for long */
static void tell_reads(uint64_t seed)
{
	struct story s;
	const struct rf_stats *stats = &s.source.stats;

	story_begin(&s, seed);
	story_writes(&s, 1000, 16);
	story_reads(&s, 400, 100 * RF_MS);
	s.source.options.verify = seed % 2;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, stats->drain_points >= 1 && stats->drain_points <= 6);
	story_assert(&s, s.source.guest->successes[RF_VERSIONS_DRAIN] == stats->drain_points);
	story_assert(&s, stats->drain_point_ns < (stats->drain_points + 1) * 101 * RF_MS);
	story_assert(&s, stats->suspect_pages > 0 && stats->suspect_pages < 64 * PAGES_PER_MIB);
	story_assert(&s, stats->downtime_ns < s.source.options.downtime_limit_ns);
	story_end(&s);
}

static void test_reads(void **state)
{
	for_seeds(1, 10, tell_reads);
}

/* the same guests say that they have no such disks -> pages arrive stale: these stories can tell */
static void test_hidden_reads(void **state)
{
	unsigned stale = 0, n = 0;
	struct story s;

	for (uint64_t seed = 1; seed <= 10; seed++, n++) {
		story_begin(&s, seed);
		story_writes(&s, 1000, 16);
		story_reads(&s, 400, 100 * RF_MS);
		s.source.spec.hides_dma = s.may_be_stale = true;
		story_run(&s);
		story_assert(&s, !s.source.guest->calls[RF_VERSIONS_DRAIN] && !s.source.stats.drain_points);
		stale += story_is_stale(&s);
		story_end(&s);
	}
	if (stale < n)
		fail_msg("only %u of %u guests lost something", stale, n);
}

/* a guest without such disks -> it is never stopped before its pause */
static void test_no_reads(void **state)
{
	struct story s;

	story_begin(&s, 100);
	story_writes(&s, 2000, 16);
	story_run(&s);
	story_moved(&s);
	story_assert(&s, !s.source.guest->calls[RF_VERSIONS_DRAIN]);
	story_assert(&s, !s.source.stats.drain_points && !s.source.stats.suspect_pages);
	story_end(&s);
}

/* much was written while round 0 went on -> it goes before the pause, and the final pass is small */
static void tell_large_suspect(uint64_t seed)
{
	struct story s;
	const struct rf_stats *stats = &s.source.stats;

	story_begin(&s, seed);
	story_size(&s, 256);
	story_writes(&s, 4000, 0);
	story_reads(&s, 1000, 20 * RF_MS);
	story_run(&s);
	story_moved(&s);
	story_assert(&s, stats->suspect_pages > 2000 && stats->drain_points >= 2);
	story_assert(&s, stats->rounds[stats->nrounds - 1].suspect_pages < 500);
	story_end(&s);
}

static void test_large_suspect(void **state)
{
	for_seeds(201, 3, tell_large_suspect);
}

/* as soon as it fits: a round is left in the middle -> nothing of it is forgotten */
static void tell_threshold(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 1000, 32);
	story_reads(&s, 500, 50 * RF_MS);
	s.source.options.switchover = RF_SWITCHOVER_THRESHOLD;
	story_run(&s);
	story_moved(&s);
	story_end(&s);
}

static void test_threshold(void **state)
{
	for_seeds(301, 5, tell_threshold);
}

/* the operator has paused it -> it is not run for a moment either, and arrives paused */
static void test_paused(void **state)
{
	struct story s;

	story_begin(&s, 400);
	story_reads(&s, 400, 100 * RF_MS);
	s.source.spec.paused = true;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.drain_points >= 1 && !s.destination.guest->running);
	story_end(&s);
}

/* a drain point fails, and leaves the guest stopped -> it runs on, and the move has failed */
static void test_failure(void **state)
{
	struct story s;

	story_begin(&s, 500);
	story_reads(&s, 400, 100 * RF_MS);
	s.source.spec.fails[RF_VERSIONS_DRAIN] = true;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, "cannot let the guest's direct I/O end: drain fails on purpose");
	story_assert(&s, s.source.guest->running);
	story_end(&s);
}

/* cancelled while the guest stands still for one -> it runs on */
static void test_cancelled(void **state)
{
	struct story s;

	story_begin(&s, 600);
	story_reads(&s, 400, 100 * RF_MS);
	s.source.spec.cost_ns[RF_VERSIONS_DRAIN] = 300 * RF_MS;
	story_at(&s, 150 * RF_MS, cancel_source);
	story_run(&s);
	story_failed(&s, RF_E_CANCELLED, NULL);
	story_assert(&s, s.source.guest->running && s.source.guest->calls[RF_VERSIONS_DRAIN] == 1);
	story_end(&s);
}

/* disks that take longer than the downtime may -> told so */
static void test_slow_disks_abort(void **state)
{
	struct story s;

	story_begin(&s, 700);
	story_reads(&s, 400, 20 * RF_MS);
	s.source.spec.cost_ns[RF_VERSIONS_DRAIN] = 500 * RF_MS;
	s.source.options.on_stall = RF_ON_STALL_ABORT;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, "the guest's disks take 5");
	story_assert(&s, s.source.guest->running && s.source.stats.drain_points <= 3);
	story_end(&s);
}

static void calm_down(struct story *s)
{
	s->source.guest->spec.cost_ns[RF_VERSIONS_DRAIN] = 5 * RF_MS;
}

/* … and it waits -> the guest is stopped for a twentieth of the time at most, and leaves when the disks are quick again */
static void test_slow_disks_wait(void **state)
{
	struct story s;
	const struct rf_stats *stats = &s.source.stats;

	story_begin(&s, 800);
	story_reads(&s, 400, 20 * RF_MS);
	s.source.spec.cost_ns[RF_VERSIONS_DRAIN] = 500 * RF_MS;
	story_at(&s, 60 * RF_S, calm_down);
	story_run(&s);
	story_moved(&s);
	story_assert(&s, stats->total_ns > 60 * (uint64_t)RF_S && stats->total_ns < 75 * (uint64_t)RF_S);
	story_assert(&s, stats->drain_points > 4 && stats->drain_point_ns < 6 * (uint64_t)RF_S);
	story_assert(&s, stats->downtime_ns < s.source.options.downtime_limit_ns);
	story_end(&s);
}

/* it never gets small, and leaves by force -> what was suspect all the time has gone before */
static void test_force(void **state)
{
	struct story s;
	const struct rf_stats *stats = &s.source.stats;

	story_begin(&s, 900);
	story_writes(&s, 30000, 0);
	story_reads(&s, 400, 20 * RF_MS);
	s.source.options.on_stall = RF_ON_STALL_FORCE;
	s.source.options.downtime_limit_ns = 30 * RF_MS;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, stats->rounds[stats->nrounds - 1].suspect_pages < 500);
	story_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reads),
	    cmocka_unit_test(test_hidden_reads),
	    cmocka_unit_test(test_no_reads),
	    cmocka_unit_test(test_large_suspect),
	    cmocka_unit_test(test_threshold),
	    cmocka_unit_test(test_paused),
	    cmocka_unit_test(test_failure),
	    cmocka_unit_test(test_cancelled),
	    cmocka_unit_test(test_slow_disks_abort),
	    cmocka_unit_test(test_slow_disks_wait),
	    cmocka_unit_test(test_force),
	};

	return run_stories("drains", tests);
}
