// SPDX-License-Identifier: LGPL-2.1-or-later
/* From COMMIT on: whatever is lost, at most one guest runs, and a source that does not know says so. */
#include "harness.h"

#include <string.h>

static void begin(struct story *s, uint64_t seed)
{
	story_begin(s, seed);
	story_size(s, 16);
	story_writes(s, 1000, 8);
}

/* COMMIT is lost with the connection -> the source cannot know; the destination, which never heard it, gives up */
static void tell_lost_commit(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "drop-message=1@18";
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, s.destination.ret && s.destination.guest->successes[RF_VERSIONS_DISCARD]);
	story_assert(&s, !s.guests.runners);
	story_end(&s);
}

static void test_lost_commit(void **state)
{
	for_seeds(401, 5, tell_lost_commit);
}

/* the connection breaks just after COMMIT went out -> it may or may not have arrived; never do both run */
static void tell_cut_after_commit(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "vanish=1@18";
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, s.guests.runners <= 1);
	story_assert(&s, s.guests.runners == !s.destination.ret);
	story_end(&s);
}

static void test_cut_after_commit(void **state)
{
	for_seeds(411, 10, tell_cut_after_commit);
}

/* RUNNING is lost with the connection -> it runs over there, and the source does not know */
static void tell_lost_running(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.fault = "drop-message=1@19";
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, !s.destination.ret && s.destination.guest->running);
	story_end(&s);
}

static void test_lost_running(void **state)
{
	for_seeds(421, 5, tell_lost_running);
}

/* the source stands still for a minute right after COMMIT -> the answer is there when it wakes up */
static void tell_source_sleeps(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "freeze=1@18,60s";
	story_run(&s);
	story_assert(&s, !s.destination.ret && s.destination.guest->running);
	if (s.source.ret)
		story_unknown(&s);
	else
		story_moved(&s);
	story_end(&s);
}

static void test_source_sleeps(void **state)
{
	for_seeds(431, 3, tell_source_sleeps);
}

/* the destination stands still for two minutes after READY -> the source waits, then says that it does not know */
static void tell_destination_sleeps(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.fault = "freeze=1@17,120s";
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, s.guests.runners <= 1);
	story_end(&s);
}

static void test_destination_sleeps(void **state)
{
	for_seeds(441, 3, tell_destination_sleeps);
}

/* the cable is pulled after READY: COMMIT never arrives, nobody is told */
static void tell_silence(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "mute=1@18";
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, s.destination.ret && !s.guests.runners);
	story_end(&s);
}

static void test_silence(void **state)
{
	for_seeds(451, 3, tell_silence);
}

/* the destination's guest cannot be run after COMMIT -> it is discarded for certain, and the source's runs again */
static void tell_refused_resume(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.spec.fails[RF_VERSIONS_RESUME] = true;
	story_run(&s);
	story_failed(&s, RF_E_FAILED, "resume fails on purpose");
	story_assert(&s, s.source.guest->running && s.destination.sent[RF_MSG_DISCARDED] == 1);
	story_end(&s);
}

static void test_refused_resume(void **state)
{
	for_seeds(461, 3, tell_refused_resume);
}

/* … and cannot be discarded either -> nobody may run it */
static void tell_stuck(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.destination.spec.fails[RF_VERSIONS_RESUME] = true;
	s.destination.spec.fails[RF_VERSIONS_DISCARD] = true;
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, !s.guests.runners && !s.destination.sent[RF_MSG_DISCARDED]);
	story_end(&s);
}

static void test_stuck(void **state)
{
	for_seeds(471, 3, tell_stuck);
}

/* the source cannot tidy up after the hand-off -> it has moved all the same */
static void tell_untidy(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.spec.fails[RF_VERSIONS_FINISH] = true;
	story_run(&s);
	story_assert(&s, !s.source.ret && !s.destination.ret && s.destination.guest->running);
	story_end(&s);
}

static void test_untidy(void **state)
{
	for_seeds(481, 2, tell_untidy);
}

/* before COMMIT, and the guest cannot be put back -> it stands still here, and somebody has to look */
static void tell_no_way_back(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.spec.fails[RF_VERSIONS_UNDO] = true;
	s.destination.spec.fails[RF_VERSIONS_LOAD] = true;
	story_run(&s);
	story_unknown(&s);
	story_assert(&s, strstr(s.source.error.text, "undo fails on purpose"));
	story_assert(&s, !s.guests.runners && s.destination.guest->successes[RF_VERSIONS_DISCARD]);
	story_end(&s);
}

static void test_no_way_back(void **state)
{
	for_seeds(485, 2, tell_no_way_back);
}

/* the source is silent after READY and never commits -> the destination gives up after its resolve-timeout, not before
 * it took the source for dead */
static void tell_no_commit(uint64_t seed)
{
	struct story s;

	begin(&s, seed);
	s.source.fault = "freeze=1@14,300s";
	story_run(&s);
	story_failed(&s, RF_E_FAILED, NULL);
	story_assert(&s, s.destination.ended_ns < 70 * RF_S);
	story_end(&s);
}

static void test_no_commit(void **state)
{
	for_seeds(491, 2, tell_no_commit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lost_commit),
	    cmocka_unit_test(test_cut_after_commit),
	    cmocka_unit_test(test_lost_running),
	    cmocka_unit_test(test_source_sleeps),
	    cmocka_unit_test(test_destination_sleeps),
	    cmocka_unit_test(test_silence),
	    cmocka_unit_test(test_refused_resume),
	    cmocka_unit_test(test_stuck),
	    cmocka_unit_test(test_untidy),
	    cmocka_unit_test(test_no_way_back),
	    cmocka_unit_test(test_no_commit),
	};

	return run_stories("handoff", tests);
}
