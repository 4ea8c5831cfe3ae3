// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/chunks.h"

#include "common/checked.h"
#include "engine/spans.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN_UNIT_PAGES = 64 << 20 >> RF_PAGE_SHIFT };

/* ---- opening ---- */

static int lay_out(struct rf_chunks *c, struct rf_error *e)
{
	struct rf_guest *g = c->guest;
	uint64_t total = 0;

	c->first_chunk = calloc(g->nblocks + 1, sizeof(*c->first_chunk));
	c->chunk_pages = calloc(g->nblocks + 1, sizeof(*c->chunk_pages));
	if (!c->first_chunk || !c->chunk_pages)
		return rf_fail(e, RF_E_FAILED, "no memory for the chunks of %u blocks", g->nblocks);
	for (unsigned i = 0; i < g->nblocks; i++) {
		uint64_t bytes = rf_max_u64(c->peer->engine->options->chunk_size_bytes, g->blocks[i]->page_bytes);
		c->chunk_pages[i] = bytes >> RF_PAGE_SHIFT;
		c->first_chunk[i] = total;
		total += rf_div_round_up(g->blocks[i]->npages, c->chunk_pages[i]);
	}
	c->first_chunk[g->nblocks] = total;
	c->chunks = calloc(total + 1, sizeof(*c->chunks));
	if (!c->chunks)
		return rf_fail(e, RF_E_FAILED, "no memory for %llu chunks", (unsigned long long)total);
	return 0;
}

int rf_chunks_check(const struct rf_guest *g, const struct rf_options *o, struct rf_error *e)
{
	for (unsigned i = 0; i < g->nblocks && o->max_pinned_bytes; i++)
		if (o->max_pinned_bytes < rf_max_u64(o->chunk_size_bytes, g->blocks[i]->page_bytes))
			return rf_fail(e, RF_E_USAGE, "max-pinned is smaller than one chunk of the block %s",
				       g->blocks[i]->name);
	return 0;
}

int rf_chunks_open(struct rf_chunks *c, struct rf_peer *peer, struct rf_stats *stats, struct rf_error *e)
{
	const struct rf_options *o = peer->engine->options;
	*c = (struct rf_chunks){
	    .peer = peer,
	    .guest = peer->engine->guest,
	    .stats = stats,
	    .max_pinned_bytes = o->max_pinned_bytes ? o->max_pinned_bytes : UINT64_MAX,
	    .max_spans = peer->fabric->limits.max_spans,
	};
	c->newest.newer = c->newest.older = &c->newest;
	return lay_out(c, e);
}

void rf_chunks_free(struct rf_chunks *c)
{
	for (uint32_t i = 0; i < c->nids; i++)
		free(c->by_id[i]);
	if (c->chunks)
		for (uint64_t i = 0; i < c->first_chunk[c->guest->nblocks]; i++)
			free(c->chunks[i].spans);
	free(c->by_id);
	free(c->free_ids);
	free(c->chunks);
	free(c->chunk_pages);
	free(c->first_chunk);
	*c = (struct rf_chunks){0};
}

struct rf_chunk *rf_chunks_at(const struct rf_chunks *c, unsigned block, uint64_t page)
{
	return &c->chunks[c->first_chunk[block] + page / c->chunk_pages[block]];
}

uint64_t rf_chunks_end(const struct rf_chunks *c, unsigned block, uint64_t page)
{
	uint64_t size = c->chunk_pages[block];
	return rf_min_u64((page / size + 1) * size, c->guest->blocks[block]->npages);
}

/* ---- use and release ---- */

static void unlink_use(struct rf_chunk *chunk)
{
	if (!chunk->newer)
		return;
	chunk->newer->older = chunk->older;
	chunk->older->newer = chunk->newer;
	chunk->newer = chunk->older = NULL;
}

static void used_now(struct rf_chunks *c, struct rf_chunk *chunk)
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

static int say_release_on(struct rf_chunks *c, const struct rf_chunk *chunk, unsigned lane, uint32_t lanes,
			  struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(c->peer, RF_MSG_RELEASE);
	for (uint32_t i = 0; i < chunk->nspans; i++) {
		if (rf_out_room(o) < 8) {
			if (rf_peer_send(c->peer, lane, e))
				return -1;
			rf_out_begin(o, RF_MSG_RELEASE);
		}
		rf_put_u32(o, chunk->spans[i]->id);
		rf_put_u32(o, lanes);
	}
	return rf_peer_send(c->peer, lane, e);
}

/* A write that needs our memory no more may still be on its way. So RELEASE follows on every lane that has carried writes to
 * the chunk, and the peer waits until it has come on all of them. */
