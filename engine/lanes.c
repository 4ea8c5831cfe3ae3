// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/lanes.h"

#include "common/checked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Enough for a lane to be busy while the engine looks elsewhere; little enough that a round's progress means bytes
 * on the wire rather than bytes in queues. */
static const uint64_t IN_FLIGHT_BYTES = 64 << 20;
static const uint64_t BATCH_BYTES = 2 << 20;

static void staging_registered(struct rf_task *task, const struct rf_event *event)
{
	struct rf_lane *lane = task->owner;
	if (event->status) {
		rf_fail(&lane->all->failed, RF_E_FAILED, "cannot register the staging ring: %s",
			event->text ? event->text : "the fabric does not say why");
		return;
	}
	lane->staging_key = event->key;
	lane->staging_ready = true;
}

static int open_staging(struct rf_lanes *l, struct rf_lane *lane, struct rf_error *e)
{
	struct rf_fabric *f = l->peer->fabric;
	lane->staging = aligned_alloc(RF_PAGE_BYTES, RF_STAGING_BYTES);
	if (!lane->staging)
		return rf_fail(e, RF_E_FAILED, "no memory for staging");
	lane->all = l;
	lane->staging_task = (struct rf_task){.done = staging_registered, .owner = lane};
	lane->staging_ready = !f->limits.local_keys;
	if (f->limits.local_keys &&
	    f->ops->reg(f, lane->staging, RF_STAGING_BYTES, RF_ACCESS_LOCAL_READ, (uintptr_t)&lane->staging_task))
		return rf_fail(e, RF_E_FAILED, "cannot register the staging ring");
	return 0;
}

int rf_lanes_open(struct rf_lanes *l, struct rf_peer *peer, bool staged, struct rf_error *e)
{
	*l = (struct rf_lanes){
	    .peer = peer,
	    .n = peer->fabric->limits.lanes,
	    .current = 1,
	    .depth = peer->fabric->limits.queue_depth,
	    .writes_per_chunk = (uint32_t)peer->engine->options->writes_per_chunk,
	};
	assert(l->n >= 1 && l->n <= RF_LANES_MAX && l->depth);
	l->lanes = calloc(l->n + 1, sizeof(*l->lanes));
	if (!l->lanes)
		return rf_fail(e, RF_E_FAILED, "no memory for %u lanes", l->n);
	for (unsigned i = 1; i <= l->n; i++) {
		l->lanes[i].ring = calloc(l->depth, sizeof(*l->lanes[i].ring));
		if (!l->lanes[i].ring)
			return rf_fail(e, RF_E_FAILED, "no memory for %u writes in flight", l->depth);
		if (staged && open_staging(l, &l->lanes[i], e))
			return -1;
	}
	return 0;
}

void rf_lanes_free(struct rf_lanes *l)
{
	for (unsigned i = 1; l->lanes && i <= l->n; i++) {
		free(l->lanes[i].ring);
		free(l->lanes[i].staging);
	}
	free(l->lanes);
	*l = (struct rf_lanes){0};
}

static bool has_room(const struct rf_lanes *l, const struct rf_lane *lane)
{
	return lane->count < l->depth && lane->nbatch < RF_BATCH_WRITES && lane->in_flight_bytes < IN_FLIGHT_BYTES &&
	       (!lane->staging || lane->staging_ready);
}

unsigned rf_lanes_pick(struct rf_lanes *l)
{
	/* Stay with a lane for a batch, then go to the next: long batches, all lanes busy. */
	struct rf_lane *lane = &l->lanes[l->current];
	if (has_room(l, lane) && l->stay_bytes < BATCH_BYTES && l->stay_writes < RF_BATCH_WRITES)
		return l->current;
	unsigned best = 0;
	for (unsigned step = 1; step <= l->n; step++) {
		unsigned i = (l->current + step - 1) % l->n + 1;
		if (has_room(l, &l->lanes[i]) &&
		    (!best || l->lanes[i].in_flight_bytes < l->lanes[best].in_flight_bytes))
			best = i;
	}
	if (best) {
		l->current = best;
		l->stay_bytes = l->stay_writes = 0;
	}
	return best;
}

void *rf_lanes_stage(struct rf_lanes *l, unsigned i, uint32_t *length)
{
	struct rf_lane *lane = &l->lanes[i];
	/* A copy is never split, for a write has one local address. All lengths are whole pages, so a page always fits
	 * before the ring's end. */
	uint64_t most = rf_min_u64(RF_STAGING_BYTES - lane->staging_used, RF_STAGING_BYTES - lane->staging_at);
	if (!most)
		return NULL;
	*length = (uint32_t)rf_min_u64(*length, rf_min_u64(most, RF_STAGING_BYTES / 4));
	assert(*length % RF_PAGE_BYTES == 0);
	void *at = lane->staging + lane->staging_at;
	lane->staging_at = (lane->staging_at + *length) % RF_STAGING_BYTES;
	lane->staging_used += *length;
	return at;
}

