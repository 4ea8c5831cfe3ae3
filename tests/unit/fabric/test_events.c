// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/events.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>

#define MS INT64_C(1000000)

static struct rf_events *queue(void)
{
	struct rf_events *q;

	assert_int_equal(rf_events_open(&q, NULL), 0);
	return q;
}

static void post(struct rf_events *q, enum rf_event_kind kind, uint64_t cookie)
{
	struct rf_event_node *node = rf_event_node_new(kind, cookie, 0);

	assert_non_null(node);
	rf_events_post(q, node);
}

static void post_message(struct rf_events *q, struct rf_inbox *inbox, size_t length)
{
	struct rf_event_node *node = rf_event_node_new(RF_EV_MESSAGE, 0, length);

	assert_non_null(node);
	memset(node->payload, 'm', length);
	node->event.length = length;
	rf_events_post_message(q, inbox, node);
}

static void test_order_is_kept(void **state)
{
	struct rf_events *q = queue();
	struct rf_event ev[3];

	for (uint64_t i = 0; i < 7; i++)
		post(q, RF_EV_DONE, i);
	for (uint64_t i = 0; i < 6; i += 3) {
		assert_int_equal(rf_events_poll(q, ev, 3, -1), 3);
		for (uint64_t k = 0; k < 3; k++)
			assert_int_equal(ev[k].cookie, i + k);
	}
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 1);
	assert_int_equal(ev[0].cookie, 6);
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 0);
	/* What is never polled is freed with the queue. */
	post(q, RF_EV_DONE, 8);
	rf_events_close(q);
}

static void test_written_adds_up(void **state)
{
	struct rf_event_node lane = {.event = {.kind = RF_EV_WRITTEN, .lane = 3}};
	struct rf_events *q = queue();
	struct rf_event ev[3];

	rf_events_post_written(q, &lane, 5);
	post(q, RF_EV_DONE, 1);
	rf_events_post_written(q, &lane, 6);
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 2);
	assert_int_equal(ev[0].kind, RF_EV_WRITTEN);
	assert_int_equal(ev[0].lane, 3);
	assert_int_equal(ev[0].count, 11);
	assert_int_equal(ev[1].kind, RF_EV_DONE);
	rf_events_post_written(q, &lane, 2);
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 1);
	assert_int_equal(ev[0].count, 2);
	rf_events_close(q);
}

struct poster {
	struct rf_events *q;
	struct rf_inbox inbox;
	atomic_int posted;
};

static void *post_until_refused(void *arg)
{
	struct poster *p = arg;

	while (rf_events_wait_inbox(p->q, &p->inbox, 1000)) {
		post_message(p->q, &p->inbox, 1000);
		atomic_fetch_add(&p->posted, 1);
	}
	return NULL;
}

static void test_inbox_has_a_limit(void **state)
{
	struct poster p = {.q = queue()};
	struct rf_event ev;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, post_until_refused, &p), 0);
	/* Ten times round, and never more than the limit ahead; its data is ours until the next poll. */
	for (int taken = 1; taken <= 10 * RF_INBOX_MESSAGES; taken++) {
		assert_int_equal(rf_events_poll(p.q, &ev, 1, -1), 1);
		assert_int_equal(ev.kind, RF_EV_MESSAGE);
		assert_int_equal(((const char *)ev.data)[ev.length - 1], 'm');
		assert_true(atomic_load(&p.posted) <= taken + RF_INBOX_MESSAGES);
	}
	rf_events_refuse_messages(p.q);
	pthread_join(thread, NULL);
	rf_events_close(p.q);
}

static void test_long_message_passes_alone(void **state)
{
	struct rf_events *q = queue();
	struct rf_inbox inbox = {0};
	struct rf_event ev;

	assert_true(rf_events_wait_inbox(q, &inbox, 2 * RF_INBOX_BYTES));
	post_message(q, &inbox, 100);
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 1);
	assert_int_equal(inbox.messages, 1);
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 0);
	assert_int_equal(inbox.messages, 0);
	assert_int_equal(inbox.bytes, 0);
	rf_events_close(q);
}

