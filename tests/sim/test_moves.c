// SPDX-License-Identifier: LGPL-2.1-or-later
/* Moves that succeed: guests of all kinds, and what may be sent and allocated for them. */
#include "harness.h"

#include <string.h>

static void run_and_expect_move(struct story *s)
{
	story_run(s);
	story_moved(s);
	story_end(s);
}

/* an idle guest -> it moves, and no more is sent than its data */
static void tell_idle(uint64_t seed)
{
	struct story s;
	uint64_t data_bytes;

	story_begin(&s, seed);
	story_run(&s);
	story_moved(&s);
	data_bytes = rf_versions_data(s.source.guest) * RF_PAGE_BYTES;
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).written_bytes <= data_bytes + data_bytes / 50);
	story_assert(&s, s.source.stats.normal_bytes == rf_sim_count(s.world, RF_SIM_SOURCE).written_bytes);
	story_assert(&s, s.source.stats.downtime_ns < 100 * (uint64_t)RF_MS);
	story_end(&s);
}

static void test_idle(void **state)
{
	for_seeds(1, 5, tell_idle);
}

/* 2000 pages a second are written -> rounds get smaller, it moves within its downtime limit */
static void tell_writing(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 2000, 16);
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.nrounds >= 3);
	story_assert(&s, s.source.stats.rounds[1].bytes < s.source.stats.rounds[0].bytes);
	story_assert(&s, s.source.stats.downtime_ns < s.source.options.downtime_limit_ns);
	story_end(&s);
}

static void test_writing(void **state)
{
	for_seeds(11, 5, tell_writing);
}

static void tell_sweeping(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 3000, 32);
	s.source.spec.load = s.destination.spec.load = RF_VERSIONS_SWEEP;
	run_and_expect_move(&s);
}

static void test_sweeping(void **state)
{
	for_seeds(21, 3, tell_sweeping);
}

/* nine pages of ten are zero, and many become zero -> they are not sent */
static void tell_zeros(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 2000, 16);
	s.source.spec.zero_percent = 90;
	s.source.spec.zeroing_percent = 70;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.rounds[0].bytes < 10 * MIB);
	story_assert(&s, s.source.stats.duplicate_pages > 40 * PAGES_PER_MIB);
	story_end(&s);
}

static void test_zeros(void **state)
{
	for_seeds(31, 3, tell_zeros);
}

/* 20 GiB, 1 % used -> neither is what is not there sent nor does it take memory over there */
static void tell_sparse(uint64_t seed)
{
	struct story s;
	uint64_t used_pages;

	story_begin(&s, seed);
	story_size(&s, 20 * 1024);
	s.model.bytes_per_second = 1024 * MIB;
	s.source.spec.data_percent = 1;
	s.source.spec.zero_percent = 0;
	s.source.spec.save_writes = 0;
	s.destination.spec.data_percent = 1;
	story_run(&s);
	story_moved(&s);
	used_pages = rf_versions_present(s.source.guest);
	story_assert(&s, used_pages < 20 * 1024 * PAGES_PER_MIB / 50);
	story_assert(&s, rf_versions_present(s.destination.guest) <= used_pages + used_pages / 10);
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).written_bytes <=
			     (used_pages + used_pages / 50) * RF_PAGE_BYTES);
	story_end(&s);
}

static void test_sparse(void **state)
{
	for_seeds(41, 1, tell_sparse);
}

/* devices write a lot while their state is saved, into pages that were sent, into holes, and into pages that were discarded
 * a moment before and are being searched for at the same time -> all of it arrives, and the holes read as zeros */
static void tell_saving(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 1000, 16);
	s.source.spec.pause_holes = s.source.spec.save_writes = 4000;
	s.source.spec.cost_ns[RF_VERSIONS_SAVE] = (int64_t)(seed % 4) * 300000;
	s.destination.spec.data_percent = 50;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.rounds[s.source.stats.nrounds - 1].pages >= 4000);
	story_assert(&s, s.source.stats.downtime_ns ==
			     s.source.stats.downtime_pause_ns + s.source.stats.downtime_save_ns +
				 s.source.stats.downtime_scan_ns + s.source.stats.downtime_final_pass_ns +
				 s.source.stats.downtime_load_ns + s.source.stats.downtime_hand_off_ns);
	story_end(&s);
}

static void test_saving(void **state)
{
	for_seeds(201, 8, tell_saving);
}

/* paused by its operator -> it is paused at the destination, and never runs */
static void tell_paused(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 2000, 16);
	s.source.spec.paused = true;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, !s.destination.guest->resume_run && !s.guests.runners);
	story_end(&s);
}

