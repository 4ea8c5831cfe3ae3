// SPDX-License-Identifier: LGPL-2.1-or-later
/* Whatever goes wrong before COMMIT: the source's guest is as it was, the destination's can never run. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

/* a guest whose move uses every kind of message: verified, zeros that were data, more chunks than may be pinned */
static void begin(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	story_size(s, 160);
	s->model.bytes_per_second = 1024 * MIB;
	story_writes(s, 5000, 160);
	s->source.spec.zeroing_percent = 30;
	s->source.options.verify = 1;
	s->source.options.chunk_size_bytes = 4 * MIB;
	s->source.options.max_pinned_bytes = 64 * MIB;
}

static void run_and_expect_failure(struct story *s)
{
	story_run(s);
	story_assert(s, s->source.fault_happened || s->destination.fault_happened);
	story_failed(s, RF_E_FAILED, NULL);
	story_end(s);
}

/* ---- each message lost, with its connection ------------------------------------------------------------------------ */

static const enum rf_message_type from_source[] = {
    RF_MSG_HELLO, RF_MSG_BLOCKS,    RF_MSG_REGISTER, RF_MSG_RELEASE, RF_MSG_ZERO,
    RF_MSG_STATE, RF_MSG_ROUND_END, RF_MSG_LOAD,     RF_MSG_DIGEST,
};
static const enum rf_message_type from_destination[] = {
    RF_MSG_HELLO, RF_MSG_BLOCKS_OK, RF_MSG_KEYS, RF_MSG_RELEASED, RF_MSG_ROUND_OK, RF_MSG_DIGEST_OK, RF_MSG_READY,
};

static void lose_message(uint64_t seed, enum rf_message_type type, unsigned nth, bool at_source, bool cut)
{
	struct story s;
	char fault[64];

	snprintf(fault, sizeof(fault), "drop-message=%u@%u", nth, type);
	begin(&s, seed);
	s.faults_cut = cut;
	if (at_source)
		s.source.fault = fault;
	else
		s.destination.fault = fault;
	run_and_expect_failure(&s);
}

static void tell_lost_messages(uint64_t seed)
{
	size_t i;

	for (i = 0; i < sizeof(from_source) / sizeof(from_source[0]); i++)
		lose_message(seed, from_source[i], 1, true, true);
	for (i = 0; i < sizeof(from_destination) / sizeof(from_destination[0]); i++)
		lose_message(seed, from_destination[i], 1, false, true);
	lose_message(seed, RF_MSG_ROUND_END, 3, true, true);
	lose_message(seed, RF_MSG_ROUND_OK, 2, false, true);
}

static void test_lost_messages(void **state)
{
	for_seeds(201, 2, tell_lost_messages);
}

/* as above, but only one side is told; the other one has to notice by itself */
static void tell_half_lost_messages(uint64_t seed)
{
	size_t i;

	for (i = 0; i < sizeof(from_source) / sizeof(from_source[0]); i++)
		lose_message(seed, from_source[i], 1, true, false);
	for (i = 0; i < sizeof(from_destination) / sizeof(from_destination[0]); i++)
		lose_message(seed, from_destination[i], 1, false, false);
}

static void test_half_lost_messages(void **state)
{
	for_seeds(211, 1, tell_half_lost_messages);
}

/* ---- the fabric ------------------------------------------------------------------------------------------------------ */

static void fabric_fault(uint64_t seed, const char *source, const char *destination)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = source;
	s.destination.fault = destination;
	run_and_expect_failure(&s);
}

static void tell_registrations(uint64_t seed)
{
	fabric_fault(seed, "fail-register=1", NULL);
	fabric_fault(seed, "fail-register=20", NULL);
	fabric_fault(seed, NULL, "fail-register=1");
	fabric_fault(seed, NULL, "fail-register=20");
}

static void test_registrations(void **state)
{
	for_seeds(221, 2, tell_registrations);
}

static void tell_writes(uint64_t seed)
{
	fabric_fault(seed, "fail-write=1", NULL);
	fabric_fault(seed, "fail-write=100", NULL);
}

static void test_writes(void **state)
{
	for_seeds(231, 2, tell_writes);
}

static void tell_vanish(uint64_t seed)
{
	fabric_fault(seed, "vanish=5ms", NULL);
	fabric_fault(seed, "vanish=100ms", NULL);
	fabric_fault(seed, NULL, "vanish=1ms");
	fabric_fault(seed, NULL, "vanish=90ms");
	fabric_fault(seed, "vanish=1@14", NULL);
}

static void test_vanish(void **state)
{
	for_seeds(241, 2, tell_vanish);
}

/* one side says nothing more from t on -> the other one notices within 5 s, and so does the first */
static void silence(uint64_t seed, const char *source, const char *destination, int64_t t_ns)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = source;
	s.destination.fault = destination;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, NULL);
	story_assert(&s, s.source.fault_happened || s.destination.fault_happened);
	if (!s.source.fault || strncmp(s.source.fault, "freeze", 6))
		story_assert(&s, s.source.ended_ns - t_ns < 5500 * RF_MS);
	if (!s.destination.fault || strncmp(s.destination.fault, "freeze", 6))
		story_assert(&s, s.destination.ended_ns - t_ns < 5500 * RF_MS);
	story_end(&s);
}