static int say_release(struct rf_chunks *c, struct rf_chunk *chunk, struct rf_error *e)
{
	uint64_t lanes = chunk->lanes;
	if (!lanes)
		return say_release_on(c, chunk, RF_LANE_CONTROL, 1, e);
	for (unsigned lane = 1; lane <= RF_LANES_MAX; lane++)
		if (lanes >> (lane - 1) & 1 && say_release_on(c, chunk, lane, (uint32_t)__builtin_popcountll(lanes), e))
			return -1;
	chunk->lanes = 0;
	return 0;
}

static int release(struct rf_chunks *c, struct rf_chunk *chunk, struct rf_error *e)
{
	struct rf_fabric *f = c->peer->fabric;
	assert(!chunk->in_flight);
	unlink_use(chunk);
	if (say_release(c, chunk, e))
		return -1;
	for (uint32_t i = 0; i < chunk->nspans; i++) {
		struct rf_span *s = chunk->spans[i];
		s->releasing = true;
		c->releasing_bytes += s->count << RF_PAGE_SHIFT;
		c->stats->released_registrations++;
		if (!f->limits.local_keys) {
			s->local_ready = false;
		} else {
			s->task.done = local_released;
			if (f->ops->dereg(f, s->lkey, (uintptr_t)&s->task))
				return rf_fail(e, RF_E_FAILED, "cannot release a registration");
		}
	}
	chunk->nspans = 0;
	return 0;
}

/* Begin to release until `bytes` more would fit, as far as that is possible. 1: they fit now. */
static int make_room(struct rf_chunks *c, uint64_t bytes, struct rf_error *e)
{
	struct rf_chunk *chunk = c->newest.newer, *next;
	for (; chunk != &c->newest && c->pinned_bytes - c->releasing_bytes + bytes > c->max_pinned_bytes;
	     chunk = next) {
		next = chunk->newer;
		if (evictable(chunk) && release(c, chunk, e))
			return -1;
	}
	return c->pinned_bytes + bytes <= c->max_pinned_bytes;
}

/* ---- asking ---- */

int rf_chunks_flush(struct rf_chunks *c, struct rf_error *e)
{
	if (!c->nask)
		return 0;
	struct rf_out *o = rf_peer_begin(c->peer, RF_MSG_REGISTER);
	rf_put_bytes(o, c->ask.bytes + RF_FRAME_HEAD_BYTES, c->ask.length - RF_FRAME_HEAD_BYTES);
	c->nask = 0;
	return rf_peer_send(c->peer, RF_LANE_CONTROL, e);
}

static int put_ask(struct rf_chunks *c, unsigned block, const struct rf_span *s, struct rf_error *e)
{
	if (c->nask && rf_out_room(&c->ask) < 24 && rf_chunks_flush(c, e))
		return -1;
	if (!c->nask)
		rf_out_begin(&c->ask, RF_MSG_REGISTER);
	rf_put_u32(&c->ask, s->id);
	rf_put_u32(&c->ask, block);
	rf_put_u64(&c->ask, s->first);
	rf_put_u64(&c->ask, s->count);
	c->nask++;
	return 0;
}

static void ready(struct rf_chunks *c, struct rf_span *s)
{
	if (!s->local_ready || !s->remote_ready)
		return;
	assert(c->asked);
	c->asked--;
	c->stats->register_ns += (uint64_t)(rf_peer_now(c->peer) - s->asked_ns);
}

static void local_registered(struct rf_task *task, const struct rf_event *event)
{
	struct rf_span *s = task->owner;
	if (event->status) {
		rf_fail(&s->all->failed, RF_E_FAILED, "cannot register guest memory: %s",
			event->text ? event->text : "the fabric does not say why");
		return;
	}
	s->lkey = event->key;
	s->local_ready = true;
	ready(s->all, s);
}

static int grow_ids(struct rf_chunks *c, struct rf_error *e)
{
	size_t room = c->ids_room ? 2 * (size_t)c->ids_room : 64;
	struct rf_span **more = realloc(c->by_id, room * sizeof(*more));
	if (more)
		c->by_id = more;
	uint32_t *more_free = realloc(c->free_ids, room * sizeof(*more_free));
	if (more_free)
		c->free_ids = more_free;
	if (!more || !more_free)
		return rf_fail(e, RF_E_FAILED, "no memory for %zu registrations", room);
	c->ids_room = (uint32_t)room;
	return 0;
}

static int new_id(struct rf_chunks *c, uint32_t *id, struct rf_error *e)
{
	if (c->nfree) {
		*id = c->free_ids[--c->nfree];
		return 0;
	}
	if (c->nids >= RF_REGISTRATIONS_MAX)
		return rf_fail(e, RF_E_FAILED, "more than %d registrations: use a larger --chunk-size",
			       RF_REGISTRATIONS_MAX);
	if (c->nids == c->ids_room && grow_ids(c, e))
		return -1;
	*id = c->nids++;
	return 0;
}

