// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/fabric/suite_side.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS INT64_C(20000000000)

bool suite_fail(struct suite_side *side, const char *file, int line, const char *format, ...)
{
	const char *slash = strrchr(file, '/');
	va_list args;

	/* The first reason is the one to look at. */
	if (*side->failure)
		return false;
	int n = snprintf(side->failure, sizeof(side->failure), "%s:%d: ", slash ? slash + 1 : file, line);

	va_start(args, format);
	vsnprintf(side->failure + n, sizeof(side->failure) - (size_t)n, format, args);
	va_end(args);
	return false;
}

#define FAIL(side, ...) suite_fail(side, __FILE__, __LINE__, __VA_ARGS__)

static const char *kind_name(enum rf_event_kind kind)
{
	static const char *const names[] = {"REGISTERED", "RELEASED", "WRITTEN", "MESSAGE", "DONE", "WOKEN", "LOST"};

	return names[kind];
}

static bool keep_message(struct suite_side *side, const struct rf_event *ev)
{
	free(side->message);
	side->message = malloc(ev->length + 1);
	if (!side->message)
		return FAIL(side, "out of memory");
	memcpy(side->message, ev->data, ev->length);
	side->message_length = ev->length;
	side->message_lane = ev->lane;
	return true;
}

/* One event of any kind, counted or kept. */
static bool next(struct suite_side *side, const char *for_what, struct rf_event *ev)
{
	int n = side->f->ops->poll(side->f, ev, 1, PATIENCE_NS);

	if (n != 1)
		return FAIL(side, "waited in vain for %s", for_what);
	if (ev->kind == RF_EV_WRITTEN) {
		side->written[ev->lane] += ev->count;
		if (side->written[ev->lane] > side->posted[ev->lane])
			return FAIL(side, "more writes reported on lane %u than were posted", ev->lane);
	}
	if (ev->kind == RF_EV_LOST)
		snprintf(side->loss, sizeof(side->loss), "%s", ev->text ? ev->text : "");
	return ev->kind != RF_EV_MESSAGE || keep_message(side, ev);
}

bool suite_await(struct suite_side *side, enum rf_event_kind kind, struct rf_event *ev)
{
	struct rf_event own;

	if (!ev)
		ev = &own;
	for (;;) {
		if (!next(side, kind_name(kind), ev))
			return false;
		if (ev->kind == kind)
			return true;
		if (ev->kind != RF_EV_WRITTEN)
			return FAIL(side, "%s came in place of %s (%s)", kind_name(ev->kind), kind_name(kind),
				    ev->kind == RF_EV_LOST ? side->loss : "no text");
	}
}

bool suite_await_loss(struct suite_side *side)
{
	struct rf_event ev;

	do
		if (!next(side, "LOST", &ev))
			return false;
	while (ev.kind != RF_EV_LOST);
	return *side->loss || FAIL(side, "LOST without a sentence");
}

bool suite_send(struct suite_side *side, unsigned lane, const void *message, size_t length)
{
	for (;;) {
		int r = side->f->ops->send(side->f, lane, message, length);

		if (r != 0)
			return r == 1 || FAIL(side, "send on lane %u failed", lane);
		if (!suite_await(side, RF_EV_WRITTEN, NULL))
			return false;
	}
}

bool suite_write(struct suite_side *side, unsigned lane, const struct rf_write *w, int n)
{
	while (n > 0) {
		int taken = side->f->ops->write(side->f, lane, w, n);

		if (taken < 0 || taken > n)
			return FAIL(side, "write on lane %u gave %d of %d", lane, taken, n);
		side->posted[lane] += (unsigned)taken;
		w += taken;
		n -= taken;
		if (n && !taken && !suite_await(side, RF_EV_WRITTEN, NULL))
			return false;
	}
	return true;
}

static bool all_written(const struct suite_side *side)
{
	for (unsigned lane = 1; lane <= side->f->limits.lanes; lane++)
		if (side->written[lane] < side->posted[lane])
			return false;
	return true;
}

