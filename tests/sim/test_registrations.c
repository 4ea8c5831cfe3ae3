// SPDX-License-Identifier: LGPL-2.1-or-later
/* Registering guest memory where that is dear, limited, or more than a host has memory for. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

static void begin(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	s->model.bytes_per_second = 1024 * MIB;
	story_writes(s, 4000, 32);
}

static struct rf_sim_count count(const struct story *s, enum rf_sim_end end)
{
	return rf_sim_count(s->world, end);
}

static void touched_nothing(struct story *s)
{
	story_assert(s, !s->source.guest->calls[RF_VERSIONS_PREPARE]);
	story_assert(s, !s->destination.guest->calls[RF_VERSIONS_PREPARE]);
	story_assert(s, !count(s, RF_SIM_SOURCE).registrations && !count(s, RF_SIM_DESTINATION).registrations);
}

/* ---- on demand ------------------------------------------------------------------------------------------------- */

/* register odp -> each chunk is registered once on both sides, whatever is written, and nothing is ever pinned */
static void tell_on_demand(uint64_t seed)
{
	struct story s;
	enum rf_sim_end end;

	begin(&s, seed);
	s.model.on_demand[0] = s.model.on_demand[1] = s.model.pins = true;
	s.source.spec.discarder = "the balloon";
	s.source.options.register_mode = RF_REGISTER_ODP;
	story_size(&s, 256);
	s.source.options.chunk_size_bytes = 16 * MIB;
	s.source.options.max_pinned_bytes = 64 * MIB;
	story_run(&s);
	story_moved(&s);
	for (end = RF_SIM_SOURCE; end <= RF_SIM_DESTINATION; end++) {
		story_assert(&s, count(&s, end).on_demand_registrations == 16 && !count(&s, end).registered_bytes_peak);
		story_assert(&s, count(&s, end).registrations == 16);
	}
	story_assert(&s, !s.source.sent[RF_MSG_RELEASE]);
	story_end(&s);
}

static void test_on_demand(void **state)
{
	for_seeds(1001, 3, tell_on_demand);
}

/* … a side that cannot -> refused before anything is touched */
static void tell_on_demand_refused(uint64_t seed)
{
	static const char *const sides[] = {"the source cannot register memory on demand",
					    "the destination cannot register memory on demand"};
	struct story s;
	int i;

	for (i = 0; i < 2; i++) {
		begin(&s, seed);
		s.model.on_demand[!i] = true;
		s.source.options.register_mode = RF_REGISTER_ODP;
		story_run(&s);
		story_failed(&s, RF_E_REFUSED, sides[i]);
		story_assert(&s, s.destination.error.code == RF_E_REFUSED);
		touched_nothing(&s);
		story_end(&s);
	}
}

static void test_on_demand_refused(void **state)
{
	for_seeds(1005, 2, tell_on_demand_refused);
}

/* ---- limits that are asked about beforehand -------------------------------------------------------------------------- */

static void begin_memlock(struct story *s, uint64_t seed, int side)
{
	begin(s, seed);
	story_size(s, 512);
	story_writes(s, 2000, 64);
	s->model.memlock_bytes[side] = s->model.pinnable_bytes[side] = 200 * MIB;
}

/* 384 MiB of data, 200 MiB may be pinned -> refused with what would do; that does */
static void tell_memlock(uint64_t seed)
{
	struct story s;
	int side;

	for (side = 0; side < 2; side++) {
		begin_memlock(&s, seed, side);
		s.source.options.register_mode = seed % 2 ? RF_REGISTER_PIN_ALL : RF_REGISTER_ON_DEMAND;
		story_run(&s);
		story_failed(&s, RF_E_REFUSED, "than this host allows; --max-pinned 128M would do");
		touched_nothing(&s);
		story_assert(&s, (s.destination.delivered_ns[RF_MSG_REFUSED] >= 0) == (side == RF_SIM_DESTINATION));
		story_end(&s);

		begin_memlock(&s, seed, side);
		s.source.options.max_pinned_bytes = 128 * MIB;
		story_run(&s);
		story_moved(&s);
		story_assert(&s, !s.source.stats.failed_registrations);
		story_end(&s);
	}
}

static void test_memlock(void **state)
{
	for_seeds(1011, 2, tell_memlock);
}

/* … less than any max-pinned -> it is not offered */
static void tell_memlock_tiny(uint64_t seed)
{
	struct story s;

	begin_memlock(&s, seed, RF_SIM_DESTINATION);
	s.model.memlock_bytes[RF_SIM_DESTINATION] = 8 * MIB;
	story_run(&s);
	story_failed(&s, RF_E_REFUSED, "the other side refuses: ");
	story_assert(&s, !strstr(s.source.error.text, "--max-pinned"));
	touched_nothing(&s);
	story_end(&s);
}

static void test_memlock_tiny(void **state)
{
	for_seeds(1015, 2, tell_memlock_tiny);
}

