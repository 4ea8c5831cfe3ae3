// SPDX-License-Identifier: LGPL-2.1-or-later
/* The simulated fabric's operations that wait, and its events. See sim.h for what it is and sim_private.h for the map of its
 * files. Nothing here blocks for real, but for the baton.
 *
 * Limits: one connection per world, and it cannot be made anew. A process that only has one end cannot use it. */
#include "fabric/sim_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rf_sim_model_init(struct rf_sim_model *m)
{
	*m = (struct rf_sim_model){.bytes_per_second = UINT64_C(1) << 30,
				   .delay_ns = 50 * RF_US,
				   .jitter_ns = 20 * RF_US,
				   .lane_skew_ns = 100 * RF_US,
				   .write_ns = 500,
				   .message_ns = 5 * RF_US,
				   .register_ns = 50 * RF_US,
				   .register_page_ns = 250,
				   .release_ns = 20 * RF_US,
				   .run_ns = 10 * RF_US,
				   .poll_ns = 1 * RF_US,
				   .queue_depth = 64,
				   .workers = 2,
				   .max_write_bytes = 1 << 20,
				   .max_message_bytes = 64 << 10,
				   .max_spans = 16,
				   .local_keys = true,
				   .limit_ns = 3600 * RF_S};
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

void rf_sim_notify(struct rf_sim_side *s)
{
	if (s->waiter)
		rf_sim_make_ready(s->waiter);
}

void rf_sim_push(struct rf_sim_side *s, const struct rf_event *event)
{
	size_t text = event->text ? strlen(event->text) + 1 : 0;
	struct rf_sim_event *e = rf_sim_alloc(sizeof(*e) + event->length + text);

	e->event = *event;
	if (event->length) {
		memcpy(e->bytes, event->data, event->length);
		e->event.data = e->bytes;
	}
	if (text) {
		memcpy(e->bytes + event->length, event->text, text);
		e->event.text = e->bytes + event->length;
	}
	*s->events_end = e;
	s->events_end = &e->next;
	rf_sim_notify(s);
}

void rf_sim_lose(struct rf_sim_side *s, const char *text)
{
	if (!s->lost && s->state == RF_SIM_CONNECTED)
		rf_sim_push(s, &(struct rf_event){.kind = RF_EV_LOST, .status = -1, .text = text});
	s->lost = true;
	rf_sim_notify(s);
}

static void free_events(struct rf_sim_event **list)
{
	struct rf_sim_event *e;

	while ((e = *list)) {
		*list = e->next;
		free(e);
	}
}

static void wait_for_news(struct rf_sim_side *s, int64_t deadline_ns)
{
	s->waiter = s->world->running;
	rf_sim_wait(s->world, deadline_ns);
	s->waiter = NULL;
}

static bool take_wake(struct rf_sim_side *s)
{
	return atomic_exchange(&s->woken, false);
}

static int sim_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	struct rf_sim_side *s = rf_sim_of(f);
	struct rf_sim *w = s->world;
	struct rf_sim_event *e;
	int64_t deadline_ns = timeout_ns < 0 ? -1 : w->now_ns + timeout_ns;
	int n = 0;

	assert(max > 0);
	free_events(&s->delivered);
	if (timeout_ns >= 0 && timeout_ns < w->model.poll_ns)
		deadline_ns = w->now_ns + w->model.poll_ns;
	while (!s->events && !atomic_load(&s->woken) && (deadline_ns < 0 || w->now_ns < deadline_ns))
		wait_for_news(s, deadline_ns);
	if (take_wake(s))
		events[n++] = (struct rf_event){.kind = RF_EV_WOKEN};
	for (; n < max && (e = s->events); n++) {
		if (!(s->events = e->next))
			s->events_end = &s->events;
		events[n] = e->event;
		if (n && e->event.kind == RF_EV_WRITTEN && events[n - 1].kind == RF_EV_WRITTEN &&
		    events[n - 1].lane == e->event.lane)
			events[--n].count += e->event.count;
		e->next = s->delivered;
		s->delivered = e;
	}
	return n;
}

static void sim_wake(struct rf_fabric *f)
{
	atomic_store(&rf_sim_of(f)->woken, true);
}

static int64_t sim_now(struct rf_fabric *f)
{
	return rf_sim_of(f)->world->now_ns;
}

/* ---- connecting ---------------------------------------------------------------------------------------------------- */

static int sim_probe(char *text, size_t length, struct rf_error *e)
{
	snprintf(text, length, "both ends in one process, on a virtual clock");
	return 0;
}

static int open_alone(const struct rf_fabric_config *config, struct rf_fabric **out, struct rf_error *e)
{
	return rf_fail(e, RF_E_USAGE, "a simulated fabric needs both of its ends in one process");
}