static int insert(struct rf_chunk *chunk, struct rf_span *s, struct rf_error *e)
{
	struct rf_span **more = realloc(chunk->spans, (chunk->nspans + 1) * sizeof(*more));
	if (!more)
		return rf_fail(e, RF_E_FAILED, "no memory for a registration");
	chunk->spans = more;
	uint32_t at = chunk->nspans++;
	for (; at && chunk->spans[at - 1]->first > s->first; at--)
		chunk->spans[at] = chunk->spans[at - 1];
	chunk->spans[at] = s;
	return 0;
}

static int ask(struct rf_chunks *c, unsigned block, struct rf_chunk *chunk, struct rf_run run, struct rf_error *e)
{
	struct rf_fabric *f = c->peer->fabric;
	struct rf_block *b = c->guest->blocks[block];
	struct rf_span *s = calloc(1, sizeof(*s));
	uint32_t id = 0;

	if (!s)
		return rf_fail(e, RF_E_FAILED, "no memory for a registration");
	*s = (struct rf_span){
	    .task = {.done = local_registered, .owner = s},
	    .all = c,
	    .chunk = chunk,
	    .first = run.first,
	    .count = run.count,
	    .asked_ns = rf_peer_now(c->peer),
	    .local_ready = !f->limits.local_keys,
	};
	if (new_id(c, &id, e)) {
		free(s);
		return -1;
	}
	s->id = id;
	c->by_id[id] = s;
	c->pinned_bytes += run.count << RF_PAGE_SHIFT;
	c->asked++;
	c->stats->registrations++;
	c->stats->registered_bytes += run.count << RF_PAGE_SHIFT;
	if (insert(chunk, s, e) || put_ask(c, block, s, e))
		return -1;
	if (f->limits.local_keys && f->ops->reg(f, rf_block_at(b, run.first), run.count << RF_PAGE_SHIFT,
						RF_ACCESS_LOCAL_READ, (uintptr_t)&s->task))
		return rf_fail(e, RF_E_FAILED, "cannot register guest memory");
	return 0;
}

static uint64_t sensible_spans(const struct rf_chunks *c, uint64_t pages)
{
	return rf_max_u64(pages * c->max_spans / SPAN_UNIT_PAGES, 1);
}

void rf_chunks_new_round(struct rf_chunks *c)
{
	c->refused.chunk = NULL;
}

int rf_chunks_want(struct rf_chunks *c, unsigned block, uint64_t page, const struct rf_pages *pages, struct rf_error *e)
{
	struct rf_chunk *chunk = rf_chunks_at(c, block, page);
	uint64_t size = c->chunk_pages[block], first = page / size * size, end = rf_chunks_end(c, block, page);
	uint64_t unit = rf_max_u64(c->guest->blocks[block]->page_bytes >> RF_PAGE_SHIFT, 1), bytes, at = first;
	struct rf_run span;

	uint64_t gap = c->refused.gap;
	if (c->refused.chunk == chunk && c->refused.nspans == chunk->nspans)
		bytes = c->refused.bytes;
	else
		gap = rf_span_choose_gap(chunk, pages, (struct rf_run){first, end - first},
					 sensible_spans(c, end - first), unit, &bytes);
	c->refused.chunk = NULL;
	if (bytes) {
		/* Its own spans must not be chosen to make room for it. */
		bool was = chunk->wanted;
		chunk->wanted = true;
		int room = make_room(c, bytes, e);
		if (room <= 0) {
			chunk->wanted = was;
			c->refused.chunk = chunk;
			c->refused.nspans = chunk->nspans;
			c->refused.gap = gap;
			c->refused.bytes = bytes;
			return room;
		}
	}
	chunk->wanted = true;
	while (rf_span_next(chunk, pages, at, end, gap, unit, &span)) {
		if (ask(c, block, chunk, span, e))
			return -1;
		at = span.first + span.count;
	}
	if (chunk->nspans)
		used_now(c, chunk);
	return 1;
}

void rf_chunks_passed(struct rf_chunks *c, struct rf_chunk *chunk)
{
	chunk->wanted = false;
	if (chunk->nspans)
		used_now(c, chunk);
}

const struct rf_span *rf_chunks_span(const struct rf_chunks *c, const struct rf_chunk *chunk, uint64_t page)
{
	struct rf_span *s = rf_span_from(chunk, page);
	return s && s->first <= page && s->local_ready && s->remote_ready ? s : NULL;
}

/* ---- answers ---- */

int rf_chunks_keys(struct rf_chunks *c, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		uint32_t id = rf_get_u32(&in);
		uint64_t remote = rf_get_u64(&in);
		struct rf_key key = {{rf_get_u64(&in), 0}};
		key.value[1] = rf_get_u64(&in);
		struct rf_span *s = id < c->nids ? c->by_id[id] : NULL;
		if (in.bad || !s || s->remote_ready || s->releasing)
			return rf_fail(e, RF_E_FAILED, "the peer's KEYS name a registration that nobody asked for");
		s->remote = remote;
		s->rkey = key;
		s->remote_ready = true;
		ready(c, s);
	}
	return rf_in_end(&in, m, e);
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