/* … not even for the rings that pages are staged in */
static void tell_memlock_staged(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.model.memlock_bytes[RF_SIM_SOURCE] = 4 * MIB;
	s.source.options.source_memory = RF_SOURCE_STAGED;
	s.source.options.lanes = 1;
	story_run(&s);
	story_moved(&s);
	story_end(&s);
	begin(&s, seed);
	s.model.memlock_bytes[RF_SIM_SOURCE] = 4 * MIB;
	s.source.options.source_memory = RF_SOURCE_STAGED;
	s.source.options.lanes = 3;
	story_run(&s);
	story_failed(&s, RF_E_REFUSED, "8388608 bytes more would have to be pinned");
	touched_nothing(&s);
	story_end(&s);
}

static void test_memlock_staged(void **state)
{
	for_seeds(1017, 1, tell_memlock_staged);
}

/* ---- memory that is not there when it is asked for ------------------------------------------------------------------- */

/* 48 MiB of data, and a side that can register 20 MiB -> it moves with less registered at once */
static void tell_no_memory(uint64_t seed)
{
	static const uint64_t chunks[] = {1 * MIB, 8 * MIB, 64 * MIB};
	struct story s;
	int i;

	for (i = 0; i < 6; i++) {
		begin(&s, seed);
		s.model.pinnable_bytes[i % 2] = 20 * MIB;
		s.source.options.chunk_size_bytes = chunks[i / 2];
		if (seed % 3 == 0)
			s.source.options.register_mode = RF_REGISTER_PIN_ALL;
		story_run(&s);
		story_moved(&s);
		story_assert(&s, count(&s, (enum rf_sim_end)(i % 2)).failed_registrations > 0);
		story_assert(&s, s.source.stats.failed_registrations > 0);
		story_assert(&s, count(&s, (enum rf_sim_end)(i % 2)).registered_bytes_peak <= 20 * MIB);
		story_end(&s);
	}
}

static void test_no_memory(void **state)
{
	for_seeds(1021, 6, tell_no_memory);
}

/* … on both sides, down to 1 MiB */
static void tell_hardly_any_memory(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.model.pinnable_bytes[RF_SIM_SOURCE] = 6 * MIB;
	s.model.pinnable_bytes[RF_SIM_DESTINATION] = 1 * MIB;
	story_run(&s);
	story_moved(&s);
	story_end(&s);
}

static void test_hardly_any_memory(void **state)
{
	for_seeds(1031, 3, tell_hardly_any_memory);
}

/* … not even that -> it fails with the limit's name, and the guest runs on */
static void tell_no_memory_at_all(uint64_t seed)
{
	static const char *const sentences[] = {
	    "even 1 MiB of guest memory cannot be registered here: there is no memory for it",
	    "even 1 MiB of guest memory cannot be registered at the destination: raise what it may lock in memory"};
	struct story s;
	int i;

	for (i = 0; i < 2; i++) {
		begin(&s, seed);
		s.source.spec.data_percent = 100;
		s.source.spec.zero_percent = 0;
		s.model.pinnable_bytes[i] = 512 << 10;
		story_run(&s);
		story_failed(&s, RF_E_FAILED, sentences[i]);
		story_assert(&s, s.source.guest->running);
		story_end(&s);
	}
}

static void test_no_memory_at_all(void **state)
{
	for_seeds(1041, 2, tell_no_memory_at_all);
}

/* ---- guests that give memory back ------------------------------------------------------------------------------------ */

static void run_pinned(struct story *s, uint64_t seed, const char *discarder, bool never, bool staged)
{
	begin(s, seed);
	s->model.pins = true;
	s->source.spec.discarder = discarder;
	s->source.spec.never_discards = never;
	s->source.options.source_memory = staged ? RF_SOURCE_STAGED : RF_SOURCE_AUTO;
	story_run(s);
}

/* on a card that pins -> refused by name, unless it never does or is sent from copies */
static void tell_discards(uint64_t seed)
{
	struct story s;

	run_pinned(&s, seed, "the device virtio-balloon-pci", false, false);
	story_failed(&s, RF_E_REFUSED, "the device virtio-balloon-pci gives guest memory back to the host, and a card");
	touched_nothing(&s);
	story_end(&s);
	run_pinned(&s, seed, NULL, false, false);
	story_failed(&s, RF_E_REFUSED, "the guest may give memory back to the host (rf_guest_set_discarder()");
	story_end(&s);
	run_pinned(&s, seed, NULL, true, false);
	story_moved(&s);
	story_end(&s);
	run_pinned(&s, seed, "the balloon", false, true);
	story_moved(&s);
	/* its own rings, and nothing of the guest */
	story_assert(&s, count(&s, RF_SIM_SOURCE).registrations == s.source.stats.lanes);
	story_end(&s);
}

static void test_discards(void **state)
{
	for_seeds(1051, 2, tell_discards);
}

/* ---- what it costs --------------------------------------------------------------------------------------------------- */

