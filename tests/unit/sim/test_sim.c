// SPDX-License-Identifier: LGPL-2.1-or-later
/* The simulated world: its clock, its promises, and that it tells when its rules are broken. */
#include "pair.h"

static void expect_violation(struct pair *p, const char *part)
{
	assert_non_null(rf_sim_violation(p->world));
	if (!strstr(rf_sim_violation(p->world), part))
		fail_msg("\"%s\" does not tell of \"%s\"", rf_sim_violation(p->world), part);
	pair_end(p);
}

/* post a write and a message behind it -> when the message is there, so are the bytes */
static void test_message_behind_write(void **state)
{
	struct rf_write w;
	struct pair p;
	uint64_t seed;

	for (seed = 0; seed < 20; seed++) {
		pair_start(&p, seed);
		w = pair_write(&p, 3, 2);
		assert_int_equal(p.source->ops->write(p.source, 1, &w, 1), 1);
		pair_send(p.source, 1, "behind", 6);
		assert_int_equal(p.to[3 * 4096], 0);
		assert_memory_equal(pair_expect(p.destination, RF_EV_MESSAGE).data, "behind", 6);
		assert_memory_equal(p.to + 3 * 4096, p.from + 3 * 4096, 2 * 4096);
		assert_null(rf_sim_violation(p.world));
		pair_end(&p);
	}
}

/* a full lane takes no more until a write is reported */
static void test_queue_depth(void **state)
{
	struct rf_write w[PAGES];
	struct pair p;
	unsigned i;

	memset(&p, 0, sizeof(p));
	pair_start(&p, 1);
	p.source->limits.queue_depth = 4;
	for (i = 0; i < PAGES; i++)
		w[i] = pair_write(&p, i, 1);
	assert_int_equal(p.source->ops->write(p.source, 1, w, PAGES), 4);
	assert_int_equal(p.source->ops->write(p.source, 1, w + 4, PAGES - 4), 0);
	assert_int_equal(p.source->ops->write(p.source, 2, w + 4, PAGES - 4), 4);
	i = pair_expect(p.source, RF_EV_WRITTEN).count;
	assert_in_range(i, 1, 4);
	pair_end(&p);
}

/* a gigabyte per second, a megabyte to move -> a millisecond */
static void test_rate(void **state)
{
	struct rf_write w;
	struct pair p;
	int64_t begin_ns;
	int i;

	pair_start(&p, 1);
	begin_ns = rf_sim_now(p.world);
	for (i = 0; i < 64; i++) { /* 4 MiB, 16 pages at a time */
		w = pair_write(&p, 0, PAGES);
		assert_int_equal(p.source->ops->write(p.source, 1, &w, 1), 1);
		pair_send(p.source, 1, "x", 1);
		pair_expect(p.destination, RF_EV_MESSAGE);
	}
	assert_int_equal(rf_sim_count(p.world, RF_SIM_SOURCE).written_bytes, 64 * BYTES);
	/* each waits for its own delay, at most 50 + 20 + 100 us, besides its bytes */
	assert_in_range(rf_sim_now(p.world) - begin_ns, 4 * 976 * RF_US, 4 * 976 * RF_US + 64 * 200 * RF_US);
	pair_end(&p);
}

static void test_overlap(void **state)
{
	struct rf_write w[2];
	struct pair p;

	pair_start(&p, 1);
	w[0] = pair_write(&p, 2, 4);
	w[1] = pair_write(&p, 5, 1);
	p.source->ops->write(p.source, 1, &w[0], 1);
	p.source->ops->write(p.source, 2, &w[1], 1);
	expect_violation(&p, "two writes in flight overlap");
}

static void test_outside_registration(void **state)
{
	struct rf_write w;
	struct pair p;

	pair_start(&p, 1);
	w = pair_write(&p, PAGES - 1, 2);
	p.source->ops->write(p.source, 1, &w, 1);
	expect_violation(&p, "no living registration of the peer holds");
}

static void test_release_in_flight(void **state)
{
	struct rf_write w;
	struct pair p;

	pair_start(&p, 1);
	w = pair_write(&p, 0, 1);
	p.source->ops->write(p.source, 1, &w, 1);
	p.destination->ops->dereg(p.destination, p.to_key, 1);
	expect_violation(&p, "writes in flight need");
}

static void test_released_key(void **state)
{
	struct rf_write w;
	struct pair p;

	pair_start(&p, 1);
	p.source->ops->dereg(p.source, p.from_key, 7);
	assert_int_equal(pair_expect(p.source, RF_EV_RELEASED).cookie, 7);
	w = pair_write(&p, 0, 1);
	p.source->ops->write(p.source, 1, &w, 1);
	expect_violation(&p, "which no living registration holds");
}

/* nobody sends, both wait for ever -> a violation, and both lose their peer */
static void test_no_hope(void **state)
{
	struct pair p;

	pair_start(&p, 1);
	pair_expect(p.source, RF_EV_LOST);
	pair_expect(p.destination, RF_EV_LOST);
	expect_violation(&p, "nothing can ever happen again");
}

static void test_time_limit(void **state)
{
	struct rf_event event;
	struct pair p;

	pair_start(&p, 1);
	while (!p.source->ops->poll(p.source, &event, 1, RF_S))
		assert_true(rf_sim_now(p.world) < 4000 * RF_S);
	assert_int_equal(event.kind, RF_EV_LOST);
	expect_violation(&p, "the limit has passed");
}

