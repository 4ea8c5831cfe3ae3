// SPDX-License-Identifier: LGPL-2.1-or-later
/* Whole moves over loopback with nothing but the public header: both guests live in this process. */
#include "tests/unit/lib/counting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ANY_PORT "tcp://127.0.0.1:0"

struct pair {
	struct counting source, dest;
};

static void open_pair(struct pair *p)
{
	counting_open(&p->source, false);
	counting_open(&p->dest, true);
	counting_run(&p->source);
}

static void start_pair(struct pair *p)
{
	counting_start(&p->dest, ANY_PORT);
	counting_start(&p->source, p->dest.uri);
}

static void join_pair(struct pair *p)
{
	counting_join(&p->source);
	counting_join(&p->dest);
}

static void close_pair(struct pair *p)
{
	counting_close(&p->source);
	counting_close(&p->dest);
}

static void assert_says(const char *text, const char *sentence)
{
	if (!strstr(text, sentence))
		fail_msg("\"%s\" does not say \"%s\"", text, sentence);
}

static void assert_moved(struct pair *p)
{
	assert_string_equal(p->source.error, "");
	assert_string_equal(p->dest.error, "");
	assert_int_equal(p->source.result, RF_OK);
	assert_int_equal(p->dest.result, RF_OK);
	assert_false(p->source.running);
	assert_true(counting_goes_on(&p->dest));
	counting_stop(&p->dest);
	assert_int_equal(p->dest.loaded, p->source.total);
	assert_int_equal(counting_sum(&p->source), p->source.total);
	assert_int_equal(counting_sum(&p->dest), p->dest.total);
	assert_string_equal(p->source.story, "facts prepare pause save finish");
	assert_string_equal(p->dest.story, "facts prepare load resume");
}

/* The source goes on as if nothing had happened; the destination's guest never ran and was discarded. */
static void assert_not_moved(struct pair *p, rf_result result)
{
	assert_int_equal(p->source.result, result);
	assert_int_not_equal(p->dest.result, RF_OK);
	assert_true(counting_goes_on(&p->source));
	assert_false(p->dest.running);
	counting_stop(&p->source);
	assert_int_equal(counting_sum(&p->source), p->source.total);
}

static void guest_is_moved(void **state)
{
	struct pair p;
	uint64_t downtime = 0, total = 0, bytes = 0;

	open_pair(&p);
	assert_true(counting_goes_on(&p.source)); /* or round 0 may find nothing yet */
	start_pair(&p);
	join_pair(&p);
	assert_moved(&p);
	assert_int_equal(rf_stat(p.source.m, "downtime_ns", &downtime), 0);
	assert_int_equal(rf_stat(p.source.m, "total_ns", &total), 0);
	assert_true(downtime > 0 && downtime < total);
	assert_true(rf_round_count(p.source.m) >= 2);
	assert_int_equal(rf_round_stat(p.source.m, 0, "bytes", &bytes), 0);
	assert_in_range(bytes, 4096, COUNTING_PAGES * 4096);
	close_pair(&p);
}

static void two_pairs_at_once(void **state)
{
	struct pair a, b;

	open_pair(&a);
	open_pair(&b);
	start_pair(&a);
	start_pair(&b);
	join_pair(&a);
	join_pair(&b);
	assert_moved(&a);
	assert_moved(&b);
	close_pair(&a);
	close_pair(&b);
}

static void guest_comes_back(void **state)
{
	struct pair p;
	struct counting back;

	open_pair(&p);
	start_pair(&p);
	join_pair(&p);
	assert_int_equal(p.dest.result, RF_OK);

	/* The same guest with a new migration, in the other direction. */
	counting_open(&back, true);
	counting_start(&back, ANY_PORT);
	rf_migration_free(p.dest.m);
	p.dest.m = rf_migration_new(p.dest.guest);
	p.dest.receives = false;
	assert_int_equal(rf_send(p.dest.m, back.uri), RF_OK);
	counting_join(&back);
	assert_true(counting_goes_on(&back));
	counting_stop(&back);
	assert_int_equal(counting_sum(&back), back.total);

	/* One that has gone stays gone. */
	rf_migration_free(p.source.m);
	p.source.m = rf_migration_new(p.source.guest);
	assert_int_equal(rf_send(p.source.m, back.uri), RF_REFUSED);
	assert_says(rf_error(p.source.m), "another place");
	counting_close(&back);
	close_pair(&p);
}

static void paused_guest_stays_paused(void **state)
{
	struct pair p;

	open_pair(&p);
	counting_stop(&p.source);
	start_pair(&p);
	join_pair(&p);
	assert_int_equal(p.source.result, RF_OK);
	assert_int_equal(p.dest.result, RF_OK);
	assert_string_equal(p.dest.story, "facts prepare load stay-paused");
	assert_false(p.dest.running);
	assert_int_equal(counting_sum(&p.dest), p.source.total);
	close_pair(&p);
}