#ifndef NDEBUG
/* Within a round no two writes overlap: that is why nobody has to wait for an earlier one. Looks at the newest only, so
 * that a debug build stays usable; tests/sim checks all. Where they go is the peer's word, so our own pages are compared. */
static void assert_no_overlap(const struct rf_lanes *l, const struct rf_lane *lane, const struct rf_flight *new)
{
	for (uint32_t i = 0; i < lane->count && i < 16; i++) {
		const struct rf_flight *old = &lane->ring[(lane->head + lane->count - 1 - i) % l->depth];
		assert(old->chunk != new->chunk || old->page + (old->length >> RF_PAGE_SHIFT) <= new->page ||
		       new->page + (new->length >> RF_PAGE_SHIFT) <= old->page);
	}
}
#endif

static int post(struct rf_lanes *l, unsigned i, struct rf_error *e)
{
	struct rf_lane *lane = &l->lanes[i];
	struct rf_fabric *f = l->peer->fabric;
	if (!lane->nbatch)
		return 0;
	int taken = f->ops->write(f, i, lane->batch, (int)lane->nbatch);
	if (taken < 0)
		return rf_peer_lost(l->peer, e);
	lane->nbatch -= (uint32_t)taken;
	if (lane->nbatch && taken)
		memmove(lane->batch, lane->batch + taken, lane->nbatch * sizeof(*lane->batch));
	lane->batch_bytes = 0;
	for (uint32_t k = 0; k < lane->nbatch; k++)
		lane->batch_bytes += lane->batch[k].length;
	return 0;
}

int rf_lanes_add(struct rf_lanes *l, unsigned i, const struct rf_write *w, struct rf_chunk *chunk, uint64_t page,
		 struct rf_error *e)
{
	struct rf_lane *lane = &l->lanes[i];
	struct rf_flight flight = {chunk, w->length, page};
	assert(lane->count < l->depth && lane->nbatch < RF_BATCH_WRITES);
#ifndef NDEBUG
	assert_no_overlap(l, lane, &flight);
#endif
	lane->ring[(lane->head + lane->count++) % l->depth] = flight;
	lane->in_flight_bytes += w->length;
	lane->batch[lane->nbatch++] = *w;
	lane->batch_bytes += w->length;
	lane->round_writes++;
	lane->bytes += w->length;
	l->in_flight++;
	l->stay_bytes += w->length;
	l->stay_writes++;
	chunk->in_flight++;
	chunk->lanes |= UINT64_C(1) << (i - 1);
	if (lane->nbatch == RF_BATCH_WRITES || lane->batch_bytes >= BATCH_BYTES)
		return post(l, i, e);
	return 0;
}

int rf_lanes_flush(struct rf_lanes *l, struct rf_error *e)
{
	for (unsigned i = 1; i <= l->n; i++)
		if (post(l, i, e))
			return -1;
	return 0;
}

void rf_lanes_spread(const struct rf_lanes *l, uint64_t *min_bytes, uint64_t *max_bytes)
{
	*min_bytes = UINT64_MAX;
	*max_bytes = 0;
	for (unsigned i = 1; i <= l->n; i++) {
		*min_bytes = rf_min_u64(*min_bytes, l->lanes[i].bytes);
		*max_bytes = rf_max_u64(*max_bytes, l->lanes[i].bytes);
	}
}

uint64_t rf_lanes_in_flight_bytes(const struct rf_lanes *l)
{
	uint64_t bytes = 0;
	for (unsigned i = 1; i <= l->n; i++)
		bytes += l->lanes[i].in_flight_bytes;
	return bytes;
}

bool rf_lanes_posted(const struct rf_lanes *l)
{
	for (unsigned i = 1; i <= l->n; i++)
		if (l->lanes[i].nbatch)
			return false;
	return true;
}

void rf_lanes_written(struct rf_lanes *l, unsigned i, uint32_t count)
{
	assert(i >= 1 && i <= l->n);
	struct rf_lane *lane = &l->lanes[i];
	assert(count <= lane->count - lane->nbatch);
	for (; count; count--) {
		struct rf_flight *flight = &lane->ring[lane->head];
		assert(flight->chunk->in_flight && l->in_flight);
		flight->chunk->in_flight--;
		l->in_flight--;
		lane->in_flight_bytes -= flight->length;
		if (lane->staging)
			lane->staging_used -= flight->length;
		lane->head = (lane->head + 1) % l->depth;
		lane->count--;
	}
}