bool suite_written_and_answered(struct suite_side *side)
{
	bool answered = false;
	struct rf_event ev;

	while (!answered || !all_written(side)) {
		if (!next(side, answered ? "WRITTEN" : "MESSAGE", &ev))
			return false;
		if (ev.kind != RF_EV_WRITTEN && (ev.kind != RF_EV_MESSAGE || answered))
			return FAIL(side, "%s came, too (%s)", kind_name(ev.kind),
				    ev.kind == RF_EV_LOST ? side->loss : "no text");
		answered |= ev.kind == RF_EV_MESSAGE;
	}
	return true;
}

bool suite_register(struct suite_side *side, void *address, uint64_t length, unsigned access, uint64_t cookie,
		    struct rf_key *key)
{
	struct rf_event ev;

	if (side->f->ops->reg(side->f, address, length, access, cookie) != 0)
		return FAIL(side, "reg failed");
	if (!suite_await(side, RF_EV_REGISTERED, &ev))
		return false;
	if (ev.cookie != cookie || ev.status != 0)
		return FAIL(side, "REGISTERED with cookie %llu and status %d", (unsigned long long)ev.cookie,
			    ev.status);
	*key = ev.key;
	return true;
}

bool suite_release(struct suite_side *side, struct rf_key key, uint64_t cookie)
{
	struct rf_event ev;

	if (side->f->ops->dereg(side->f, key, cookie) != 0)
		return FAIL(side, "dereg failed");
	if (!suite_await(side, RF_EV_RELEASED, &ev))
		return false;
	return ev.cookie == cookie || FAIL(side, "RELEASED with another cookie");
}

static bool map(struct suite_side *side, struct suite_memory *m, unsigned access, struct rf_key *key)
{
	m->local = side->on->map(side->on, m->pages * SUITE_PAGE);
	if (!m->local)
		return FAIL(side, "no memory to move");
	return suite_register(side, m->local, m->pages * SUITE_PAGE, access, 7001, key);
}

bool suite_offer(struct suite_side *side, uint64_t pages, struct suite_memory *m)
{
	*m = (struct suite_memory){.pages = pages};
	if (!map(side, m, RF_ACCESS_REMOTE_WRITE, &m->rkey))
		return false;
	m->remote = (uintptr_t)m->local;
	return suite_send(side, 0, m, sizeof(*m));
}

bool suite_take_offer(struct suite_side *side, struct suite_memory *m)
{
	if (!suite_await(side, RF_EV_MESSAGE, NULL))
		return false;
	if (side->message_length != sizeof(*m))
		return FAIL(side, "an offer of %zu bytes", side->message_length);
	memcpy(m, side->message, sizeof(*m));
	return map(side, m, RF_ACCESS_LOCAL_READ, &m->lkey);
}

bool suite_unmap(struct suite_side *side, struct suite_memory *m)
{
	/* The source has both keys, of which the local one is its own. */
	bool source = m->remote != (uintptr_t)m->local;

	if (!suite_release(side, source ? m->lkey : m->rkey, 7002))
		return false;
	side->on->unmap(side->on, m->local, m->pages * SUITE_PAGE);
	return true;
}

struct rf_write suite_pages(const struct suite_memory *m, uint64_t first, uint64_t count)
{
	return (struct rf_write){
	    .local = m->local + first * SUITE_PAGE,
	    .lkey = m->lkey,
	    .remote = m->remote + first * SUITE_PAGE,
	    .rkey = m->rkey,
	    .length = (uint32_t)(count * SUITE_PAGE),
	};
}

void suite_put(struct suite_side *side, const struct suite_memory *m, uint64_t page, uint64_t stamp)
{
	side->on->put(side->on, m->local + page * SUITE_PAGE, stamp);
}

bool suite_holds(struct suite_side *side, const struct suite_memory *m, uint64_t page, uint64_t stamp)
{
	return side->on->holds(side->on, m->local + page * SUITE_PAGE, stamp);
}

bool suite_untouched(struct suite_side *side, const struct suite_memory *m, uint64_t first, uint64_t count)
{
	for (uint64_t page = 0; page < m->pages; page++)
		if ((page < first || page >= first + count) && !suite_holds(side, m, page, 0))
			return FAIL(side, "page %llu was touched", (unsigned long long)page);
	return true;
}

uint64_t suite_random(uint64_t *state, uint64_t limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % limit;
}
