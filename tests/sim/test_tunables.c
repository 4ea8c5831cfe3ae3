// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the options promise. */
#include "harness.h"

static void begin(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	s->model.bytes_per_second = 1024 * MIB;
	story_writes(s, 4000, 32);
}

static uint64_t bytes_of_move(struct story *s)
{
	uint64_t bytes;

	story_run(s);
	story_moved(s);
	bytes = rf_sim_count(s->world, RF_SIM_SOURCE).written_bytes;
	story_end(s);
	return bytes;
}

/* chunks of 1 MiB, 64 MiB, 1 GiB, idle guest -> the same bytes are sent */
static void tell_chunk_sizes(uint64_t seed)
{
	static const uint64_t sizes[] = {1 * MIB, 64 * MIB, 1024 * MIB};
	uint64_t bytes[3];
	struct story s;
	int i;

	for (i = 0; i < 3; i++) {
		begin(&s, seed);
		s.source.spec.load = s.destination.spec.load = RF_VERSIONS_IDLE;
		s.source.options.chunk_size_bytes = sizes[i];
		bytes[i] = bytes_of_move(&s);
	}
	assert_int_equal(bytes[0], bytes[1]);
	assert_int_equal(bytes[0], bytes[2]);
}

static void test_chunk_sizes(void **state)
{
	for_seeds(501, 3, tell_chunk_sizes);
}

/* … and a guest that writes moves with each, however far it looks ahead */
static void tell_chunks_writing(uint64_t seed)
{
	static const uint64_t sizes[] = {1 * MIB, 1024 * MIB}, ahead[] = {0, 1 * MIB, 256 * MIB};
	struct story s;
	int i;

	for (i = 0; i < 6; i++) {
		begin(&s, seed);
		s.source.options.chunk_size_bytes = sizes[i % 2];
		s.source.options.register_ahead_bytes = ahead[i / 2];
		bytes_of_move(&s);
	}
}

static void test_chunks_writing(void **state)
{
	for_seeds(511, 3, tell_chunks_writing);
}

/* writes-per-chunk 1, one chunk -> never are two writes in flight */
static void tell_one_write(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.options.chunk_size_bytes = 1024 * MIB;
	s.source.options.writes_per_chunk = 1;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).in_flight_peak == 1);
	story_end(&s);
}

static void test_one_write(void **state)
{
	for_seeds(521, 2, tell_one_write);
}

/* no limit -> many are */
static void tell_many_writes(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.options.chunk_size_bytes = 1024 * MIB;
	s.source.options.lanes = 2;
	s.source.options.queue_depth = 16;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).in_flight_peak > 16);
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).in_flight_peak <= 32);
	story_end(&s);
}

static void test_many_writes(void **state)
{
	for_seeds(525, 2, tell_many_writes);
}

/* 256 MiB that may pin 64 MiB -> neither side ever pins more */
static void tell_max_pinned(uint64_t seed)
{
	static const uint64_t sizes[] = {1 * MIB, 8 * MIB, 64 * MIB};
	struct story s;
	int i;

	for (i = 0; i < 3; i++) {
		begin(&s, seed);
		story_size(&s, 256);
		story_writes(&s, 2000, 128);
		s.source.options.chunk_size_bytes = sizes[i];
		s.source.options.max_pinned_bytes = 64 * MIB;
		story_run(&s);
		story_moved(&s);
		/* the source's own buffers, a few MiB at most, do not count */
		story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).registered_bytes_peak <= 72 * MIB);
		story_assert(&s, rf_sim_count(s.world, RF_SIM_DESTINATION).registered_bytes_peak <= 64 * MIB);
		story_assert(&s, s.source.sent[RF_MSG_RELEASE] > 0);
		story_end(&s);
	}
}

static void test_max_pinned(void **state)
{
	for_seeds(531, 2, tell_max_pinned);
}

/* pin-all -> all that holds data is registered before the first write */
static void tell_pin_all(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.options.register_mode = RF_REGISTER_PIN_ALL;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.stats.registered_bytes >= rf_versions_data(s.source.guest) * RF_PAGE_BYTES);
	story_assert(&s, !s.source.sent[RF_MSG_RELEASE]);
	story_end(&s);
}

static void test_pin_all(void **state)
{
	for_seeds(541, 2, tell_pin_all);
}

/* --source-memory staged -> not a page is sent from where the guest has it */
static void tell_staged(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.options.source_memory = RF_SOURCE_STAGED;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, !s.source.guest->direct_pages && s.source.guest->staged_pages);
	story_end(&s);
}

static void test_staged(void **state)
{
	for_seeds(551, 3, tell_staged);
}

/* --max-bandwidth 50 MiB/s on a link for 1 GiB/s -> over any second within 5 % of it while there is enough to send */
static void tell_max_bandwidth(uint64_t seed)
{
	const uint64_t rate = 50 * MIB;
	struct story s;
	uint64_t bytes;
	size_t i, last;

	begin(&s, seed);
	story_size(&s, 256);
	s.source.options.max_bandwidth = rate;
	s.sampling = true;
	story_run(&s);
	story_moved(&s);
	for (last = s.nsamples - 1; last && s.samples[last] > 150 * MIB; last--)
		;
	story_assert(&s, last > 200);
	for (i = 100; i < s.nsamples; i++) {
		bytes = s.samples[i] - s.samples[i - 100];
		story_assert(&s, bytes <= rate + rate / 20);
		if (i < last && s.samples[i - 100])
			story_assert(&s, bytes >= rate - rate / 20);
	}
	story_end(&s);
}

static void test_max_bandwidth(void **state)
{
	for_seeds(561, 3, tell_max_bandwidth);
}

/* max-write 4 KiB -> that many more writes, the same memory */
static void tell_small_writes(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	story_size(&s, 16);
	s.source.options.max_write_bytes = 4096;
	story_run(&s);
	story_moved(&s);
	story_assert(&s, rf_sim_count(s.world, RF_SIM_SOURCE).writes * 4096 ==
			     rf_sim_count(s.world, RF_SIM_SOURCE).written_bytes);
	story_end(&s);
}

static void test_small_writes(void **state)
{
	for_seeds(571, 2, tell_small_writes);
}

/* a fabric that needs no local keys (tcp) */
static void tell_no_local_keys(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.model.local_keys = false;
	s.source.options.max_pinned_bytes = 64 * MIB;
	s.source.options.chunk_size_bytes = 1 * MIB;
	bytes_of_move(&s);
}

static void test_no_local_keys(void **state)
{
	for_seeds(581, 3, tell_no_local_keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_chunk_sizes),  cmocka_unit_test(test_chunks_writing),
	    cmocka_unit_test(test_one_write),    cmocka_unit_test(test_many_writes),
	    cmocka_unit_test(test_max_pinned),   cmocka_unit_test(test_pin_all),
	    cmocka_unit_test(test_staged),       cmocka_unit_test(test_max_bandwidth),
	    cmocka_unit_test(test_small_writes), cmocka_unit_test(test_no_local_keys),
	};

	return run_stories("tunables", tests);
}
