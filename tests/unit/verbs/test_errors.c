// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a card reports, told as a sentence: once, and after what went well. */
#include "tests/unit/verbs/pair.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static void statuses(void **state)
{
	static const struct {
		enum ibv_wc_status status;
		const char *sentence;
	} cases[] = {
	    {IBV_WC_RETRY_EXC_ERR,
	     "does not answer any more on lane 1, however often the card asked; the link is up at"},
	    {IBV_WC_RNR_RETRY_EXC_ERR, "has no buffer for a message on lane 1 although it promised one"},
	    {IBV_WC_REM_ACCESS_ERR, "'s card refused a write on lane 1: it leads outside of what the peer registered"},
	    {IBV_WC_REM_INV_REQ_ERR, "'s card does not take a request on lane 1"},
	    {IBV_WC_REM_OP_ERR, "'s card failed on lane 1"},
	    {IBV_WC_LOC_PROT_ERR, "our RDMA device failed a request on lane 1"},
	    {IBV_WC_LOC_QP_OP_ERR, "our RDMA device failed a request on lane 1"},
	    {IBV_WC_FATAL_ERR, "broke on lane 1: some other error"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair pair;
		struct rf_event ev[8];

		fake_reset();
		pair_open(&pair, NULL);
		struct rf_fabric *f = pair.p.source;

		for (unsigned k = 0; k < 6; k++) {
			struct rf_write w = pair_write(&pair, k);

			assert_int_equal(f->ops->write(f, 1, &w, 1), 1);
		}
		/* Two arrive, the third fails, and three are flushed without another word. */
		assert_true(fake_step(0) && fake_step(0));
		fake_fail(source_lane(1), cases[i].status);
		int n = f->ops->poll(f, ev, 8, 0);

		assert_int_equal(n, 2);
		assert_int_equal(ev[0].kind, RF_EV_WRITTEN);
		assert_int_equal(ev[0].count, 2);
		assert_int_equal(ev[1].kind, RF_EV_LOST);
		pair_contains(ev[1].text, cases[i].sentence);
		assert_int_equal(f->ops->poll(f, ev, 8, 5 * MS), 0);
		pair_close(&pair);
	}
}

static void link_is_down(void **state)
{
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	struct rf_write w = pair_write(&pair, 0);

	assert_int_equal(pair.p.source->ops->write(pair.p.source, 1, &w, 1), 1);
	fake.port_is_down = true;
	fake_fail(source_lane(1), IBV_WC_RETRY_EXC_ERR);
	pair_is_lost(pair.p.source, "the link is down at this side");
	pair_close(&pair);
}

/* The side whose memory was asked for in vain has no completion that says so: its receives are flushed. */
static void flushed_without_reason(void **state)
{
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	fake_break(destination_lane(1));
	pair_is_lost(pair.p.destination, "broke off on lane 1: the peer wrote where it may not, or its card failed");
	pair_close(&pair);
}

/* The reason may come behind the first flushed request. */
static void flushed_before_the_reason(void **state)
{
	struct pair pair;
	struct rf_event ev;
	struct rf_fabric *f;

	fake_reset();
	pair_open(&pair, NULL);
	f = pair.p.source;
	struct rf_write w = pair_write(&pair, 0);

	fake_break(source_lane(0));
	assert_int_equal(f->ops->write(f, 1, &w, 1), 1);
	assert_int_equal(f->ops->poll(f, &ev, 1, 0), 0);
	fake_fail(source_lane(1), IBV_WC_REM_OP_ERR);
	pair_is_lost(f, "'s card failed on lane 1");
	pair_close(&pair);
}

/* Full queues of them: more than poll() takes at one look, and not one is an event. */
static void flushed_in_masses(void **state)
{
	enum { DEPTH = 512, LANES = 3 };
	struct rf_fabric_config config = verbs_config();
	struct rf_write w[DEPTH];
	struct pair pair;

	fake_reset();
	config.lanes = LANES;
	pair_open(&pair, &config);
	for (unsigned i = 0; i < DEPTH; i++)
		w[i] = pair_write(&pair, i % PAIR_PAGES);
	for (unsigned lane = 1; lane <= LANES; lane++)
		assert_int_equal(pair.p.source->ops->write(pair.p.source, lane, w, DEPTH), DEPTH);
	for (unsigned lane = 1; lane <= LANES; lane++)
		fake_break(source_lane(lane));
	pair_is_lost(pair.p.source, "broke off on lane 1");
	pair_close(&pair);
}

static void removed(void **state)
{
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	fake_remove();
	pair_is_lost(pair.p.source, "the RDMA device fake0 was removed");
	pair_is_lost(pair.p.destination, "the RDMA device fake0 was removed");
	pair_close(&pair);
}

static void posting_fails(void **state)
{
	struct pair pair;
	struct rf_fabric *f;

	fake_reset();
	pair_open(&pair, NULL);
	f = pair.p.source;
	struct rf_write w = pair_write(&pair, 0);

	fake.post_error = EIO;
	assert_int_equal(f->ops->write(f, 1, &w, 1), -1);
	fake.post_error = 0;
	pair_is_lost(f, "the RDMA device does not take what lane 1 wants to send: Input/output error");
	pair_close(&pair);
}

/* What had arrived when the peer went is delivered first. */
static void last_words(void **state)
{
	struct pair pair;
	struct rf_event ev;
	struct rf_fabric *f;

	fake_reset();
	pair_open(&pair, NULL);
	f = pair.p.destination;
	assert_int_equal(pair.p.source->ops->send(pair.p.source, 0, "one", 3), 1);
	assert_int_equal(pair.p.source->ops->send(pair.p.source, 1, "two", 3), 1);
	assert_true(fake_step(0) && fake_step(0));
	pair.p.source->ops->close(pair.p.source);
	pair.p.source = NULL;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(f->ops->poll(f, &ev, 1, 1000 * MS), 1);
		assert_int_equal(ev.kind, RF_EV_MESSAGE);
		assert_int_equal(ev.length, 3);
	}
	pair_is_lost(f, "closed the connection");
	pair_close(&pair);
}

