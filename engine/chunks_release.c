// SPDX-License-Identifier: LGPL-2.1-or-later
/* Giving registrations up: to stay below max-pinned, and when a side has no memory for one that was asked for.
 *
 * What may be locked is known to nobody beforehand for certain, so a registration may fail though it was asked about. The
 * remedy is crude and seldom: all that is under way ends, everything is given up, and the move goes on with no more
 * registered at once than went where it failed, in chunks of which four fit. It ends when not even the least goes. */
#include "engine/chunks.h"

#include "common/checked.h"
#include "common/sizes.h"

#include <assert.h>
#include <stdlib.h>

static const uint64_t LEAST_CHUNK_BYTES = 1 << 20;

static void unlink_use(struct rf_chunk *chunk)
{
	if (!chunk->newer)
		return;
	chunk->newer->older = chunk->older;
	chunk->older->newer = chunk->newer;
	chunk->newer = chunk->older = NULL;
}

void rf_chunks_used(struct rf_chunks *c, struct rf_chunk *chunk)
{
	unlink_use(chunk);
	chunk->newer = &c->newest;
	chunk->older = c->newest.older;
	chunk->older->newer = chunk;
	c->newest.older = chunk;
}

static void forget(struct rf_chunks *c, struct rf_span *s)
{
	c->pinned_bytes -= s->count << RF_PAGE_SHIFT;
	c->releasing_bytes -= s->count << RF_PAGE_SHIFT;
	c->by_id[s->id] = NULL;
	c->free_ids[c->nfree++] = s->id;
	free(s);
}

static void forget_if_released(struct rf_chunks *c, struct rf_span *s)
{
	if (!s->local_ready && !s->remote_ready)
		forget(c, s);
}

static void local_released(struct rf_task *task, const struct rf_event *event)
{
	struct rf_span *s = task->owner;
	s->local_ready = false;
	forget_if_released(s->all, s);
}

static bool evictable(const struct rf_chunk *chunk)
{
	if (chunk->in_flight || chunk->wanted)
		return false;
	for (uint32_t i = 0; i < chunk->nspans; i++)
		if (!chunk->spans[i]->local_ready || !chunk->spans[i]->remote_ready)
			return false;
	return true;
}

/* Chunks to release are linked by `newer`. */
static int say_release_on(struct rf_chunks *c, const struct rf_chunk *list, unsigned lane, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(c->peer, RF_MSG_RELEASE);

	for (const struct rf_chunk *chunk = list; chunk; chunk = chunk->newer) {
		uint32_t lanes = chunk->lanes ? (uint32_t)__builtin_popcountll(chunk->lanes) : 1;
		if (lane ? !(chunk->lanes >> (lane - 1) & 1) : chunk->lanes != 0)
			continue;
		for (uint32_t i = 0; i < chunk->nspans; i++) {
			if (!chunk->spans[i]->remote_ready)
				continue;
			if (rf_out_room(o) < 8) {
				if (rf_peer_send(c->peer, lane, e))
					return -1;
				rf_out_begin(o, RF_MSG_RELEASE);
			}
			rf_put_u32(o, chunk->spans[i]->id);
			rf_put_u32(o, lanes);
		}
	}
	return o->length > RF_FRAME_HEAD_BYTES ? rf_peer_send(c->peer, lane, e) : 0;
}

static int release_here(struct rf_chunks *c, struct rf_chunk *chunk, struct rf_error *e)
{
	struct rf_fabric *f = c->peer->fabric;

	assert(!chunk->in_flight);
	for (uint32_t i = 0; i < chunk->nspans; i++) {
		struct rf_span *s = chunk->spans[i];
		s->releasing = true;
		c->stats->released_registrations += !s->local_failed && !s->remote_failed;
		if (!c->local || !s->local_ready) {
			s->local_ready = false;
			forget_if_released(c, s);
		} else {
			s->task.done = local_released;
			if (f->ops->dereg(f, s->lkey, (uintptr_t)&s->task))
				return rf_fail(e, RF_E_FAILED, "cannot release a registration");
		}
	}
	chunk->nspans = 0;
	chunk->lanes = 0;
	return 0;
}

static void put_on(struct rf_chunks *c, struct rf_chunk *chunk, struct rf_chunk **list)
{
	unlink_use(chunk);
	chunk->newer = *list;
	*list = chunk;
	for (uint32_t i = 0; i < chunk->nspans; i++)
		c->releasing_bytes += chunk->spans[i]->count << RF_PAGE_SHIFT;
}

/* A write that needs our memory no more may still be on its way. So RELEASE follows on every lane that has carried writes to
 * a chunk, and the peer waits until it has come on all of them. What is released together shares its messages. */
