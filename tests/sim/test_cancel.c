// SPDX-License-Identifier: LGPL-2.1-or-later
/* Cancelling, at any moment: before COMMIT the source's guest runs on; from then on nothing changes. */
#include "harness.h"

static void begin(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	story_writes(s, 4000, 32);
	s->source.options.verify = 1;
}

static void run_and_expect_cancelled(struct story *s)
{
	story_run(s);
	story_failed(s, RF_E_CANCELLED, NULL);
	story_assert(s, s->source.guest->running);
	story_end(s);
}

/* before it began -> nothing is touched */
static void tell_before(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	story_at(&s, 0, cancel_source);
	story_run(&s);
	story_failed(&s, RF_E_CANCELLED, NULL);
	story_assert(&s, !s.source.guest->calls[RF_VERSIONS_PREPARE]);
	story_end(&s);
}

/* t into a move of about a second */
static void tell_at_times(uint64_t seed)
{
	static const int64_t times_ns[] = {150 * RF_US, 400 * RF_US, 1 * RF_MS,  3 * RF_MS,
					   50 * RF_MS,  300 * RF_MS, 520 * RF_MS};
	struct story s;
	size_t i;

	for (i = 0; i < sizeof(times_ns) / sizeof(times_ns[0]); i++) {
		begin(&s, seed);
		story_at(&s, times_ns[i], cancel_source);
		run_and_expect_cancelled(&s);
	}
}

static void in_round_0(struct story *s, const struct rf_engine_progress *p)
{
	if (p->phase == RF_ENGINE_ROUNDS && p->sent_bytes)
		cancel_source(s);
}

static void in_round_2(struct story *s, const struct rf_engine_progress *p)
{
	if (p->phase == RF_ENGINE_ROUNDS && p->round == 2)
		cancel_source(s);
}

static void in_setup(struct story *s, const struct rf_engine_progress *p)
{
	if (p->phase == RF_ENGINE_SETUP)
		cancel_source(s);
}

static void in_switchover(struct story *s, const struct rf_engine_progress *p)
{
	if (p->phase == RF_ENGINE_SWITCHOVER)
		cancel_source(s);
}

static void tell_in_phases(uint64_t seed)
{
	void (*const phases[])(struct story *, const struct rf_engine_progress *) = {in_setup, in_round_0, in_round_2,
										     in_switchover};
	struct story s;
	size_t i;

	for (i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		begin(&s, seed);
		s.on_progress = phases[i];
		run_and_expect_cancelled(&s);
	}
}

/* while the guest is stopped, while the other side loads */
static void tell_during_operations(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.spec.cost_ns[RF_VERSIONS_PAUSE] = 20 * RF_S;
	story_at(&s, 10 * RF_S, cancel_source);
	run_and_expect_cancelled(&s);

	begin(&s, seed);
	s.source.spec.cost_ns[RF_VERSIONS_SAVE] = 20 * RF_S;
	story_at(&s, 10 * RF_S, cancel_source);
	run_and_expect_cancelled(&s);

	begin(&s, seed);
	s.destination.spec.cost_ns[RF_VERSIONS_LOAD] = 20 * RF_S;
	story_at(&s, 10 * RF_S, cancel_source);
	run_and_expect_cancelled(&s);
}

/* after COMMIT: too late, it moves */
static void tell_too_late(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.spec.cost_ns[RF_VERSIONS_RESUME] = 20 * RF_S;
	story_at(&s, 10 * RF_S, cancel_source);
	story_at(&s, 11 * RF_S, cancel_destination);
	story_run(&s);
	story_moved(&s);
	story_end(&s);
}

/* the destination's operator cancels -> the source fails, and says whose doing it was */
static void tell_destination(uint64_t seed)
{
	static const int64_t times_ns[] = {1 * RF_MS, 50 * RF_MS, 520 * RF_MS};
	struct story s;
	size_t i;

	for (i = 0; i < sizeof(times_ns) / sizeof(times_ns[0]); i++) {
		begin(&s, seed);
		story_at(&s, times_ns[i], cancel_destination);
		story_run(&s);
		story_assert(&s, s.source.ret && s.source.guest->running);
		story_assert(&s, s.destination.ret && s.destination.error.code == RF_E_CANCELLED);
		story_end(&s);
	}
	begin(&s, seed);
	s.destination.spec.cost_ns[RF_VERSIONS_LOAD] = 20 * RF_S;
	story_at(&s, 10 * RF_S, cancel_destination);
	story_run(&s);
	story_assert(&s, s.source.ret && s.source.guest->running && s.destination.ret);
	story_end(&s);
}

/* nobody there to accept -> cancelled while connecting */
static void tell_connecting(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "none";
	s.destination.spec.cost_ns[RF_VERSIONS_CHECK] = 8 * RF_S;
	story_at(&s, 3 * RF_S, cancel_source);
	story_run(&s);
	story_failed(&s, RF_E_CANCELLED, NULL);
	story_assert(&s, s.source.ended_ns < 4 * RF_S);
	story_end(&s);
}

static void test_before(void **state)
{
	for_seeds(301, 3, tell_before);
}

static void test_at_times(void **state)
{
	for_seeds(311, 3, tell_at_times);
}

static void test_in_phases(void **state)
{
	for_seeds(321, 3, tell_in_phases);
}

static void test_during_operations(void **state)
{
	for_seeds(331, 2, tell_during_operations);
}

static void test_too_late(void **state)
{
	for_seeds(341, 3, tell_too_late);
}

static void test_destination(void **state)
{
	for_seeds(351, 3, tell_destination);
}

static void test_connecting(void **state)
{
	for_seeds(361, 2, tell_connecting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_before),     cmocka_unit_test(test_at_times),
	    cmocka_unit_test(test_in_phases),  cmocka_unit_test(test_during_operations),
	    cmocka_unit_test(test_too_late),   cmocka_unit_test(test_destination),
	    cmocka_unit_test(test_connecting),
	};

	return run_stories("cancel", tests);
}