static void test_paused(void **state)
{
	for_seeds(51, 3, tell_paused);
}

/* blocks that are not multiples of chunks or slices, one of a single page */
static void tell_blocks(uint64_t seed)
{
	struct story s;
	static const uint64_t pages[] = {10 * PAGES_PER_MIB + 3, 1, 16384 + 1, 4095};

	story_begin(&s, seed);
	story_writes(&s, 1000, 4);
	s.source.spec.nblocks = s.destination.spec.nblocks = 4;
	memcpy(s.source.spec.block_pages, pages, sizeof(pages));
	memcpy(s.destination.spec.block_pages, pages, sizeof(pages));
	run_and_expect_move(&s);
}

static void test_blocks(void **state)
{
	for_seeds(61, 5, tell_blocks);
}

/* nothing in it at all -> it moves */
static void tell_empty(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	s.source.spec.data_percent = 0;
	s.source.spec.save_writes = 0;
	s.source.spec.state_bytes = 0;
	run_and_expect_move(&s);
}

static void test_empty(void **state)
{
	for_seeds(71, 3, tell_empty);
}

/* digests are compared -> they are the same */
static void tell_verified(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	story_writes(&s, 2000, 16);
	s.source.options.verify = 1;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.sent[RF_MSG_DIGEST] + s.destination.sent[RF_MSG_DIGEST] > 0);
	story_end(&s);
}

static void test_verified(void **state)
{
	for_seeds(81, 3, tell_verified);
}

/* loading takes 30 s, much longer than a silent peer is trusted -> busy is not dead */
static void tell_long_load(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	s.destination.spec.cost_ns[RF_VERSIONS_LOAD] = 30 * RF_S;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.ended_ns > 30 * RF_S && s.source.ended_ns < 32 * RF_S);
	story_assert(&s, s.source.stats.downtime_load_ns >= 30 * (uint64_t)RF_S);
	story_end(&s);
}

static void test_long_load(void **state)
{
	for_seeds(91, 2, tell_long_load);
}

/* 20 MiB of device state that the guest hands out while it still runs -> they are no part of the downtime, and the
 * destination has loaded them by its end */
static void tell_early(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	s.source.spec.early_bytes = 20 << 20;
	s.destination.spec.cost_ns[RF_VERSIONS_LOAD_EARLY] = 100000;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.destination.guest->calls[RF_VERSIONS_LOAD_EARLY] > 100);
	story_assert(&s, s.source.stats.state_bytes == s.source.spec.early_bytes + s.source.spec.state_bytes);
	story_assert(&s, s.source.stats.downtime_ns < 100000000);
	story_end(&s);
}

static void test_early(void **state)
{
	for_seeds(93, 3, tell_early);
}

/* so do pausing, saving and resuming */
static void tell_long_pause(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	s.source.spec.cost_ns[RF_VERSIONS_PAUSE] = 20 * RF_S;
	s.source.spec.cost_ns[RF_VERSIONS_SAVE] = 20 * RF_S;
	s.destination.spec.cost_ns[RF_VERSIONS_RESUME] = 20 * RF_S;
	run_and_expect_move(&s);
}

static void test_long_pause(void **state)
{
	for_seeds(95, 2, tell_long_pause);
}

/* the same seed -> the same run, to the nanosecond */
static void tell_twice(uint64_t seed)
{
	struct rf_sim_count count[2];
	int64_t ended_ns[2];
	struct story s;
	int i;

	for (i = 0; i < 2; i++) {
		story_begin(&s, seed);
		story_writes(&s, 2000, 16);
		story_run(&s);
		story_moved(&s);
		count[i] = rf_sim_count(s.world, RF_SIM_SOURCE);
		ended_ns[i] = s.source.ended_ns;
		story_end(&s);
	}
	assert_int_equal(ended_ns[0], ended_ns[1]);
	assert_int_equal(count[0].writes, count[1].writes);
}

static void test_replay(void **state)
{
	for_seeds(99, 2, tell_twice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_idle),       cmocka_unit_test(test_writing),   cmocka_unit_test(test_sweeping),
	    cmocka_unit_test(test_zeros),      cmocka_unit_test(test_sparse),    cmocka_unit_test(test_saving),
	    cmocka_unit_test(test_paused),     cmocka_unit_test(test_blocks),    cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_verified),   cmocka_unit_test(test_long_load), cmocka_unit_test(test_early),
	    cmocka_unit_test(test_long_pause), cmocka_unit_test(test_replay),
	};

	return run_stories("moves", tests);
}