static void *close_destination(void *arg)
{
	struct pair *pair = arg;

	pair->p.destination->ops->close(pair->p.destination);
	pair->p.destination = NULL;
	return NULL;
}

/* On iWARP "sent" does not mean "arrived": the source goes first, when it has heard the last words. */
static void lingering(void **state)
{
	struct pair pair;
	struct rf_event ev;
	struct rf_fabric *f;
	pthread_t thread;

	fake_reset();
	fake.is_iwarp = true;
	pair_open(&pair, NULL);
	f = pair.p.source;
	assert_int_equal(pair.p.destination->ops->send(pair.p.destination, 0, "last words", 10), 1);
	assert_true(fake_step(0));
	int64_t start = f->ops->now(f);

	pthread_create(&thread, NULL, close_destination, &pair);
	assert_true(verbs_await(f, RF_EV_MESSAGE, &ev));
	assert_int_equal(f->ops->poll(f, &ev, 1, 50 * MS), 0);
	fake.holds = false;
	f->ops->close(f);
	pair.p.source = NULL;
	pthread_join(thread, NULL);
	assert_true(rf_fabric_verbs.now(NULL) - start < 900 * MS);
	pair_close(&pair);
}

static void *carry_out_late(void *arg)
{
	usleep(300 * 1000);
	while (fake_step(0))
		;
	return NULL;
}

/* The peer is slow to take the last words, and somebody has called to wake: waiting takes no CPU all the same. */
static void patient_close(void **state)
{
	struct timespec before, after;
	pthread_t thread;
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	assert_int_equal(pair.p.source->ops->send(pair.p.source, 0, "last words", 10), 1);
	pair.p.source->ops->wake(pair.p.source);
	pthread_create(&thread, NULL, carry_out_late, NULL);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	pair.p.source->ops->close(pair.p.source);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	pthread_join(thread, NULL);
	pair.p.source = NULL;
	assert_true((after.tv_sec - before.tv_sec) * 1000 * MS + after.tv_nsec - before.tv_nsec < 100 * MS);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(statuses),
	    cmocka_unit_test(link_is_down),
	    cmocka_unit_test(flushed_without_reason),
	    cmocka_unit_test(flushed_before_the_reason),
	    cmocka_unit_test(flushed_in_masses),
	    cmocka_unit_test(removed),
	    cmocka_unit_test(posting_fails),
	    cmocka_unit_test(last_words),
	    cmocka_unit_test(patient_close),
	    cmocka_unit_test(lingering),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
