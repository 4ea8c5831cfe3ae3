// SPDX-License-Identifier: LGPL-2.1-or-later
/* How it ends: forbidden writes, a peer that goes, things in flight. */
#include "tests/unit/fabric/suite_side.h"

#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)

/* After the loss: told once, nothing follows, nothing more is taken. */
static bool is_over(struct suite_side *s)
{
	struct rf_write w = {.local = s, .length = 1};
	struct rf_event ev;

	if (!suite_await_loss(s))
		return false;
	if (s->f->ops->send(s->f, 0, "x", 1) != -1 || s->f->ops->write(s->f, 1, &w, 1) != -1)
		return suite_fail(s, __FILE__, __LINE__, "something was taken after the loss");
	while (s->f->ops->poll(s->f, &ev, 1, 20 * MS) == 1)
		if (ev.kind == RF_EV_LOST || ev.kind == RF_EV_MESSAGE)
			return suite_fail(s, __FILE__, __LINE__, "event %d after the loss", ev.kind);
	return true;
}

/* ---- writes that were not allowed: the end, and nothing is touched ----
 *
 * The destination maps 24 pages and registers the 8 in the middle. */

enum { STRAY_PAGES = 24, STRAY_FIRST = 8, STRAY_COUNT = 8 };

enum stray { STRAY_BEFORE, STRAY_BEHIND, STRAY_ACROSS, STRAY_FAR, STRAY_WRAP, STRAY_KEY, STRAY_ZERO_KEY };

static struct rf_write stray_write(const struct suite_memory *m, enum stray stray)
{
	struct rf_write w = suite_pages(m, 0, 1);

	switch (stray) {
	case STRAY_BEFORE:
		w.remote -= SUITE_PAGE;
		break;
	case STRAY_BEHIND:
		w.remote += STRAY_COUNT * SUITE_PAGE;
		break;
	case STRAY_ACROSS:
		w.remote += (STRAY_COUNT - 1) * SUITE_PAGE;
		w.length = 2 * SUITE_PAGE;
		break;
	case STRAY_FAR:
		w.remote = SUITE_PAGE;
		break;
	case STRAY_WRAP:
		w.remote = UINT64_MAX - SUITE_PAGE + 1;
		break;
	case STRAY_KEY:
		w.rkey.value[0] ^= 1;
		break;
	case STRAY_ZERO_KEY:
		memset(&w.rkey, 0, sizeof(w.rkey));
		break;
	}
	return w;
}

static void stray_source(struct suite_side *s, enum stray stray)
{
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	for (uint64_t page = 0; page < m.pages; page++)
		suite_put(s, &m, page, 1 + page);
	struct rf_write w = stray_write(&m, stray);

	NEED(s, suite_write(s, 1, &w, 1));
	NEED(s, is_over(s));
	NEED(s, suite_unmap(s, &m));
}

static bool stray_offer(struct suite_side *s, struct suite_memory *all)
{
	struct suite_memory offer = {.pages = STRAY_COUNT};

	*all = (struct suite_memory){.pages = STRAY_PAGES, .local = s->on->map(s->on, STRAY_PAGES * SUITE_PAGE)};
	if (!all->local)
		return suite_fail(s, __FILE__, __LINE__, "no memory to move");
	all->remote = (uintptr_t)all->local;
	offer.remote = all->remote + STRAY_FIRST * SUITE_PAGE;
	if (!suite_register(s, all->local + STRAY_FIRST * SUITE_PAGE, STRAY_COUNT * SUITE_PAGE, RF_ACCESS_REMOTE_WRITE,
			    1, &all->rkey))
		return false;
	offer.rkey = all->rkey;
	return suite_send(s, 0, &offer, sizeof(offer));
}

static void stray_destination(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, stray_offer(s, &m));
	NEED(s, is_over(s));
	NEED(s, suite_untouched(s, &m, 0, 0));
	NEED(s, suite_unmap(s, &m));
}

#define STRAY_CASE(name, kind)                         \
	static void stray_##name(struct suite_side *s) \
	{                                              \
		stray_source(s, kind);                 \
	}

STRAY_CASE(before, STRAY_BEFORE)
STRAY_CASE(behind, STRAY_BEHIND)
STRAY_CASE(across, STRAY_ACROSS)
STRAY_CASE(far, STRAY_FAR)
STRAY_CASE(wrap, STRAY_WRAP)
STRAY_CASE(key, STRAY_KEY)
STRAY_CASE(zero_key, STRAY_ZERO_KEY)

/* ---- a key that was released ---- */

static void released_destination(struct suite_side *s)
{
	struct suite_memory m = {.pages = 8, .local = s->on->map(s->on, 8 * SUITE_PAGE)};
	struct rf_key newer;

	NEED(s, m.local);
	m.remote = (uintptr_t)m.local;
	NEED(s, suite_register(s, m.local, 8 * SUITE_PAGE, RF_ACCESS_REMOTE_WRITE, 1, &m.rkey));
	NEED(s, suite_release(s, m.rkey, 2));
	/* The same memory again, perhaps in the same slot of some table. */
	NEED(s, suite_register(s, m.local, 8 * SUITE_PAGE, RF_ACCESS_REMOTE_WRITE, 3, &newer));
	NEED(s, suite_send(s, 0, &m, sizeof(m)));
	NEED(s, is_over(s));
	NEED(s, suite_untouched(s, &m, 0, 0));
	m.rkey = newer;
	NEED(s, suite_unmap(s, &m));
}