static void test_nothing_follows_a_loss(void **state)
{
	struct rf_event_node lost = {.event = {.kind = RF_EV_LOST, .status = -1, .text = "gone"}};
	struct rf_events *q = queue();
	struct rf_inbox inbox = {0};
	struct rf_event ev[4];

	post_message(q, &inbox, 10);
	rf_events_post(q, &lost);
	post_message(q, &inbox, 10);
	post(q, RF_EV_RELEASED, 2);
	assert_false(rf_events_wait_inbox(q, &inbox, 1));
	assert_int_equal(rf_events_poll(q, ev, 4, 0), 3);
	assert_int_equal(ev[0].kind, RF_EV_MESSAGE);
	assert_int_equal(ev[1].kind, RF_EV_LOST);
	assert_string_equal(ev[1].text, "gone");
	assert_int_equal(ev[2].kind, RF_EV_RELEASED);
	rf_events_close(q);
}

static struct rf_events *woken_by_signal;

static void on_alarm(int signal)
{
	rf_events_wake(woken_by_signal);
}

static void test_wake_from_signal_handler(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm}, before;
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};
	struct rf_event ev;

	woken_by_signal = queue();
	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(rf_events_poll(woken_by_signal, &ev, 1, -1), 1);
	assert_int_equal(ev.kind, RF_EV_WOKEN);
	assert_int_equal(rf_events_poll(woken_by_signal, &ev, 1, 0), 0);
	sigaction(SIGALRM, &before, NULL);
	rf_events_close(woken_by_signal);
}

static void test_wake_comes_first_and_once(void **state)
{
	struct rf_events *q = queue();
	struct rf_event ev[3];

	post(q, RF_EV_DONE, 1);
	rf_events_wake(q);
	rf_events_wake(q);
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 2);
	assert_int_equal(ev[0].kind, RF_EV_WOKEN);
	assert_int_equal(ev[1].kind, RF_EV_DONE);
	assert_false(rf_events_take_wake(q));
	rf_events_wake(q);
	assert_true(rf_events_take_wake(q));
	assert_int_equal(rf_events_poll(q, ev, 3, 0), 0);
	rf_events_close(q);
}

static void test_timeout(void **state)
{
	struct rf_events *q = queue();
	struct rf_event ev;

	/* A bell that was already heard does not shorten the wait. */
	rf_events_wake(q);
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 1);
	for (int64_t ns = 1; ns <= 10 * MS; ns *= 10) {
		int64_t before = rf_monotonic_ns();

		assert_int_equal(rf_events_poll(q, &ev, 1, ns), 0);
		assert_true(rf_monotonic_ns() - before >= ns);
	}
	assert_int_equal(rf_deadline_ns(-1), -1);
	assert_int_equal(rf_deadline_ns(INT64_MAX), -1);
	rf_events_close(q);
	rf_events_close(NULL);
}

static bool rings(struct rf_events *q)
{
	struct pollfd p = {.fd = rf_events_fd(q), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* For who sleeps on other things as well: no sleep while there is something, and a bell for what comes meanwhile. */
static void test_sleeping_elsewhere(void **state)
{
	struct rf_events *q = queue();
	struct rf_event ev;

	post(q, RF_EV_DONE, 1);
	assert_false(rf_events_sleep_begin(q));
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 1);
	assert_false(rings(q)); /* nobody slept */
	assert_true(rf_events_sleep_begin(q));
	assert_false(rings(q));
	post(q, RF_EV_DONE, 2);
	assert_true(rings(q));
	rf_events_sleep_end(q);
	assert_false(rings(q));
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 1);
	assert_int_equal(ev.cookie, 2);
	rf_events_wake(q);
	assert_false(rf_events_sleep_begin(q));
	assert_int_equal(rf_events_poll(q, &ev, 1, 0), 1);
	assert_int_equal(ev.kind, RF_EV_WOKEN);
	rf_events_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order_is_kept),
	    cmocka_unit_test(test_written_adds_up),
	    cmocka_unit_test(test_inbox_has_a_limit),
	    cmocka_unit_test(test_long_message_passes_alone),
	    cmocka_unit_test(test_nothing_follows_a_loss),
	    cmocka_unit_test(test_wake_from_signal_handler),
	    cmocka_unit_test(test_wake_comes_first_and_once),
	    cmocka_unit_test(test_timeout),
	    cmocka_unit_test(test_sleeping_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