static void tell_silence(uint64_t seed)
{
	silence(seed, "mute=50ms", NULL, 50 * RF_MS);
	silence(seed, NULL, "mute=120ms", 120 * RF_MS);
	silence(seed, "freeze=80ms", NULL, 80 * RF_MS);
	silence(seed, NULL, "freeze=80ms", 80 * RF_MS);
	silence(seed, NULL, "freeze=2ms", 2 * RF_MS);
}

static void test_silence(void **state)
{
	for_seeds(251, 2, tell_silence);
}

/* frozen for 2 s -> that is no reason to give up */
static void tell_short_freeze(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.fault = "freeze=80ms,2s";
	story_run(&s);
	story_moved(&s);
	story_assert(&s, s.source.ended_ns > 2 * RF_S);
	story_end(&s);
}

static void test_short_freeze(void **state)
{
	for_seeds(261, 2, tell_short_freeze);
}

static void stall(struct story *s, const struct rf_engine_progress *p)
{
	s->on_progress = NULL;
	rf_sim_spend(s->world, 4500 * RF_MS);
}

static void watch(struct story *s)
{
	s->on_progress = stall;
}

/* whoever looks at the source's progress stands still for 4.5 s -> the answers that came meanwhile are heard */
static void tell_slow_reader(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.model.bytes_per_second = 10 * MIB;
	story_writes(&s, 100, 16);
	story_at(&s, 2900 * RF_MS, watch);
	story_run(&s);
	story_moved(&s);
	story_end(&s);
}

static void test_slow_reader(void **state)
{
	for_seeds(265, 2, tell_slow_reader);
}

/* ---- the guests ------------------------------------------------------------------------------------------------------ */

static void guest_fault(uint64_t seed, bool at_source, enum rf_versions_op op, enum rf_code code, const char *sentence)
{
	struct story s;

	begin(&s, seed);
	(at_source ? &s.source : &s.destination)->spec.fails[op] = true;
	story_run(&s);
	story_failed(&s, code, sentence);
	story_end(&s);
}

static void tell_guest_faults(uint64_t seed)
{
	guest_fault(seed, true, RF_VERSIONS_CHECK, RF_E_REFUSED, "check fails on purpose");
	guest_fault(seed, true, RF_VERSIONS_FACTS, RF_E_FAILED, "facts fails on purpose");
	guest_fault(seed, true, RF_VERSIONS_PREPARE, RF_E_FAILED, "prepare fails on purpose");
	guest_fault(seed, true, RF_VERSIONS_PAUSE, RF_E_FAILED, "pause fails on purpose");
	guest_fault(seed, true, RF_VERSIONS_SAVE, RF_E_FAILED, "save fails on purpose");
	guest_fault(seed, false, RF_VERSIONS_PREPARE, RF_E_FAILED, "prepare fails on purpose");
	guest_fault(seed, false, RF_VERSIONS_LOAD_EARLY, RF_E_FAILED, "early load fails on purpose");
	guest_fault(seed, false, RF_VERSIONS_LOAD, RF_E_FAILED, "load fails on purpose");
}

static void test_guest_faults(void **state)
{
	for_seeds(271, 3, tell_guest_faults);
}

/* what shall run the guest ends while memory is copied, for a minute yet -> both sides know it at once */
static void tell_destination_guest_dies(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.options.max_bandwidth = MIB;
	s.destination.spec.dies_ns = 2 * RF_S;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, "the guest has died on purpose");
	story_assert(&s, s.source.ended_ns < 3 * RF_S);
	story_end(&s);
}

static void test_destination_guest_dies(void **state)
{
	for_seeds(275, 2, tell_destination_guest_dies);
}

/* what the destination cannot take -> refused before anything was touched, for the reason that it gives */
static void refusal(struct story *s, const char *part)
{
	story_run(s);
	story_failed(s, RF_E_REFUSED, part);
	story_assert(s,
		     !s->source.guest->calls[RF_VERSIONS_PREPARE] && !s->destination.guest->calls[RF_VERSIONS_PREPARE]);
	story_end(s);
}

static void tell_refusals(uint64_t seed)
{
	struct story s;

	story_begin(&s, seed);
	s.destination.spec.facts = "machine=versions-2";
	refusal(&s, "versions-2");

	story_begin(&s, seed);
	s.destination.spec.block_pages[0]++;
	refusal(&s, "versions0");

	story_begin(&s, seed);
	s.destination.spec.nblocks = 2;
	s.destination.spec.block_pages[1] = 16;
	refusal(&s, NULL);
}

static void test_refusals(void **state)
{
	for_seeds(281, 2, tell_refusals);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lost_messages), cmocka_unit_test(test_half_lost_messages),
	    cmocka_unit_test(test_registrations), cmocka_unit_test(test_writes),
	    cmocka_unit_test(test_vanish),        cmocka_unit_test(test_silence),
	    cmocka_unit_test(test_short_freeze),  cmocka_unit_test(test_slow_reader),
	    cmocka_unit_test(test_guest_faults),  cmocka_unit_test(test_destination_guest_dies),
	    cmocka_unit_test(test_refusals),
	};

	return run_stories("faults", tests);
}
