// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 64 };
static const int64_t PING_EVERY_NS = 1000000000;
static const int64_t FLUSH_NS = 1000000000;
static const int64_t LAST_WORDS_NS = 500000000;
static const char LOST[] = "the connection was lost";

struct rf_outgoing {
	struct rf_outgoing *next;
	unsigned lane;
	size_t length;
	uint8_t bytes[];
};

void rf_peer_init(struct rf_peer *p, struct rf_engine *engine, bool is_source, void *side)
{
	*p = (struct rf_peer){
	    .fabric = engine->fabric,
	    .engine = engine,
	    .is_source = is_source,
	    .phase = RF_WIRE_HELLO,
	    .activity = "setting up",
	    .may_cancel = true,
	    .side = side,
	};
	p->outbox_end = &p->outbox;
	p->began_ns = p->heard_ns = p->pinged_ns = rf_peer_now(p);
}

void rf_peer_free(struct rf_peer *p)
{
	for (struct rf_outgoing *o = p->outbox, *next; o; o = next) {
		next = o->next;
		free(o);
	}
	p->outbox = NULL;
}

int64_t rf_peer_now(const struct rf_peer *p)
{
	return p->fabric->ops->now(p->fabric);
}

/* ---- sending ---- */

struct rf_out *rf_peer_begin(struct rf_peer *p, enum rf_message_type type)
{
	rf_out_begin(&p->out, type);
	return &p->out;
}

static int lost(struct rf_peer *p, const char *why, struct rf_error *e)
{
	if (!p->lost && !p->aborted)
		rf_fail(&p->ended, RF_E_FAILED, "%s", why);
	p->lost = true;
	if (e)
		*e = p->ended;
	return -1;
}

int rf_peer_lost(struct rf_peer *p, struct rf_error *e)
{
	return lost(p, LOST, e);
}

static int queue(struct rf_peer *p, unsigned lane, struct rf_error *e)
{
	struct rf_outgoing *o = malloc(sizeof(*o) + p->out.length);
	if (!o)
		return rf_fail(e, RF_E_FAILED, "no memory for a message");
	o->next = NULL;
	o->lane = lane;
	o->length = p->out.length;
	memcpy(o->bytes, p->out.bytes, o->length);
	*p->outbox_end = o;
	p->outbox_end = &o->next;
	return 0;
}

int rf_peer_send(struct rf_peer *p, unsigned lane, struct rf_error *e)
{
	if (p->lost)
		return lost(p, "", e);
	rf_out_end(&p->out, p->sequence_out[lane]++);
	p->messages_bytes += p->out.length;
	/* A message that waits is overtaken by none, not even on another lane: simpler, and waiting is rare. */
	if (p->outbox)
		return queue(p, lane, e);
	int taken = p->fabric->ops->send(p->fabric, lane, p->out.bytes, p->out.length);
	if (taken < 0)
		return rf_peer_lost(p, e);
	return taken ? 0 : queue(p, lane, e);
}

static int say_pong(struct rf_peer *p, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(p, RF_MSG_PONG);
	p->pong_due = false;
	rf_put_u64(o, p->pong_stamp);
	rf_put_text(o, p->activity);
	return rf_peer_send(p, RF_LANE_CONTROL, e);
}

static void flush(struct rf_peer *p)
{
	while (p->outbox && !p->lost) {
		struct rf_outgoing *o = p->outbox;
		int taken = p->fabric->ops->send(p->fabric, o->lane, o->bytes, o->length);
		if (taken < 0)
			rf_peer_lost(p, NULL);
		if (taken <= 0)
			return;
		p->outbox = o->next;
		if (!p->outbox)
			p->outbox_end = &p->outbox;
		free(o);
	}
	if (p->pong_due && !p->lost)
		say_pong(p, NULL);
}

void rf_peer_abort(struct rf_peer *p, const struct rf_error *why)
{
	if (p->lost || p->aborted)
		return;
	struct rf_out *o = rf_peer_begin(p, RF_MSG_ABORT);
	rf_put_u8(o, (uint8_t)why->code);
	rf_put_text(o, why->text);
	rf_peer_send(p, RF_LANE_CONTROL, NULL);
}

/* ---- receiving ---- */

static int take_abort(struct rf_peer *p, const struct rf_message *m, struct rf_error *e)
{
	char text[sizeof(p->ended.text)];
	struct rf_in in = rf_in_body(m);
	unsigned code = rf_get_u8(&in);
	rf_get_text(&in, text, sizeof(text));
	if (rf_in_end(&in, m, e))
		return -1;
	p->aborted = true;
	rf_fail(&p->ended, code == RF_E_REFUSED ? RF_E_REFUSED : RF_E_FAILED, "the other side gave up: %s", text);
	*e = p->ended;
	return -1;
}

static int take_refused(struct rf_peer *p, const struct rf_message *m, struct rf_error *e)
{
	char text[sizeof(p->ended.text)];
	struct rf_in in = rf_in_body(m);
	rf_get_text(&in, text, sizeof(text));
	if (rf_in_end(&in, m, e))
		return -1;
	p->aborted = true;
	rf_fail(&p->ended, RF_E_REFUSED, "the other side refuses: %s", text);
	*e = p->ended;
	return -1;
}