/* However long a release takes, the guest runs before the first -> the same downtime, to the nanosecond */
static void tell_release(uint64_t seed)
{
	static const int64_t costs[] = {0, 2 * RF_S};
	uint64_t downtime[2];
	struct story s;
	int i;

	for (i = 0; i < 2; i++) {
		begin(&s, seed);
		s.model.release_ns = costs[i];
		s.source.options.chunk_size_bytes = 4 * MIB;
		story_run(&s);
		story_moved(&s);
		story_assert(&s, !count(&s, RF_SIM_SOURCE).releases && !count(&s, RF_SIM_DESTINATION).releases);
		downtime[i] = s.source.stats.downtime_ns;
		if (i)
			story_assert(&s,
				     rf_sim_now(s.world) > s.destination.delivered_ns[RF_MSG_RUNNING] + 16 * 2 * RF_S);
		story_end(&s);
	}
	assert_int_equal(downtime[0], downtime[1]);
}

static void test_release(void **state)
{
	for_seeds(1061, 3, tell_release);
}

static uint64_t round_0_ns(uint64_t seed, uint64_t chunk, uint64_t max_pinned, uint64_t ahead, uint64_t *bytes)
{
	struct story s;
	uint64_t ns;

	begin(&s, seed);
	story_size(&s, 1024);
	s.source.spec.load = s.destination.spec.load = RF_VERSIONS_IDLE;
	s.source.spec.data_percent = 100;
	s.model.delay_ns = RF_MS;
	s.source.options.chunk_size_bytes = chunk;
	s.source.options.max_pinned_bytes = max_pinned;
	s.source.options.register_ahead_bytes = ahead;
	story_run(&s);
	story_moved(&s);
	ns = s.source.stats.rounds[0].duration_ns;
	*bytes = s.source.stats.normal_bytes;
	story_end(&s);
	return ns;
}

/* a wire of 1 ms each way, 1 GiB/s -> chunks of 1 MiB are nearly as fast as 64 MiB, also when few may be registered */
static void tell_small_chunks(uint64_t seed)
{
	uint64_t small, large, pinned, late, bytes[4];

	large = round_0_ns(seed, 64 * MIB, 0, 256 * MIB, &bytes[0]);
	small = round_0_ns(seed, 1 * MIB, 0, 256 * MIB, &bytes[1]);
	pinned = round_0_ns(seed, 1 * MIB, 128 * MIB, 256 * MIB, &bytes[2]);
	late = round_0_ns(seed, 1 * MIB, 0, 0, &bytes[3]);
	if (getenv("VERBOSE"))
		printf("64 MiB %.1f ms, 1 MiB %.1f ms, of 128 MiB %.1f ms, without looking ahead %.1f ms\n",
		       (double)large / 1e6, (double)small / 1e6, (double)pinned / 1e6, (double)late / 1e6);
	assert_true(small * 9 / 10 <= large);
	assert_true(pinned * 9 / 10 <= large);
	assert_true(late > 2 * small); /* or the comparison would show nothing */
	assert_int_equal(bytes[0], bytes[1]);
	assert_int_equal(bytes[0], bytes[2]);
	assert_int_equal(bytes[0], bytes[3]);
}

static void test_small_chunks(void **state)
{
	for_seeds(1071, 2, tell_small_chunks);
}

/* What is told afterwards */
static void tell_statistics(uint64_t seed)
{
	struct story s;
	const struct rf_stats *source, *destination;

	begin(&s, seed);
	s.source.options.lanes = 3;
	story_run(&s);
	story_moved(&s);
	source = &s.source.stats;
	destination = &s.destination.stats;
	story_assert(&s, source->registrations == source->fabric_registrations && source->fabric_register_ns > 0);
	story_assert(&s, destination->fabric_registrations == destination->registrations);
	story_assert(&s, destination->fabric_register_ns > 0 && destination->registrations == source->registrations);
	story_assert(&s, source->completions == count(&s, RF_SIM_SOURCE).writes);
	story_assert(&s, source->doorbells > 0 && source->doorbells < source->completions);
	story_assert(&s, source->lane_bytes_min > 0 && source->lane_bytes_min <= source->lane_bytes_max);
	story_assert(&s, source->lane_bytes_min + 2 * source->lane_bytes_max >= source->normal_bytes);
	story_assert(&s, source->wait_key_ns >= source->rounds[0].wait_key_ns);
	story_end(&s);
}

static void test_statistics(void **state)
{
	for_seeds(1081, 2, tell_statistics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_on_demand),         cmocka_unit_test(test_on_demand_refused),
	    cmocka_unit_test(test_memlock),           cmocka_unit_test(test_memlock_tiny),
	    cmocka_unit_test(test_memlock_staged),    cmocka_unit_test(test_no_memory),
	    cmocka_unit_test(test_hardly_any_memory), cmocka_unit_test(test_no_memory_at_all),
	    cmocka_unit_test(test_discards),          cmocka_unit_test(test_release),
	    cmocka_unit_test(test_small_chunks),      cmocka_unit_test(test_statistics),
	};

	return run_stories("registrations", tests);
}