static int sim_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_sim_side *s = rf_sim_of(f);

	assert(s->state == RF_SIM_FREE);
	s->state = RF_SIM_LISTENS;
	return 0;
}

static int sim_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e)
{
	snprintf(text, length, "sim:");
	return 0;
}

/* The accepting side takes what the peer has. */
static void set_up(struct rf_sim_side *s, const struct rf_sim_side *caller)
{
	struct rf_sim *w = s->world;
	const struct rf_sim_model *m = &w->model;
	unsigned i;

	s->fabric.limits.lanes = caller->config.lanes;
	s->fabric.limits.queue_depth = s->config.queue_depth;
	s->fabric.limits.max_write_bytes = m->max_write_bytes;
	s->fabric.limits.max_message_bytes = m->max_message_bytes;
	s->fabric.limits.max_spans = m->max_spans;
	s->fabric.limits.local_keys = m->local_keys;
	s->fabric.limits.pins = m->pins;
	s->fabric.limits.on_demand = m->on_demand[s->index];
	for (i = 0; i <= s->fabric.limits.lanes; i++)
		s->lanes[i].skew_ns = m->lane_skew_ns ? (int64_t)rf_sim_random(w, (uint64_t)m->lane_skew_ns) : 0;
	s->state = RF_SIM_CONNECTED;
}

static int sim_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e)
{
	struct rf_sim_side *s = rf_sim_of(f);
	int64_t deadline_ns = timeout_ns < 0 ? -1 : s->world->now_ns + timeout_ns;

	assert(s->state == RF_SIM_LISTENS);
	while (!s->called) {
		if (take_wake(s))
			return rf_fail(e, RF_E_CANCELLED, "cancelled while waiting for a peer");
		if (s->world->hopeless)
			return rf_fail(e, RF_E_FAILED, "no peer will ever come");
		if (deadline_ns >= 0 && s->world->now_ns >= deadline_ns)
			return rf_fail(e, RF_E_FAILED, "no peer came");
		wait_for_news(s, deadline_ns);
	}
	set_up(s, rf_sim_peer(s));
	rf_sim_peer(s)->answered = true;
	return 0;
}

static void ring(struct rf_sim *w, void *arg)
{
	struct rf_sim_side *s = arg;

	if (rf_sim_peer(s)->state != RF_SIM_CALLS)
		return;
	s->called = true;
	rf_sim_notify(s);
}

static void hang_up(struct rf_sim_side *s)
{
	struct rf_sim_side *peer = rf_sim_peer(s);

	s->state = RF_SIM_FREE;
	peer->called = false;
	if (s->answered)
		rf_sim_lose(peer, "the peer has closed the connection");
}

static int sim_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_sim_side *s = rf_sim_of(f), *peer = rf_sim_peer(s);
	struct rf_sim *w = s->world;
	int64_t deadline_ns = s->config.connect_timeout_ns > 0 ? w->now_ns + s->config.connect_timeout_ns : -1;

	assert(s->state == RF_SIM_FREE);
	rf_sim_spend(w, 2 * w->model.delay_ns);
	if (peer->state != RF_SIM_LISTENS || peer->called)
		return rf_fail(e, RF_E_FAILED, "nobody listens there");
	s->state = RF_SIM_CALLS;
	rf_sim_set_timer(w, w->now_ns + rf_sim_jitter(w), ring, peer);
	while (!s->answered) {
		if (take_wake(s)) {
			hang_up(s);
			return rf_fail(e, RF_E_CANCELLED, "cancelled while connecting");
		}
		if (w->hopeless || (deadline_ns >= 0 && w->now_ns >= deadline_ns)) {
			hang_up(s);
			return rf_fail(e, RF_E_FAILED, "no answer from the peer");
		}
		/* a look at every round trip will do for the answer */
		wait_for_news(s, w->now_ns + 2 * w->model.delay_ns + 1);
	}
	set_up(s, s);
	if (s->lost) { /* the peer has come and gone */
		s->lost = false;
		rf_sim_lose(s, "the peer has closed the connection");
	}
	return 0;
}

/* ---- the end of a fabric ------------------------------------------------------------------------------------------- */

static void peer_closed(struct rf_sim *w, void *arg)
{
	rf_sim_lose(arg, "the peer has closed the connection");
}

/* Behind everything that was sent. */
static void tell_peer(struct rf_sim_side *s)
{
	struct rf_sim *w = s->world;
	int64_t at_ns = w->now_ns + w->model.delay_ns;
	unsigned i;

	for (i = 0; i <= s->fabric.limits.lanes; i++)
		if (s->lanes[i].arrived_ns > at_ns)
			at_ns = s->lanes[i].arrived_ns;
	rf_sim_set_timer(w, at_ns + rf_sim_jitter(w), peer_closed, rf_sim_peer(s));
}

