// SPDX-License-Identifier: LGPL-2.1-or-later
/* What travels. A write waits for its lane and for the link, takes bytes / rate on it, reads the local memory somewhere
 * between being posted and being sent, lands a delay later, and is reported to its sender somewhere between being sent
 * and an acknowledgement's return: before or after it has landed. Lanes know nothing of each other; a lane keeps its order.
 * Lane 0 does not wait for the link: its few bytes share it with the others. */
#include "fabric/sim_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_image_size(void *ctx, uint64_t length)
{
	return length;
}

static void bytes_load(void *ctx, const void *local, uint64_t length, void *image)
{
	memcpy(image, local, length);
}

static void bytes_store(void *ctx, uint64_t remote, uint64_t length, const void *image)
{
	memcpy((void *)(uintptr_t)remote, image, length);
}

const struct rf_sim_memory rf_sim_bytes = {bytes_image_size, bytes_load, bytes_store, NULL};

struct parcel {
	struct rf_sim_side *from;
	unsigned lane;
	struct rf_write write;
	void *image; /* of its memory, once read; or the message */
	size_t length;
	bool counted;   /* among the writes in flight of its registrations */
	bool forbidden; /* touches nothing, and ends the connection where it should have landed */
	unsigned users; /* timers that still need it */
};

static void drop_user(struct parcel *p)
{
	if (--p->users)
		return;
	free(p->image);
	free(p);
}

static bool arrives(const struct parcel *p)
{
	return !p->from->world->cut && rf_sim_peer(p->from)->state == RF_SIM_CONNECTED;
}

static void read_memory(struct rf_sim *w, void *arg)
{
	struct parcel *p = arg;
	const struct rf_sim_memory *m = &p->from->memory;

	p->from->unsent--;
	if (p->counted && arrives(p) && p->from->state == RF_SIM_CONNECTED) {
		p->image = rf_sim_alloc(m->image_size(m->ctx, p->write.length));
		m->load(m->ctx, p->write.local, p->write.length, p->image);
		p->from->count.written_bytes += p->write.length;
		p->from->count.writes++;
	}
	if (p->from->closing)
		rf_sim_notify(p->from);
	drop_user(p);
}

/* Registrations may move in their table, so they are looked up again by key. */
static void count_down(struct rf_sim_side *s, const struct parcel *p, bool remote)
{
	const struct rf_write *w = &p->write;
	uint64_t address = remote ? w->remote : (uint64_t)(uintptr_t)w->local;
	struct rf_sim_registration *r = rf_sim_registered(s, remote ? w->rkey : w->lkey, address, w->length,
							  remote ? RF_ACCESS_REMOTE_WRITE : RF_ACCESS_LOCAL_READ);

	if (r && r->in_flight)
		r->in_flight--;
}

static void land(struct rf_sim *w, void *arg)
{
	struct parcel *p = arg;
	const struct rf_write *write = &p->write;
	struct rf_sim_side *to = rf_sim_peer(p->from);
	bool known = rf_sim_registered(to, write->rkey, write->remote, write->length, RF_ACCESS_REMOTE_WRITE);

	if (arrives(p) && (p->forbidden || (p->counted && !known))) {
		rf_sim_lose(to, "the peer wrote where it may not: nothing was written");
		rf_sim_cut(w);
	} else if (arrives(p) && p->image) {
		to->memory.store(to->memory.ctx, write->remote, write->length, p->image);
	}
	if (p->counted) {
		count_down(to, p, true);
		rf_sim_landing_remove(to, write->remote);
	}
	drop_user(p);
}

static void report(struct rf_sim *w, void *arg)
{
	struct parcel *p = arg;
	struct rf_sim_side *s = p->from;

	if (p->counted && s->fabric.limits.local_keys)
		count_down(s, p, false);
	s->unreported--;
	s->completions++;
	if (s->state == RF_SIM_CONNECTED && !s->lost && !w->cut) {
		s->lanes[p->lane].writes--;
		rf_sim_push(s, &(struct rf_event){.kind = RF_EV_WRITTEN, .lane = p->lane, .count = 1});
	}
	drop_user(p);
}

