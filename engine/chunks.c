// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/chunks.h"

#include "common/checked.h"
#include "engine/spans.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN_UNIT_PAGES = 64 << 20 >> RF_PAGE_SHIFT };

/* ---- opening ---- */

void rf_chunks_forget_layout(struct rf_chunks *c)
{
	if (c->chunks)
		for (uint64_t i = 0; i < c->first_chunk[c->guest->nblocks]; i++)
			free(c->chunks[i].spans);
	free(c->chunks);
	free(c->chunk_pages);
	free(c->first_chunk);
	c->chunks = NULL;
	c->chunk_pages = c->first_chunk = NULL;
	c->newest.newer = c->newest.older = &c->newest;
	c->refused.chunk = NULL;
}

int rf_chunks_lay_out(struct rf_chunks *c, struct rf_error *e)
{
	struct rf_guest *g = c->guest;
	uint64_t total = 0;

	rf_chunks_forget_layout(c);
	c->first_chunk = calloc(g->nblocks + 1, sizeof(*c->first_chunk));
	c->chunk_pages = calloc(g->nblocks + 1, sizeof(*c->chunk_pages));
	if (!c->first_chunk || !c->chunk_pages)
		return rf_fail(e, RF_E_FAILED, "no memory for the chunks of %u blocks", g->nblocks);
	for (unsigned i = 0; i < g->nblocks; i++) {
		uint64_t bytes = rf_max_u64(c->chunk_bytes, g->blocks[i]->page_bytes);
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
	for (unsigned i = 0; i < g->nblocks && o->max_pinned_bytes && o->register_mode != RF_REGISTER_ODP; i++)
		if (o->max_pinned_bytes < rf_max_u64(o->chunk_size_bytes, g->blocks[i]->page_bytes))
			return rf_fail(e, RF_E_USAGE, "max-pinned is smaller than one chunk of the block %s",
				       g->blocks[i]->name);
	return 0;
}

int rf_chunks_open(struct rf_chunks *c, struct rf_peer *peer, struct rf_stats *stats, bool staged, struct rf_error *e)
{
	const struct rf_options *o = peer->engine->options;
	bool on_demand = o->register_mode == RF_REGISTER_ODP;

	*c = (struct rf_chunks){
	    .peer = peer,
	    .guest = peer->engine->guest,
	    .stats = stats,
	    .local = peer->fabric->limits.local_keys && !staged,
	    .on_demand = on_demand,
	    .chunk_bytes = o->chunk_size_bytes,
	    .max_pinned_bytes = o->max_pinned_bytes && !on_demand ? o->max_pinned_bytes : UINT64_MAX,
	    .max_spans = peer->fabric->limits.max_spans,
	};
	return rf_chunks_lay_out(c, e);
}

void rf_chunks_free(struct rf_chunks *c)
{
	for (uint32_t i = 0; i < c->nids; i++)
		free(c->by_id[i]);
	if (c->guest)
		rf_chunks_forget_layout(c);
	free(c->by_id);
	free(c->free_ids);
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

/* One side has said what came of it. */
static void answered(struct rf_chunks *c, struct rf_span *s)
{
	if (!(s->local_ready || s->local_failed) || !(s->remote_ready || s->remote_failed))
		return;
	assert(c->asked);
	c->asked--;
	c->stats->register_ns += (uint64_t)(rf_peer_now(c->peer) - s->asked_ns);
	if (s->local_failed || s->remote_failed) {
		c->lacking++;
		c->stats->failed_registrations++;
	}
}

static void local_registered(struct rf_task *task, const struct rf_event *event)
{
	struct rf_span *s = task->owner;
	struct rf_chunks *c = s->all;
	const char *why = event->text ? event->text : "the fabric does not say why";

	if (event->status && event->error_number != ENOMEM) {
		rf_fail(&c->failed, RF_E_FAILED, "cannot register guest memory: %s", why);
		return;
	}
	if (event->status)
		snprintf(c->lack, sizeof(c->lack), "%s", why);
	s->lkey = event->key;
	s->local_failed = event->status;
	s->local_ready = !event->status;
	answered(c, s);
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
	    .local_ready = !c->local,
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
	unsigned access = RF_ACCESS_LOCAL_READ | (c->on_demand ? RF_ACCESS_ON_DEMAND : 0);

	if (c->local &&
	    f->ops->reg(f, rf_block_at(b, run.first), run.count << RF_PAGE_SHIFT, access, (uintptr_t)&s->task))
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

/* On demand nothing is pinned and a hole costs nothing, so a chunk is one span for good. */
static int want_whole(struct rf_chunks *c, unsigned block, struct rf_chunk *chunk, struct rf_run whole,
		      struct rf_error *e)
{
	chunk->wanted = true;
	if (!chunk->nspans && ask(c, block, chunk, whole, e))
		return -1;
	rf_chunks_used(c, chunk);
	return 1;
}

int rf_chunks_want(struct rf_chunks *c, unsigned block, uint64_t page, const struct rf_pages *pages, struct rf_error *e)
{
	struct rf_chunk *chunk = rf_chunks_at(c, block, page);
	uint64_t size = c->chunk_pages[block], first = page / size * size, end = rf_chunks_end(c, block, page);
	uint64_t unit = rf_max_u64(c->guest->blocks[block]->page_bytes >> RF_PAGE_SHIFT, 1), bytes, at = first;
	struct rf_run span;

	if (c->on_demand)
		return want_whole(c, block, chunk, (struct rf_run){first, end - first}, e);

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
		int room = rf_chunks_make_room(c, bytes, e);
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
		rf_chunks_used(c, chunk);
	return 1;
}

void rf_chunks_passed(struct rf_chunks *c, struct rf_chunk *chunk)
{
	chunk->wanted = false;
	if (chunk->nspans)
		rf_chunks_used(c, chunk);
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
		if (in.bad || !s || s->remote_ready || s->remote_failed || s->releasing)
			return rf_fail(e, RF_E_FAILED, "the peer's KEYS name a registration that nobody asked for");
		s->remote = remote;
		s->rkey = key;
		s->remote_failed = remote == RF_KEYS_NO_MEMORY;
		s->remote_ready = !s->remote_failed;
		answered(c, s);
	}
	return rf_in_end(&in, m, e);
}