/* While other messages wait the answer is only noted: a peer that asks and does not listen shall not fill our memory. */
static int take_ping(struct rf_peer *p, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	p->pong_stamp = rf_get_u64(&in);
	p->pong_due = true;
	return p->outbox ? 0 : say_pong(p, e);
}

static int take_pong(struct rf_peer *p, const struct rf_message *m, struct rf_error *e)
{
	char activity[100];
	struct rf_in in = rf_in_body(m);
	uint64_t stamp = rf_get_u64(&in);
	rf_get_text(&in, activity, sizeof(activity));
	if (rf_in_end(&in, m, e))
		return -1;
	/* PINGs carry the time, and there may be more than one on its way. */
	if (stamp < (uint64_t)p->began_ns || stamp > (uint64_t)p->pinged_ns)
		return rf_fail(e, RF_E_FAILED, "the peer's PONG answers what was not asked");
	int64_t trip = rf_peer_now(p) - (int64_t)stamp;
	if (trip > 0 && (!p->round_trip_ns || trip < p->round_trip_ns))
		p->round_trip_ns = trip;
	rf_log(p->engine->log, RF_LOG_DEBUG, "the other side answers: %s", activity);
	return 0;
}

static int take_message(struct rf_peer *p, const struct rf_event *ev, struct rf_error *e)
{
	struct rf_message m;
	assert(ev->lane <= RF_LANES_MAX);
	p->heard_ns = rf_peer_now(p);
	if (rf_message_parse(ev->data, ev->length, p->sequence_in[ev->lane]++, &m, e) ||
	    rf_message_allowed(&m, !p->is_source, ev->lane, p->phase, e))
		return -1;
	switch (m.type) {
	case RF_MSG_ABORT:
		return take_abort(p, &m, e);
	case RF_MSG_REFUSED:
		return take_refused(p, &m, e);
	case RF_MSG_PING:
		return take_ping(p, &m, e);
	case RF_MSG_PONG:
		return take_pong(p, &m, e);
	default:
		return p->message(p->side, ev->lane, &m, e);
	}
}

static void complete(struct rf_peer *p, const struct rf_event *ev)
{
	struct rf_task *task = (struct rf_task *)(uintptr_t)ev->cookie;
	if (ev->kind == RF_EV_DONE) {
		assert(p->tasks);
		p->tasks--;
	}
	task->done(task, ev);
}

static int take_event(struct rf_peer *p, const struct rf_event *ev, struct rf_error *e)
{
	switch (ev->kind) {
	case RF_EV_REGISTERED:
	case RF_EV_RELEASED:
	case RF_EV_DONE:
		complete(p, ev);
		return 0;
	case RF_EV_WRITTEN:
		/* The peer's host took bytes; whether its engine lives only a message tells. */
		if (p->written && !p->deaf && ev->count)
			p->written(p->side, ev->lane, ev->count);
		return 0;
	case RF_EV_MESSAGE:
		return p->deaf ? 0 : take_message(p, ev, e);
	case RF_EV_LOST:
		p->gone = true;
		if (p->lost && !p->aborted && !strcmp(p->ended.text, LOST) && ev->text)
			rf_fail(&p->ended, RF_E_FAILED, "%s", ev->text); /* the fabric knows more */
		lost(p, ev->text ? ev->text : LOST, NULL);
		return 0;
	case RF_EV_WOKEN:
		return 0;
	}
	assert(!"a fabric made up an event");
	return -1;
}

void rf_peer_last_words(struct rf_peer *p, struct rf_error *e)
{
	struct rf_event events[EVENTS];
	struct rf_error ignored;
	int64_t until = rf_peer_now(p) + LAST_WORDS_NS, left;

	if (!p->lost || p->aborted || p->deaf || strcmp(e->text, LOST))
		return;
	while (!p->gone && !p->aborted && (left = until - rf_peer_now(p)) > 0) {
		int n = p->fabric->ops->poll(p->fabric, events, EVENTS, left);
		for (int i = 0; i < n; i++)
			take_event(p, &events[i], &ignored);
	}
	*e = p->ended;
}

/* ---- waiting ---- */

/* `listened`: all that the peer has said so far was heard. Whoever stood still for some seconds (a terminal that takes no
 * progress) finds its answers waiting, and must not take its own silence for the peer's. */
static int look_after(struct rf_peer *p, bool listened, struct rf_error *e)
{
	int64_t now = rf_peer_now(p), silence = (int64_t)p->engine->options->peer_timeout_ns;
	if (p->aborted || p->lost) {
		*e = p->ended;
		return -1;
	}
	if (p->may_cancel && atomic_load(p->engine->cancelled))
		return rf_fail(e, RF_E_CANCELLED, "cancelled");
	if (listened && now - p->heard_ns > silence)
		return lost(p, "the other side has not answered for too long (see --peer-timeout)", e);
	if (now - p->pinged_ns >= PING_EVERY_NS) {
		p->pinged_ns = now;
		struct rf_out *o = rf_peer_begin(p, RF_MSG_PING);
		rf_put_u64(o, (uint64_t)now);
		return rf_peer_send(p, RF_LANE_CONTROL, e);
	}
	return 0;
}

