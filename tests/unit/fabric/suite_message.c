// SPDX-License-Identifier: LGPL-2.1-or-later
/* Messages, registrations, work, waking and waiting. */
#include "tests/unit/fabric/suite_side.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MS INT64_C(1000000)

/* ---- messages of all lengths come back as they were ---- */

static unsigned char byte_at(size_t i, size_t length)
{
	return (unsigned char)(i * 31 + length);
}

static void echo_source(struct suite_side *s)
{
	size_t longest = s->f->limits.max_message_bytes;
	size_t lengths[] = {1, 2, 100, 4095, 4096, 4097, 65536, longest - 1, longest};
	unsigned char *text = malloc(longest);

	NEED(s, text);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		unsigned lane = i % (s->f->limits.lanes + 1);

		for (size_t k = 0; k < lengths[i]; k++)
			text[k] = byte_at(k, lengths[i]);
		NEED(s, suite_send(s, lane, text, lengths[i]));
		/* It was copied: */
		memset(text, 0, lengths[i]);
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		NEED(s, s->message_lane == lane && s->message_length == lengths[i]);
		for (size_t k = 0; k < lengths[i]; k++)
			NEED(s, s->message[k] == byte_at(k, lengths[i]));
	}
	free(text);
	NEED(s, suite_send(s, 0, "end", 3));
	NEED(s, suite_await_loss(s));
}

static void echo_destination(struct suite_side *s)
{
	for (;;) {
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		if (s->message_length == 3)
			return;
		NEED(s, suite_send(s, s->message_lane, s->message, s->message_length));
	}
}

/* ---- more messages than any queue holds, to a side that is in no hurry ---- */

enum { MANY = 3000 };

static void many_source(struct suite_side *s)
{
	unsigned char text[2000] = {0};

	for (uint32_t i = 0; i < MANY; i++) {
		memcpy(text, &i, sizeof(i));
		NEED(s, suite_send(s, i % 2, text, sizeof(text)));
	}
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
}

static void many_destination(struct suite_side *s)
{
	uint32_t expected[2] = {0, 1}, i;

	for (unsigned n = 0; n < MANY; n++) {
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		memcpy(&i, s->message, sizeof(i));
		NEED(s, s->message_lane < 2 && i == expected[s->message_lane]);
		expected[s->message_lane] += 2;
	}
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
}

/* ---- the control lane does not wait behind data ---- */

enum { BULK_PAGES = 16384 };

static void control_source(struct suite_side *s)
{
	uint64_t at_once = BULK_PAGES / 8;
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	for (uint64_t page = 0; page < m.pages; page += at_once) {
		struct rf_write w = suite_pages(&m, page, at_once);

		NEED(s, suite_write(s, 1, &w, 1));
	}
	NEED(s, suite_send(s, 1, "behind the data", 15));
	NEED(s, suite_send(s, 0, "control", 7));
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, suite_unmap(s, &m));
}

static void control_destination(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_offer(s, BULK_PAGES, &m));
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, s->message_lane == 0);
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, s->message_lane == 1);
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- registrations: many at once, released, made again ---- */

enum { REGIONS = 20, REGION_PAGES = 8 };

static void regions_destination(struct suite_side *s)
{
	uint64_t bytes = REGION_PAGES * SUITE_PAGE;
	unsigned char *memory = s->on->map(s->on, REGIONS * bytes);
	struct rf_key keys[REGIONS], again;
	bool seen[REGIONS] = {0};
	struct rf_event ev;

	NEED(s, memory);
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	for (uint64_t i = 0; i < REGIONS; i++)
		NEED(s, s->f->ops->reg(s->f, memory + i * bytes, bytes, RF_ACCESS_REMOTE_WRITE, i) == 0);
	for (unsigned i = 0; i < REGIONS; i++) {
		NEED(s, suite_await(s, RF_EV_REGISTERED, &ev));
		NEED(s, ev.status == 0 && ev.cookie < REGIONS && !seen[ev.cookie]);
		seen[ev.cookie] = true;
		keys[ev.cookie] = ev.key;
	}
	for (unsigned i = 0; i < REGIONS; i++)
		NEED(s, suite_release(s, keys[i], 500 + i));
	/* Registering changes no byte. */
	s->on->put(s->on, memory, 99);
	NEED(s, suite_register(s, memory, bytes, RF_ACCESS_REMOTE_WRITE, 1, &again));
	NEED(s, s->on->holds(s->on, memory, 99));
	NEED(s, memcmp(&again, &keys[0], sizeof(again)) != 0);
	NEED(s, suite_release(s, again, 2));
	s->on->unmap(s->on, memory, REGIONS * bytes);
}