static void sim_close(struct rf_fabric *f)
{
	struct rf_sim_side *s = rf_sim_of(f);
	struct rf_sim *w;
	int64_t patience_ns;

	if (!f)
		return;
	w = s->world;
	patience_ns = w->now_ns + RF_S;
	s->closing = true;
	while (s->busy || s->jobs)
		wait_for_news(s, -1);
	while (s->state == RF_SIM_CONNECTED && s->unsent && !s->lost && !w->cut && w->now_ns < patience_ns)
		wait_for_news(s, patience_ns);
	if (s->state == RF_SIM_CONNECTED)
		tell_peer(s);
	rf_sim_spend(w, w->model.release_ns * (int64_t)rf_sim_living(s));
	s->state = RF_SIM_CLOSED;
	s->closing = false;
	free_events(&s->events);
	s->events_end = &s->events;
	free_events(&s->delivered);
}

static const struct rf_fabric_ops sim_ops = {
    .scheme = "sim",
    .probe = sim_probe,
    .open = open_alone,
    .listen = sim_listen,
    .address = sim_address,
    .accept = sim_accept,
    .connect = sim_connect,
    .close = sim_close,
    .can_pin = rf_sim_can_pin,
    .count = rf_sim_counters,
    .reg = rf_sim_reg,
    .dereg = rf_sim_dereg,
    .write = rf_sim_write,
    .send = rf_sim_send,
    .run = rf_sim_run_job,
    .poll = sim_poll,
    .wake = sim_wake,
    .now = sim_now,
};

/* ---- the world ------------------------------------------------------------------------------------------------------ */

static void init_side(struct rf_sim *w, unsigned index)
{
	struct rf_sim_side *s = &w->sides[index];

	s->fabric.ops = &sim_ops;
	s->world = w;
	s->index = index;
	s->memory = rf_sim_bytes;
	s->events_end = &s->events;
	s->jobs_end = &s->jobs;
	rf_sim_task_init(w, &s->task);
}

int rf_sim_open(const struct rf_sim_model *m, uint64_t seed, struct rf_sim **out, struct rf_error *e)
{
	struct rf_sim *w = calloc(1, sizeof(*w));

	if (!w)
		return rf_fail(e, RF_E_FAILED, "no memory for a simulated world");
	w->model = *m;
	w->random = seed;
	pthread_mutex_init(&w->lock, NULL);
	rf_sim_task_init(w, &w->outside);
	w->running = &w->outside;
	init_side(w, 0);
	init_side(w, 1);
	*out = w;
	return 0;
}

struct rf_fabric *rf_sim_fabric(struct rf_sim *w, enum rf_sim_end end, const struct rf_fabric_config *config)
{
	struct rf_sim_side *s = &w->sides[end];

	s->config = *config;
	if (!s->config.lanes)
		s->config.lanes = w->model.lanes ? w->model.lanes : 1 + (unsigned)rf_sim_random(w, 4);
	if (s->config.lanes > RF_SIM_MAX_LANES)
		s->config.lanes = RF_SIM_MAX_LANES;
	if (!s->config.queue_depth)
		s->config.queue_depth = w->model.queue_depth;
	if (!s->config.workers)
		s->config.workers = w->model.workers;
	return &s->fabric;
}

void rf_sim_set_memory(struct rf_sim *w, enum rf_sim_end end, const struct rf_sim_memory *memory)
{
	w->sides[end].memory = *memory;
}

struct rf_sim_count rf_sim_count(const struct rf_sim *w, enum rf_sim_end end)
{
	return w->sides[end].count;
}

void rf_sim_on_message(struct rf_sim *w,
		       void (*fn)(void *arg, enum rf_sim_end from, const void *message, size_t length, bool delivered),
		       void *arg)
{
	w->on_message = fn;
	w->on_message_arg = arg;
}

void rf_sim_close(struct rf_sim *w)
{
	struct rf_sim_timer timer;
	int i;

	if (!w)
		return;
	assert(w->running == &w->outside);
	w->ending = true;
	/* what still travels is freed by its timers, and lands nowhere: both ends are closed */
	while (rf_sim_next_timer(w, &timer)) {
		if (timer.at_ns > w->now_ns)
			w->now_ns = timer.at_ns;
		timer.fn(w, timer.arg);
	}
	for (i = 0; i < 2; i++) {
		rf_sim_end_workers(&w->sides[i]);
		free_events(&w->sides[i].events);
		free_events(&w->sides[i].delivered);
		free(w->sides[i].registrations);
		free(w->sides[i].landings);
		pthread_cond_destroy(&w->sides[i].task.turn);
	}
	pthread_cond_destroy(&w->outside.turn);
	pthread_mutex_destroy(&w->lock);
	free(w->timers);
	free(w);
}