/* Both keys must name what the write touches. A peer that has closed is no reason for a complaint. */
static void check_write(struct rf_sim_side *s, struct parcel *p)
{
	struct rf_sim *world = s->world;
	struct rf_sim_side *to = rf_sim_peer(s);
	const struct rf_write *w = &p->write;
	struct rf_sim_registration *local, *remote;
	bool keyed = s->fabric.limits.local_keys;

	if (!w->length || w->length > s->fabric.limits.max_write_bytes)
		rf_sim_violate(world, "a write of %u bytes", w->length);
	if (to->state != RF_SIM_CONNECTED || to->lost || world->cut)
		return;
	remote = rf_sim_registered(to, w->rkey, w->remote, w->length, RF_ACCESS_REMOTE_WRITE);
	local = rf_sim_registered(s, w->lkey, (uint64_t)(uintptr_t)w->local, w->length, RF_ACCESS_LOCAL_READ);
	p->forbidden = !remote || (keyed && !local);
	if (!remote)
		rf_sim_violate(world, "a write of %u bytes to %#llx, which no living registration of the peer holds",
			       w->length, (unsigned long long)w->remote);
	else if (p->forbidden)
		rf_sim_violate(world, "a write of %u bytes from %p, which no living registration holds", w->length,
			       w->local);
	if (p->forbidden)
		return;
	p->counted = true;
	remote->in_flight++;
	if (keyed)
		local->in_flight++;
	rf_sim_landing_add(to, w->remote, w->length);
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t wire_ns(const struct rf_sim *w, uint64_t bytes)
{
	return (int64_t)((double)bytes * 1e9 / (double)w->model.bytes_per_second);
}

static int64_t arrival(struct rf_sim_side *s, struct rf_sim_lane *lane, int64_t sent_ns)
{
	struct rf_sim *w = s->world;
	int64_t at_ns = sent_ns + w->model.delay_ns + lane->skew_ns + rf_sim_jitter(w);

	return lane->arrived_ns = later(lane->arrived_ns, at_ns);
}

static void post(struct rf_sim_side *s, unsigned number, const struct rf_write *write)
{
	struct rf_sim *w = s->world;
	struct rf_sim_lane *lane = &s->lanes[number];
	struct parcel *p = rf_sim_alloc(sizeof(*p));
	int64_t begin_ns, read_ns, back_ns;

	*p = (struct parcel){.from = s, .lane = number, .write = *write, .users = 3};
	check_write(s, p);
	begin_ns = later(later(w->now_ns, s->link_free_ns), lane->sent_ns);
	lane->sent_ns = s->link_free_ns = begin_ns + w->model.write_ns + wire_ns(w, write->length);
	read_ns = w->now_ns + (int64_t)rf_sim_random(w, (uint64_t)(lane->sent_ns - w->now_ns) + 1);
	lane->writes++;
	s->unsent++;
	if (++s->unreported > s->count.in_flight_peak)
		s->count.in_flight_peak = s->unreported;
	rf_sim_set_timer(w, read_ns, read_memory, p);
	rf_sim_set_timer(w, arrival(s, lane, lane->sent_ns), land, p);
	back_ns = lane->arrived_ns + w->model.delay_ns;
	back_ns = lane->sent_ns + (int64_t)rf_sim_random(w, (uint64_t)(back_ns - lane->sent_ns) + 1);
	lane->reported_ns = later(lane->reported_ns, back_ns);
	rf_sim_set_timer(w, lane->reported_ns, report, p);
}

int rf_sim_write(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n)
{
	struct rf_sim_side *s = rf_sim_of(f);
	int i;

	assert(lane >= 1 && lane <= f->limits.lanes);
	if (s->state != RF_SIM_CONNECTED || s->lost)
		return -1;
	for (i = 0; i < n && s->lanes[lane].writes < f->limits.queue_depth; i++)
		post(s, lane, &w[i]);
	s->doorbells += i > 0;
	return i;
}

/* A send that was refused is followed by an event, which says: try again. */
static void allow_again(struct rf_sim *w, void *arg)
{
	struct parcel *p = arg;
	struct rf_sim_lane *lane = &p->from->lanes[p->lane];

	if (lane->refused && lane->messages < RF_SIM_MESSAGES_PER_LANE) {
		lane->refused = false;
		if (p->from->state == RF_SIM_CONNECTED && !p->from->lost)
			rf_sim_push(p->from, &(struct rf_event){.kind = RF_EV_WRITTEN, .lane = p->lane});
	}
	drop_user(p);
}

static void deliver(struct rf_sim *w, void *arg)
{
	struct parcel *p = arg;
	struct rf_sim_side *to = rf_sim_peer(p->from);

	p->from->lanes[p->lane].messages--;
	if (arrives(p) && !to->lost) {
		if (w->on_message)
			w->on_message(w->on_message_arg, p->from->index, p->image, p->length, true);
		rf_sim_push(to, &(struct rf_event){
				    .kind = RF_EV_MESSAGE, .lane = p->lane, .data = p->image, .length = p->length});
	}
	allow_again(w, p);
}

int rf_sim_send(struct rf_fabric *f, unsigned number, const void *message, size_t length)
{
	struct rf_sim_side *s = rf_sim_of(f);
	struct rf_sim *w = s->world;
	struct rf_sim_lane *lane = &s->lanes[number];
	struct parcel *p;
	int64_t begin_ns;

	assert(number <= f->limits.lanes);
	if (s->state != RF_SIM_CONNECTED || s->lost)
		return -1;
	if (!length || length > f->limits.max_message_bytes) {
		rf_sim_violate(w, "a message of %zu bytes", length);
		return -1;
	}
	p = rf_sim_alloc(sizeof(*p));
	*p = (struct parcel){.from = s, .lane = number, .length = length, .users = 1};
	/* now and then for no reason at all, as a socket does */
	if (lane->messages >= RF_SIM_MESSAGES_PER_LANE || !rf_sim_random(w, 64)) {
		lane->refused = true;
		rf_sim_set_timer(w, w->now_ns + rf_sim_jitter(w), allow_again, p);
		return 0;
	}
	p->image = rf_sim_alloc(length);
	memcpy(p->image, message, length);
	if (w->on_message)
		w->on_message(w->on_message_arg, s->index, message, length, false);
	begin_ns = later(w->now_ns, lane->sent_ns);
	lane->sent_ns = begin_ns + w->model.message_ns + wire_ns(w, length);
	s->link_free_ns = later(s->link_free_ns, w->now_ns) + wire_ns(w, length);
	lane->messages++;
	rf_sim_set_timer(w, arrival(s, lane, lane->sent_ns), deliver, p);
	return 1;
}

static void lose_source(struct rf_sim *w, void *arg)
{
	rf_sim_lose(&w->sides[RF_SIM_SOURCE], "the connection was cut");
}

static void lose_destination(struct rf_sim *w, void *arg)
{
	rf_sim_lose(&w->sides[RF_SIM_DESTINATION], "the connection was cut");
}

void rf_sim_cut(struct rf_sim *w)
{
	w->cut = true;
	rf_sim_set_timer(w, w->now_ns + rf_sim_jitter(w), lose_source, NULL);
	rf_sim_set_timer(w, w->now_ns + rf_sim_jitter(w), lose_destination, NULL);
}