/* a cut while a write travels -> both are told, nothing lands */
static void test_cut(void **state)
{
	struct rf_write w;
	struct pair p;

	pair_start(&p, 3);
	w = pair_write(&p, 0, PAGES);
	p.source->ops->write(p.source, 1, &w, 1);
	rf_sim_cut(p.world);
	pair_expect(p.source, RF_EV_LOST);
	pair_expect(p.destination, RF_EV_LOST);
	assert_int_equal(p.source->ops->write(p.source, 1, &w, 1), -1);
	assert_int_equal(p.source->ops->send(p.source, 0, "x", 1), -1);
	p.source->ops->close(p.source);
	assert_int_equal(p.to[0], 0);
	assert_null(rf_sim_violation(p.world));
	p.destination->ops->close(p.destination);
	rf_sim_close(p.world);
	free(p.from);
	free(p.to);
}

/* ---- work ---- */

struct work {
	struct pair *p;
	int64_t takes_ns, ended_ns;
};

static void do_work(void *arg)
{
	struct work *work = arg;

	rf_sim_spend(work->p->world, work->takes_ns);
	work->ended_ns = rf_sim_now(work->p->world);
}

/* work of 30 s -> messages go on meanwhile, DONE comes after 30 s */
static void test_long_work(void **state)
{
	struct work work = {.takes_ns = 30 * RF_S};
	struct pair p;

	pair_start(&p, 1);
	work.p = &p;
	p.source->ops->run(p.source, do_work, &work, 5);
	pair_send(p.destination, 0, "ping", 4);
	pair_expect(p.source, RF_EV_MESSAGE);
	assert_true(rf_sim_now(p.world) < RF_S);
	assert_int_equal(pair_expect(p.source, RF_EV_DONE).cookie, 5);
	assert_in_range(work.ended_ns, 30 * RF_S, 30 * RF_S + 10 * RF_MS);
	pair_end(&p);
}

/* two workers, three jobs of a second -> two seconds */
static void test_workers(void **state)
{
	struct work work[3];
	struct pair p;
	int i;

	pair_start(&p, 1);
	for (i = 0; i < 3; i++) {
		work[i] = (struct work){.p = &p, .takes_ns = RF_S};
		p.source->ops->run(p.source, do_work, &work[i], (uint64_t)i);
	}
	for (i = 0; i < 3; i++)
		pair_expect(p.source, RF_EV_DONE);
	assert_true(work[0].ended_ns < 1100 * RF_MS && work[1].ended_ns < 1100 * RF_MS);
	assert_true(work[2].ended_ns >= 2 * RF_S);
	pair_end(&p);
}

/* ---- waking ---- */

static void wake_source(void *arg)
{
	struct pair *p = arg;

	p->source->ops->wake(p->source);
}

static void test_wake(void **state)
{
	struct rf_event event;
	struct pair p;

	pair_start(&p, 1);
	rf_sim_at(p.world, 7 * RF_S, wake_source, &p);
	assert_int_equal(p.source->ops->poll(p.source, &event, 1, -1), 1);
	assert_int_equal(event.kind, RF_EV_WOKEN);
	assert_int_equal(rf_sim_now(p.world), 7 * RF_S);
	pair_end(&p);
}

static void test_wake_connect(void **state)
{
	struct rf_error e;
	struct pair p = {0};

	rf_sim_model_init(&p.model);
	pair_open(&p, 1);
	p.destination->ops->listen(p.destination, NULL, NULL);
	rf_sim_at(p.world, 3 * RF_S, wake_source, &p);
	assert_int_equal(p.source->ops->connect(p.source, NULL, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);
	assert_int_equal(p.destination->ops->accept(p.destination, RF_S, &e), -1);
	assert_string_equal(e.text, "no peer came");
	assert_null(rf_sim_violation(p.world));
	pair_end(&p);
}

static void test_nobody_listens(void **state)
{
	struct rf_error e;
	struct pair p = {0};

	rf_sim_model_init(&p.model);
	pair_open(&p, 1);
	assert_int_equal(p.source->ops->connect(p.source, NULL, &e), -1);
	assert_string_equal(e.text, "nobody listens there");
	pair_end(&p);
}

/* ---- the seed ---- */

static int64_t story(uint64_t seed)
{
	struct rf_write w;
	struct pair p;
	int64_t now_ns;
	unsigned i;

	pair_start(&p, seed);
	for (i = 0; i < PAGES; i++) {
		w = pair_write(&p, i, 1);
		p.source->ops->write(p.source, 1 + i % 2, &w, 1);
	}
	for (i = 0; i < PAGES;)
		i += pair_expect(p.source, RF_EV_WRITTEN).count;
	now_ns = rf_sim_now(p.world);
	pair_end(&p);
	return now_ns;
}

static void test_seed(void **state)
{
	uint64_t seed;

	for (seed = 1; seed < 20; seed++) {
		assert_int_equal(story(seed), story(seed));
		assert_int_not_equal(story(seed), story(seed + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_message_behind_write),
	    cmocka_unit_test(test_queue_depth),
	    cmocka_unit_test(test_rate),
	    cmocka_unit_test(test_overlap),
	    cmocka_unit_test(test_outside_registration),
	    cmocka_unit_test(test_release_in_flight),
	    cmocka_unit_test(test_released_key),
	    cmocka_unit_test(test_no_hope),
	    cmocka_unit_test(test_time_limit),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_long_work),
	    cmocka_unit_test(test_workers),
	    cmocka_unit_test(test_wake),
	    cmocka_unit_test(test_wake_connect),
	    cmocka_unit_test(test_nobody_listens),
	    cmocka_unit_test(test_seed),
	};

	return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