static void each_tracker_serves(void **state)
{
	static const char *const trackers[] = {"wp-async", "hash"};

	for (size_t i = 0; i < sizeof(trackers) / sizeof(trackers[0]); i++) {
		struct pair p;

		open_pair(&p);
		assert_int_equal(rf_set(p.source.m, "tracker", trackers[i]), RF_OK);
		assert_int_equal(rf_set(p.source.m, "verify", "on"), RF_OK);
		start_pair(&p);
		join_pair(&p);
		/* Older kernels have no wp-async; then it says so. */
		if (p.source.result == RF_REFUSED && i == 0)
			assert_says(p.source.error, "wp-async");
		else
			assert_moved(&p);
		close_pair(&p);
	}
}

static void open_draining_pair(struct pair *p, const char *tracker)
{
	counting_open_with_direct_io(&p->source);
	counting_open(&p->dest, true);
	counting_run(&p->source);
	assert_int_equal(rf_set(p->source.m, "tracker", tracker), RF_OK);
	start_pair(p);
	join_pair(p);
}

static unsigned drains_told(const struct pair *p)
{
	unsigned n = 0;

	for (const char *at = p->source.story; (at = strstr(at, "drain")); at++)
		n++;
	return n;
}

static void direct_io_is_let_end(void **state)
{
	struct pair p;
	uint64_t points = 0;

	open_draining_pair(&p, "wp-async");
	if (p.source.result == RF_REFUSED) { /* an old kernel */
		close_pair(&p);
		skip();
	}
	assert_int_equal(p.source.result, RF_OK);
	assert_int_equal(p.dest.loaded, p.source.total);
	assert_says(p.source.story, "facts prepare drain ");
	assert_int_equal(rf_stat(p.source.m, "drain_points", &points), 0);
	assert_true(points >= 1);
	assert_int_equal(points, drains_told(&p));
	close_pair(&p);
}

static void who_compares_sees_direct_io(void **state)
{
	struct pair p;

	open_draining_pair(&p, "hash");
	assert_moved(&p);
	close_pair(&p);
}

static void direct_io_does_not_end(void **state)
{
	struct pair p;

	counting_open_with_direct_io(&p.source);
	counting_open(&p.dest, true);
	counting_run(&p.source);
	p.source.fails = "drain";
	start_pair(&p);
	join_pair(&p);
	if (p.source.result == RF_OK) { /* by hash */
		close_pair(&p);
		skip();
	}
	assert_not_moved(&p, RF_FAILED);
	assert_string_equal(p.source.error, "cannot let the guest's direct I/O end: no drain today");
	assert_string_equal(p.source.story, "facts prepare drain undo");
	close_pair(&p);
}

static void source_callbacks_fail(void **state)
{
	static const char *const names[] = {"prepare", "pause", "save"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct pair p;
		char sentence[40];

		open_pair(&p);
		p.source.fails = names[i];
		start_pair(&p);
		join_pair(&p);
		assert_not_moved(&p, RF_FAILED);
		snprintf(sentence, sizeof(sentence), "no %s today", names[i]);
		assert_says(p.source.error, sentence);
		assert_says(p.source.story, "undo");
		assert_says(p.dest.story, "discard");
		close_pair(&p);
	}
}

static void destination_callbacks_fail(void **state)
{
	/* "resume" fails after the hand-off: the source takes the guest back, because it never ran over there. */
	static const char *const names[] = {"prepare", "load", "resume"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct pair p;
		char sentence[40];

		open_pair(&p);
		p.dest.fails = names[i];
		start_pair(&p);
		join_pair(&p);
		assert_not_moved(&p, RF_FAILED);
		snprintf(sentence, sizeof(sentence), "no %s today", names[i]);
		assert_says(p.dest.error, sentence);
		assert_says(p.source.error, sentence); /* whoever sits at the source learns it, too */
		/* What was not begun yet needs no undoing. */
		if (i > 0)
			assert_says(p.source.story, "undo");
		assert_says(p.dest.story, "discard");
		close_pair(&p);
	}
}

static void other_facts_are_refused(void **state)
{
	struct pair p;

	open_pair(&p);
	p.dest.fact = "sleeping";
	start_pair(&p);
	join_pair(&p);
	assert_int_equal(p.source.result, RF_REFUSED);
	assert_says(p.source.error, "counting");
	assert_says(p.source.error, "sleeping");
	assert_string_equal(p.source.story, "facts");
	assert_true(counting_goes_on(&p.source));
	close_pair(&p);
}