static int release(struct rf_chunks *c, struct rf_chunk *list, struct rf_error *e)
{
	for (unsigned lane = 0; list && lane <= c->peer->fabric->limits.lanes; lane++)
		if (say_release_on(c, list, lane, e))
			return -1;
	for (struct rf_chunk *chunk = list, *next; chunk; chunk = next) {
		next = chunk->newer;
		chunk->newer = NULL;
		if (release_here(c, chunk, e))
			return -1;
	}
	return 0;
}

/* Room is made a quarter ahead: were it made for one chunk at a time, each would wait for the peer's answer to the RELEASE
 * of another. 1: they fit now. */
int rf_chunks_make_room(struct rf_chunks *c, uint64_t bytes, struct rf_error *e)
{
	struct rf_chunk *chunk = c->newest.newer, *next, *list = NULL;
	uint64_t more = bytes;

	if (c->pinned_bytes - c->releasing_bytes + bytes > c->max_pinned_bytes)
		more += c->max_pinned_bytes / 4;
	for (; chunk != &c->newest && c->pinned_bytes - c->releasing_bytes + more > c->max_pinned_bytes; chunk = next) {
		next = chunk->newer;
		if (evictable(chunk))
			put_on(c, chunk, &list);
	}
	if (release(c, list, e))
		return -1;
	return c->pinned_bytes + bytes <= c->max_pinned_bytes;
}

int rf_chunks_released(struct rf_chunks *c, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		uint32_t id = rf_get_u32(&in);
		struct rf_span *s = id < c->nids ? c->by_id[id] : NULL;
		if (!s || !s->releasing || !s->remote_ready)
			return rf_fail(e, RF_E_FAILED, "the peer released a registration that nobody gave up");
		s->remote_ready = false;
		forget_if_released(c, s);
	}
	return rf_in_end(&in, m, e);
}

/* ---- too little memory ---- */

/* What was registered where something else could not be: so much goes there. */
static uint64_t registered_bytes(const struct rf_chunks *c)
{
	bool here = false, there = false;
	uint64_t local = 0, remote = 0;

	for (uint32_t i = 0; i < c->nids; i++) {
		const struct rf_span *s = c->by_id[i];
		if (!s || s->releasing)
			continue;
		here |= s->local_failed;
		there |= s->remote_failed;
		local += s->local_ready ? s->count << RF_PAGE_SHIFT : 0;
		remote += s->remote_ready ? s->count << RF_PAGE_SHIFT : 0;
	}
	return rf_min_u64(here ? local : UINT64_MAX, there ? remote : UINT64_MAX);
}

static int cannot_go_lower(const struct rf_chunks *c, uint64_t least, struct rf_error *e)
{
	char size[32];

	rf_format_size(least, size, sizeof(size));
	if (c->lack[0])
		return rf_fail(e, RF_E_FAILED, "even %s of guest memory cannot be registered here: %s", size, c->lack);
	return rf_fail(e, RF_E_FAILED,
		       "even %s of guest memory cannot be registered at the destination: raise what it may lock in "
		       "memory (ulimit -l)",
		       size);
}

/* Four chunks shall fit at once, so that one can be written while the next is registered. */
static int choose_less(struct rf_chunks *c, struct rf_error *e)
{
	uint64_t least = LEAST_CHUNK_BYTES, most = registered_bytes(c);
	char limit[32], size[32];

	for (unsigned i = 0; i < c->guest->nblocks; i++)
		least = rf_max_u64(least, c->guest->blocks[i]->page_bytes);
	if (most < least && c->max_pinned_bytes <= least)
		return cannot_go_lower(c, least, e);
	most = rf_min_u64(most, c->max_pinned_bytes / 4 * 3);
	most = rf_max_u64(most, rf_max_u64(c->chunk_bytes / 2, least));
	c->max_pinned_bytes = most;
	while (c->chunk_bytes > LEAST_CHUNK_BYTES && c->chunk_bytes > most / 4)
		c->chunk_bytes /= 2;
	rf_log(c->peer->engine->log, RF_LOG_WARNING,
	       "not all of the guest's memory can be registered at the %s (%s): going on with %s at once, in chunks "
	       "of %s",
	       c->lack[0] ? "source" : "destination", c->lack[0] ? c->lack : "too little may be locked",
	       rf_format_size(most, limit, sizeof(limit)), rf_format_size(c->chunk_bytes, size, sizeof(size)));
	return 0;
}

int rf_chunks_give_up_all(struct rf_chunks *c, struct rf_error *e)
{
	assert(!c->asked);
	if (choose_less(c, e))
		return -1;
	struct rf_chunk *list = NULL;
	for (uint64_t i = 0; i < c->first_chunk[c->guest->nblocks]; i++)
		if (c->chunks[i].nspans)
			put_on(c, &c->chunks[i], &list);
	if (release(c, list, e))
		return -1;
	c->lacking = 0;
	c->lack[0] = 0;
	return 0;
}