static void regions_source(struct suite_side *s)
{
	unsigned char *memory = s->on->map(s->on, SUITE_PAGE);
	struct rf_key key;

	NEED(s, memory);
	NEED(s, suite_register(s, memory, SUITE_PAGE, RF_ACCESS_LOCAL_READ, 3, &key));
	NEED(s, suite_release(s, key, 4));
	s->on->unmap(s->on, memory, SUITE_PAGE);
	NEED(s, suite_send(s, 0, "your turn", 9));
	NEED(s, suite_await_loss(s));
}

/* ---- work on other threads, and waking from there ---- */

struct job {
	struct rf_fabric *f;
	atomic_int ran;
};

static void count(void *arg)
{
	struct job *job = arg;

	atomic_fetch_add(&job->ran, 1);
}

static void wake(void *arg)
{
	struct job *job = arg;

	job->f->ops->wake(job->f);
}

static void do_work(struct suite_side *s)
{
	struct job job = {.f = s->f};
	struct rf_event ev;
	unsigned done = 0;

	for (uint64_t i = 0; i < 10; i++)
		NEED(s, s->f->ops->run(s->f, count, &job, 1 << i) == 0);
	for (unsigned i = 0; i < 10; i++) {
		NEED(s, suite_await(s, RF_EV_DONE, &ev));
		NEED(s, !(done & ev.cookie));
		done |= (unsigned)ev.cookie;
	}
	NEED(s, done == 1023 && atomic_load(&job.ran) == 10);

	/* The waking is told before the work that did it, or after: both must come. */
	bool woken = false, ended = false;

	NEED(s, s->f->ops->run(s->f, wake, &job, 5000) == 0);
	while (!woken || !ended) {
		NEED(s, s->f->ops->poll(s->f, &ev, 1, 20000 * MS) == 1);
		NEED(s, ev.kind == RF_EV_WOKEN || ev.kind == RF_EV_DONE);
		if (ev.kind == RF_EV_WOKEN)
			woken = true;
		else
			ended = ev.cookie == 5000;
	}
	/* A call while nobody waits is not forgotten, and several may count as one. */
	s->f->ops->wake(s->f);
	s->f->ops->wake(s->f);
	NEED(s, suite_await(s, RF_EV_WOKEN, NULL));
}

static void work_source(struct suite_side *s)
{
	do_work(s);
	if (*s->failure)
		return;
	NEED(s, suite_send(s, 0, "your turn", 9));
	NEED(s, suite_await_loss(s));
}

static void work_destination(struct suite_side *s)
{
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	do_work(s);
}

/* ---- waiting ---- */

static void wait_source(struct suite_side *s)
{
	struct rf_event ev;
	int64_t start = s->f->ops->now(s->f);

	NEED(s, s->f->ops->poll(s->f, &ev, 1, 0) == 0);
	for (int i = 0; i < 3; i++) {
		int64_t before = s->f->ops->now(s->f);

		NEED(s, s->f->ops->poll(s->f, &ev, 1, 20 * MS) == 0);
		NEED(s, s->f->ops->now(s->f) - before >= 20 * MS);
	}
	/* Generous, for a busy machine: a fabric that rounds up to whole seconds is caught. */
	NEED(s, s->f->ops->now(s->f) - start < 900 * MS);
	NEED(s, suite_send(s, 0, "now", 3));
	NEED(s, suite_await_loss(s));
}

static void wait_destination(struct suite_side *s)
{
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
}

const struct suite_case suite_message_cases[] = {
    {"messages of all lengths", {.lanes = 2}, echo_source, echo_destination},
    {"more messages than a queue holds", {.lanes = 1}, many_source, many_destination},
    {"control does not wait behind data", {.lanes = 1}, control_source, control_destination},
    {"registrations", {0}, regions_source, regions_destination},
    {"work and waking", {0}, work_source, work_destination},
    {"waiting with a timeout", {0}, wait_source, wait_destination},
    {0},
};