static void nobody_listens(void **state)
{
	struct counting source, listener;

	/* A port that was free a moment ago. */
	counting_open(&listener, true);
	counting_start(&listener, ANY_PORT);
	rf_cancel(listener.m);
	counting_join(&listener);
	assert_int_equal(listener.result, RF_CANCELLED);

	counting_open(&source, false);
	counting_run(&source);
	assert_int_equal(rf_set(source.m, "connect-timeout", "200ms"), RF_OK);
	counting_start(&source, listener.uri);
	counting_join(&source);
	assert_int_equal(source.result, RF_REFUSED); /* nothing was touched */
	assert_says(source.error, "127.0.0.1");
	assert_true(counting_goes_on(&source));

	/* Once begun it cannot be used again. */
	assert_int_equal(rf_send(source.m, listener.uri), RF_USAGE);
	assert_says(rf_error(source.m), "used already");
	assert_int_equal(rf_set(source.m, "verify", "on"), RF_USAGE);
	assert_says(rf_error(source.m), "has begun");
	counting_close(&source);
	counting_close(&listener);
}

/* Seen before anybody is called: the receiver's guest would be discarded for it. */
static void options_that_contradict_touch_nothing(void **state)
{
	struct pair p;

	open_pair(&p);
	assert_int_equal(rf_set(p.source.m, "tracker", "hash"), RF_OK);
	assert_int_equal(rf_set(p.source.m, "source-memory", "direct"), RF_OK);
	start_pair(&p);
	counting_join(&p.source);
	assert_int_equal(p.source.result, RF_USAGE);
	assert_says(p.source.error, "--source-memory direct");
	assert_string_equal(p.source.story, "facts");
	assert_true(counting_goes_on(&p.source));
	rf_cancel(p.dest.m);
	counting_join(&p.dest);
	assert_int_equal(p.dest.result, RF_CANCELLED);
	assert_string_equal(p.dest.story, "facts");
	close_pair(&p);
}

static void cancelled_before_it_begins(void **state)
{
	struct counting c;

	counting_open(&c, false);
	counting_run(&c);
	rf_cancel(c.m);
	assert_int_equal(rf_send(c.m, "tcp://127.0.0.1:9"), RF_CANCELLED);
	assert_says(rf_error(c.m), "cancelled");
	assert_string_equal(c.story, "");
	assert_true(counting_goes_on(&c));
	counting_close(&c);
}

static void cancelled_by_either_side(void **state)
{
	static const rf_phase phases[] = {RF_PHASE_SETUP, RF_PHASE_ROUNDS, RF_PHASE_SWITCHOVER};

	for (size_t i = 0; i < 2 * sizeof(phases) / sizeof(phases[0]); i++) {
		struct pair p;
		struct counting *side = i % 2 ? &p.dest : &p.source;

		open_pair(&p);
		side->cancels = true;
		side->cancel_in = phases[i / 2];
		start_pair(&p);
		join_pair(&p);
		assert_int_equal(side->result, RF_CANCELLED);
		assert_not_moved(&p, side == &p.source ? RF_CANCELLED : RF_FAILED);
		close_pair(&p);
	}
}

static rf_migration *signalled;

static void handle(int signal_number)
{
	rf_cancel(signalled);
}

static void cancelled_from_a_signal_handler(void **state)
{
	struct sigaction action = {.sa_handler = handle}, before;
	struct counting c;

	counting_open(&c, true);
	counting_start(&c, ANY_PORT);
	signalled = c.m;
	sigaction(SIGUSR1, &action, &before);
	pthread_kill(c.mover, SIGUSR1);
	counting_join(&c);
	sigaction(SIGUSR1, &before, NULL);
	assert_int_equal(c.result, RF_CANCELLED);
	assert_false(c.running);
	counting_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(guest_is_moved),
	    cmocka_unit_test(two_pairs_at_once),
	    cmocka_unit_test(guest_comes_back),
	    cmocka_unit_test(paused_guest_stays_paused),
	    cmocka_unit_test(each_tracker_serves),
	    cmocka_unit_test(direct_io_is_let_end),
	    cmocka_unit_test(who_compares_sees_direct_io),
	    cmocka_unit_test(direct_io_does_not_end),
	    cmocka_unit_test(source_callbacks_fail),
	    cmocka_unit_test(destination_callbacks_fail),
	    cmocka_unit_test(other_facts_are_refused),
	    cmocka_unit_test(nobody_listens),
	    cmocka_unit_test(options_that_contradict_touch_nothing),
	    cmocka_unit_test(cancelled_before_it_begins),
	    cmocka_unit_test(cancelled_by_either_side),
	    cmocka_unit_test(cancelled_from_a_signal_handler),
	};

	return cmocka_run_group_tests_name("lib moves", tests, NULL, NULL);
}