static void released_source(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	suite_put(s, &m, 0, 5);
	struct rf_write w = suite_pages(&m, 0, 1);

	NEED(s, suite_write(s, 1, &w, 1));
	NEED(s, is_over(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- a peer that goes ---- */

static void goes(struct suite_side *s)
{
	NEED(s, s->f->limits.lanes >= 1);
}

static void stays(struct suite_side *s)
{
	NEED(s, is_over(s));
}

/* ---- what was sent before closing arrives ---- */

enum { WORDS = 100 };

static bool speak(struct suite_side *s)
{
	for (uint32_t i = 0; i < WORDS; i++)
		for (unsigned lane = 0; lane <= s->f->limits.lanes; lane++)
			if (!suite_send(s, lane, &i, sizeof(i)))
				return false;
	return true;
}

static void speaks_and_goes(struct suite_side *s)
{
	NEED(s, speak(s));
}

static void hears_all(struct suite_side *s)
{
	uint32_t heard[1 + SUITE_MAX_LANES] = {0}, i;

	for (unsigned n = 0; n < WORDS * (s->f->limits.lanes + 1); n++) {
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		memcpy(&i, s->message, sizeof(i));
		NEED(s, i == heard[s->message_lane]++);
	}
	NEED(s, is_over(s));
}

/* … also when the other side is in the middle of sending and the words cross its data. */

enum { CROSSING_PAGES = 2048 };

static void streams_and_hears_all(struct suite_side *s)
{
	uint32_t words = 0;
	struct suite_memory m;
	struct rf_event ev = {0};

	NEED(s, suite_take_offer(s, &m));
	NEED(s, suite_send(s, 0, "speak", 5));
	while (ev.kind != RF_EV_LOST) {
		struct rf_write w = suite_pages(&m, 0, CROSSING_PAGES);
		int taken = s->f->ops->write(s->f, 1, &w, 1);
		int n = s->f->ops->poll(s->f, &ev, 1, taken == 1 ? 0 : 20000 * MS);

		NEED(s, n == 1 || taken == 1);
		s->posted[1] += taken == 1;
		if (n == 1 && ev.kind == RF_EV_MESSAGE)
			words++;
		if (n == 0)
			ev.kind = RF_EV_WRITTEN;
	}
	NEED(s, words == WORDS * (s->f->limits.lanes + 1));
	NEED(s, suite_unmap(s, &m));
}

static void speaks_against_stream(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_offer(s, CROSSING_PAGES, &m));
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, speak(s));
	/* Its memory stays registered and mapped until the fabric is closed. */
}

/* ---- closing with everything in flight ---- */

static void nothing(void *arg)
{
}

static void leaves_in_a_hurry(struct suite_side *s)
{
	struct suite_memory m;
	struct rf_write w[32];
	struct rf_key key;

	NEED(s, suite_take_offer(s, &m));
	NEED(s, suite_register(s, m.local, m.pages * SUITE_PAGE, RF_ACCESS_LOCAL_READ, 1, &key));
	for (unsigned lane = 1; lane <= s->f->limits.lanes; lane++) {
		for (unsigned i = 0; i < 32; i++)
			w[i] = suite_pages(&m, (lane * 32 + i) * 16, 16);
		NEED(s, s->f->ops->write(s->f, lane, w, 32) >= 1);
		NEED(s, s->f->ops->send(s->f, lane, w, sizeof(w)) >= 0);
	}
	NEED(s, s->f->ops->run(s->f, nothing, NULL, 1) == 0);
	NEED(s, s->f->ops->send(s->f, 0, "bye", 3) == 1);
}

static void sees_it_leave(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_offer(s, 2048, &m));
	NEED(s, s->f->ops->run(s->f, nothing, NULL, 1) == 0);
	NEED(s, suite_await_loss(s));
}

const struct suite_case suite_end_cases[] = {
    {"a write before the region", {0}, stray_before, stray_destination},
    {"a write behind the region", {0}, stray_behind, stray_destination},
    {"a write across the region's end", {0}, stray_across, stray_destination},
    {"a write to an address of its own", {0}, stray_far, stray_destination},
    {"a write at the end of the address space", {0}, stray_wrap, stray_destination},
    {"a write with a wrong key", {0}, stray_key, stray_destination},
    {"a write with a key of zeros", {0}, stray_zero_key, stray_destination},
    {"a write with a released key", {0}, released_source, released_destination},
    {"the source goes", {0}, goes, stays},
    {"the destination goes", {0}, stays, goes},
    {"last words of the source", {.lanes = 3}, speaks_and_goes, hears_all},
    {"last words of the destination", {.lanes = 3}, hears_all, speaks_and_goes},
    {"last words against the stream", {.lanes = 2}, streams_and_hears_all, speaks_against_stream},
    {"closing with everything in flight", {.lanes = 2}, leaves_in_a_hurry, sees_it_leave},
    {0},
};