/* Until the next PING is due, or the peer has been silent for too long. */
static int64_t until_look(const struct rf_peer *p)
{
	int64_t ping = p->pinged_ns + PING_EVERY_NS,
		dead = p->heard_ns + (int64_t)p->engine->options->peer_timeout_ns + 1;
	int64_t left = (ping < dead ? ping : dead) - rf_peer_now(p);
	return left < 0 ? 0 : left;
}

int rf_peer_pump(struct rf_peer *p, int64_t timeout_ns, struct rf_error *e)
{
	struct rf_event events[EVENTS];
	struct rf_error first = {0}, this;
	int failed = 0;

	if (!p->deaf) {
		if (look_after(p, false, e))
			return -1;
		flush(p);
		int64_t look = until_look(p);
		if (timeout_ns < 0 || timeout_ns > look)
			timeout_ns = look;
	}
	int n = p->fabric->ops->poll(p->fabric, events, EVENTS, timeout_ns);
	/* All of a batch is taken even when one event ends the migration: tasks that are done must be known. But what
	 * the peer says behind that counts no more, least of all a COMMIT. */
	for (int i = 0; i < n; i++)
		if (!(failed && events[i].kind == RF_EV_MESSAGE) && take_event(p, &events[i], &this)) {
			first = this;
			failed = -1;
		}
	if (failed) {
		*e = first;
		return -1;
	}
	if (p->deaf)
		return 0;
	if (look_after(p, n < EVENTS, e))
		return -1;
	if (p->idle)
		p->idle(p->side);
	return 0;
}

int rf_peer_run(struct rf_peer *p, struct rf_task *task, void (*fn)(void *), void *arg, struct rf_error *e)
{
	if (p->fabric->ops->run(p->fabric, fn, arg, (uint64_t)(uintptr_t)task))
		return rf_fail(e, RF_E_FAILED, "no memory for work on a worker");
	p->tasks++;
	return 0;
}

struct call {
	struct rf_task task;
	int (*fn)(void *arg, struct rf_error *e);
	void *arg;
	struct rf_error error;
	int result;
	bool done;
};

static void call_run(void *arg)
{
	struct call *c = arg;
	c->result = c->fn(c->arg, &c->error);
}

static void call_done(struct rf_task *task, const struct rf_event *event)
{
	struct call *c = task->owner;
	c->done = true;
}

/* What comes of the operation, and in *pumped_ok what comes of the peer (and of `meanwhile`) in that time. */
static int call(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e),
		int (*meanwhile)(void *arg, struct rf_error *e), void *arg, struct rf_error *pumped, bool *pumped_ok,
		struct rf_error *e)
{
	struct call c = {.task.done = call_done, .fn = fn, .arg = arg};
	struct rf_error ignored;
	bool deaf = p->deaf;

	c.task.owner = &c;
	if (rf_peer_run(p, &c.task, call_run, &c, e))
		return -1;
	*pumped_ok = !meanwhile || !meanwhile(arg, pumped);
	p->deaf = deaf || !*pumped_ok;
	while (!c.done)
		if (rf_peer_pump(p, -1, *pumped_ok ? pumped : &ignored)) {
			/* Once the peer has failed, only the operation itself is waited for. */
			*pumped_ok = false;
			p->deaf = true;
		}
	p->deaf = deaf;
	if (c.result)
		*e = c.error;
	return c.result ? -1 : 0;
}

int rf_peer_call_meanwhile(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e),
			   int (*meanwhile)(void *arg, struct rf_error *e), void *arg, struct rf_error *e)
{
	struct rf_error pumped;
	bool pumped_ok;

	if (call(p, fn, meanwhile, arg, &pumped, &pumped_ok, e))
		return -1;
	if (!pumped_ok)
		*e = pumped;
	return pumped_ok ? 0 : -1;
}

int rf_peer_call(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e), void *arg, struct rf_error *e)
{
	return rf_peer_call_meanwhile(p, fn, NULL, arg, e);
}

int rf_peer_call_anyway(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e), void *arg, struct rf_error *e)
{
	struct rf_error pumped;
	bool pumped_ok;

	return call(p, fn, NULL, arg, &pumped, &pumped_ok, e);
}

void rf_peer_quiesce(struct rf_peer *p)
{
	struct rf_error ignored;
	int64_t until = rf_peer_now(p) + FLUSH_NS, left;

	p->deaf = true;
	for (;;) {
		flush(p);
		left = until - rf_peer_now(p);
		bool waiting = p->outbox && !p->lost && left > 0;
		if (!p->tasks && !waiting)
			return;
		rf_peer_pump(p, waiting ? left : -1, &ignored);
	}
}
