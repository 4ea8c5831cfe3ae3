// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/round.h"

#include "common/checked.h"

#include <assert.h>
#include <string.h>

enum why_stopped { STOP_KEY, STOP_QUEUE, STOP_SCAN, STOP_PACE, STOP_DONE, STOP_FAILED };

void rf_round_start(struct rf_round *r, enum rf_scan_kind kind)
{
	rf_scan_start(r->scan, kind);
	rf_chunks_new_round(r->chunks);
	r->now = (struct rf_round_stats){0};
	r->writer = r->ahead = (struct rf_position){0};
	r->current = NULL;
	r->ahead_bytes = r->written_bytes = 0;
	r->told_slices = r->zero_runs = 0;
	r->started_ns = r->posted_ns = r->scan->started_ns;
	r->ended = r->drained = false;
	for (unsigned i = 1; i <= r->lanes->n; i++)
		r->lanes->lanes[i].round_writes = 0;
}

uint64_t rf_round_left_bytes(const struct rf_round *r)
{
	uint64_t found_bytes = r->scan->send_pages << RF_PAGE_SHIFT;
	return found_bytes > r->written_bytes ? found_bytes - r->written_bytes
					      : 0; /* a scan without a round finds other things */
}

/* ---- ZERO ---- */

static void sent_zero(struct rf_round *r, unsigned block, struct rf_run run)
{
	static const uint8_t zeros[RF_PAGE_BYTES];
	for (uint64_t i = 0; i < run.count; i++)
		r->tracker->ops->sent(r->tracker, block, (struct rf_run){run.first + i, 1}, zeros);
}

static int tell_zeros_of(struct rf_round *r, unsigned block, struct rf_run slice, struct rf_out *o, struct rf_error *e)
{
	struct rf_sets *set = &r->scan->sets[block];
	uint64_t at = slice.first, end = slice.first + slice.count;
	struct rf_run run;

	for (; rf_pages_next(&set->zero, at, end, &run); at = run.first + run.count) {
		if (r->tracker->ops->sent)
			sent_zero(r, block, run);
		rf_pages_remove(&set->ever_sent, run.first, run.count);
		if (rf_out_room(o) < 20) {
			if (rf_peer_send(r->peer, RF_LANE_CONTROL, e))
				return -1;
			rf_out_begin(o, RF_MSG_ZERO);
		}
		rf_put_u32(o, block);
		rf_put_u64(o, run.first);
		rf_put_u64(o, run.count);
		r->zero_runs++;
	}
	rf_pages_remove(&set->zero, slice.first, slice.count);
	return 0;
}

static int tell_zeros(struct rf_round *r, struct rf_error *e)
{
	if (r->told_slices == r->scan->ready)
		return 0;
	struct rf_out *o = rf_peer_begin(r->peer, RF_MSG_ZERO);
	for (; r->told_slices < r->scan->ready; r->told_slices++) {
		struct rf_run slice;
		unsigned block = rf_scan_slice(r->scan, r->told_slices, &slice);
		if (tell_zeros_of(r, block, slice, o, e))
			return -1;
	}
	return o->length > RF_FRAME_HEAD_BYTES ? rf_peer_send(r->peer, RF_LANE_CONTROL, e) : 0;
}

/* ---- look-ahead ---- */

static bool is_before(struct rf_position a, struct rf_position b)
{
	return a.block != b.block ? a.block < b.block : a.page < b.page;
}

/* Want the next chunk that has something to send. 1 done, 0 there is none ready or no room (*why), -1 failed. */
static int want_next(struct rf_round *r, enum why_stopped *why, struct rf_error *e)
{
	while (r->ahead.block < r->guest->nblocks) {
		unsigned block = r->ahead.block;
		struct rf_pages *pages = &r->scan->sets[block].to_send;
		uint64_t ready = rf_scan_ready_end(r->scan, block), npages = r->guest->blocks[block]->npages;
		struct rf_run run;

		if (!rf_pages_next(pages, r->ahead.page, ready, &run)) {
			if (ready < npages) {
				*why = STOP_SCAN;
				return 0;
			}
			r->ahead = (struct rf_position){block + 1, 0};
			continue;
		}
		uint64_t end = rf_chunks_end(r->chunks, block, run.first);
		if (end > ready) {
			*why = STOP_SCAN;
			return 0;
		}
		int wanted = rf_chunks_want(r->chunks, block, run.first, pages, e);
		if (wanted <= 0) {
			*why = wanted ? STOP_FAILED : STOP_KEY;
			return wanted;
		}
		r->ahead_bytes += rf_pages_count(pages, run.first, end - run.first) << RF_PAGE_SHIFT;
		r->ahead.page = end;
		return 1;
	}
	*why = STOP_DONE;
	return 0;
}

/* Small chunks are asked for many at a time: each message costs both sides about as much as a write. */
static int look_ahead(struct rf_round *r, struct rf_error *e)
{
	enum why_stopped why;
	int wanted = 1;
	if (r->ahead_bytes > r->ahead_limit_bytes / 8 * 7)
		return 0;
	while (wanted == 1 && r->ahead_bytes < r->ahead_limit_bytes)
		wanted = want_next(r, &why, e);
	return wanted < 0 ? -1 : 0;
}

/* ---- the writer ---- */

static void pass(struct rf_round *r, struct rf_chunk *next)
{
	if (r->current && r->current != next)
		rf_chunks_passed(r->chunks, r->current);
	r->current = next;
}

/* The next run to write, within the chunks that are wanted. */
static enum why_stopped next_run(struct rf_round *r, struct rf_run *run, struct rf_error *e)
{
	enum why_stopped why;
	for (;;) {
		while (is_before(r->writer, r->ahead)) {
			unsigned block = r->writer.block;
			bool last = block == r->ahead.block;
			uint64_t end = last ? r->ahead.page : r->guest->blocks[block]->npages;
			if (rf_pages_next(&r->scan->sets[block].to_send, r->writer.page, end, run)) {
				r->writer.page = run->first;
				return STOP_DONE;
			}
			r->writer = last ? r->ahead : (struct rf_position){block + 1, 0};
		}
		/* What the writer is done with may have to make room for what comes next. */
		pass(r, NULL);
		int wanted = want_next(r, &why, e);
		run->count = 0;
		if (wanted < 0)
			return STOP_FAILED;
		if (!wanted)
			return why;
	}
}

static uint32_t clip(const struct rf_round *r, const struct rf_span *span, uint64_t chunk_end, struct rf_run run)
{
	uint64_t end = rf_min_u64(rf_min_u64(span->first + span->count, chunk_end), run.first + run.count);
	return (uint32_t)rf_min_u64((end - run.first) << RF_PAGE_SHIFT, r->max_write_bytes);
}

static int post(struct rf_round *r, unsigned lane, const struct rf_span *span, const void *local, uint32_t length,
		struct rf_error *e)
{
	struct rf_sets *set = &r->scan->sets[r->writer.block];
	uint64_t first = r->writer.page, pages = length >> RF_PAGE_SHIFT;
	struct rf_write w = {
	    .local = local,
	    .lkey = r->staged ? r->lanes->lanes[lane].staging_key : span->lkey,
	    .remote = span->remote + ((first - span->first) << RF_PAGE_SHIFT),
	    .rkey = span->rkey,
	    .length = length,
	};
	rf_pages_remove(&set->to_send, first, pages);
	rf_pages_add(&set->ever_sent, first, pages);
	r->writer.page += pages;
	r->ahead_bytes -= rf_min_u64(length, r->ahead_bytes);
	r->now.bytes += length;
	r->written_bytes += length;
	r->now.pages += pages;
	r->now.writes++;
	return rf_lanes_add(r->lanes, lane, &w, r->current, first, e);
}

static enum why_stopped write_one(struct rf_round *r, struct rf_error *e)
{
	struct rf_run run;
	enum why_stopped why = next_run(r, &run, e);
	if (why != STOP_DONE || !run.count)
		return why;

	unsigned block = r->writer.block;
	struct rf_block *b = r->guest->blocks[block];
	pass(r, rf_chunks_at(r->chunks, block, run.first));
	const struct rf_span *span = rf_chunks_span(r->chunks, r->current, run.first);
	if (!span)
		return STOP_KEY;
	if (r->lanes->writes_per_chunk && r->current->in_flight >= r->lanes->writes_per_chunk)
		return STOP_QUEUE;
	if (r->pace.bytes_per_second && rf_pace_wait(&r->pace, rf_peer_now(r->peer)))
		return STOP_PACE;
	unsigned lane = rf_lanes_pick(r->lanes);
	if (!lane)
		return STOP_QUEUE;

	uint32_t length = clip(r, span, rf_chunks_end(r->chunks, block, run.first), run);
	const void *local = rf_block_at(b, run.first);
	if (r->staged) {
		void *copy = rf_lanes_stage(r->lanes, lane, &length);
		if (!copy)
			return STOP_QUEUE;
		run.count = length >> RF_PAGE_SHIFT;
		b->ops->copy(b, run, copy);
		if (r->tracker->ops->sent)
			r->tracker->ops->sent(r->tracker, block, run, copy);
		local = copy;
	}
	if (post(r, lane, span, local, length, e))
		return STOP_FAILED;
	if (r->pace.bytes_per_second)
		rf_pace_took(&r->pace, rf_peer_now(r->peer), length);
	return STOP_DONE;
}

/* Post what can be posted, and say why it stopped. STOP_DONE: all is written and posted. */
static enum why_stopped write_some(struct rf_round *r, struct rf_error *e)
{
	enum why_stopped why;
	uint64_t before;
	do {
		before = r->now.writes;
		why = write_one(r, e);
	} while (r->now.writes != before && why == STOP_DONE);
	if (rf_lanes_flush(r->lanes, e) || rf_chunks_flush(r->chunks, e))
		return STOP_FAILED;
	if (r->now.writes && why != STOP_FAILED)
		r->posted_ns = rf_peer_now(r->peer);
	if (why == STOP_DONE && !rf_lanes_posted(r->lanes))
		return STOP_QUEUE;
	return why;
}

static int wait_because(struct rf_round *r, enum why_stopped why, struct rf_error *e)
{
	int64_t before = rf_peer_now(r->peer);
	int64_t timeout = why == STOP_PACE ? rf_pace_wait(&r->pace, before) : -1;
	int result = rf_peer_pump(r->peer, timeout, e);
	uint64_t waited = (uint64_t)(rf_peer_now(r->peer) - before);
	switch (why) {
	case STOP_KEY:
		r->now.wait_key_ns += waited;
		break;
	case STOP_QUEUE:
		r->now.wait_queue_ns += waited;
		break;
	case STOP_SCAN:
		r->now.wait_scan_ns += waited;
		break;
	case STOP_PACE:
		r->now.wait_pace_ns += waited;
		break;
	case STOP_DONE:
	case STOP_FAILED:
		break;
	}
	return result;
}

/* ---- the round ---- */

static void forget_wanted(struct rf_round *r)
{
	pass(r, NULL);
	/* Left early: what the look-ahead wanted and the writer did not reach may be released again. */
	while (is_before(r->writer, r->ahead)) {
		unsigned block = r->writer.block;
		if (r->writer.page >= r->guest->blocks[block]->npages) {
			r->writer = (struct rf_position){block + 1, 0};
			continue;
		}
		rf_chunks_passed(r->chunks, rf_chunks_at(r->chunks, block, r->writer.page));
		r->writer.page = rf_chunks_end(r->chunks, block, r->writer.page);
	}
}

static int check_failed(const struct rf_round *r, struct rf_error *e)
{
	if (r->chunks->failed.code)
		*e = r->chunks->failed;
	else if (r->lanes->failed.code)
		*e = r->lanes->failed;
	else
		return 0;
	return -1;
}

/* A side has no memory for a registration: end what is under way, give everything up, go on with less from here on. */
static int make_do_with_less(struct rf_round *r, struct rf_error *e)
{
	struct rf_position here = r->writer;

	forget_wanted(r);
	r->writer = r->ahead = here;
	r->ahead_bytes = 0;
	while (!rf_lanes_posted(r->lanes) || r->lanes->in_flight || r->chunks->asked)
		if (rf_chunks_flush(r->chunks, e) || wait_because(r, STOP_KEY, e) || check_failed(r, e) ||
		    rf_lanes_flush(r->lanes, e))
			return -1;
	if (rf_chunks_give_up_all(r->chunks, e))
		return -1;
	while (r->chunks->pinned_bytes)
		if (wait_because(r, STOP_KEY, e))
			return -1;
	return rf_chunks_lay_out(r->chunks, e);
}

static int say_round_end(struct rf_round *r, struct rf_error *e)
{
	for (unsigned lane = RF_LANE_CONTROL; lane <= r->lanes->n; lane++) {
		struct rf_out *o = rf_peer_begin(r->peer, RF_MSG_ROUND_END);
		rf_put_u64(o, r->number);
		rf_put_u64(o, lane ? r->lanes->lanes[lane].round_writes : r->zero_runs);
		rf_put_u8(o, r->final);
		if (rf_peer_send(r->peer, lane, e))
			return -1;
	}
	r->ended = true;
	return 0;
}

static int end_writing(struct rf_round *r, struct rf_error *e)
{
	forget_wanted(r);
	while (!rf_lanes_posted(r->lanes))
		if (wait_because(r, STOP_QUEUE, e) || rf_lanes_flush(r->lanes, e))
			return -1;
	r->now.scan_ns = (uint64_t)(r->scan->ended_ns - r->scan->started_ns);
	r->now.zero_pages = r->scan->zero_pages;
	r->now.suspect_pages = r->scan->joined_pages;
	return say_round_end(r, e);
}

int rf_round_write(struct rf_round *r, rf_round_decide *decide, void *arg, struct rf_error *e)
{
	for (;;) {
		if (rf_scan_feed(r->scan, e) || tell_zeros(r, e) || check_failed(r, e) ||
		    (r->chunks->lacking && make_do_with_less(r, e)) || look_ahead(r, e))
			return -1;
		if (decide && rf_scan_ended(r->scan)) {
			int leave = decide(arg, r, e);
			if (leave)
				return leave < 0 || end_writing(r, e) ? -1 : 1;
		}
		enum why_stopped why = write_some(r, e);
		if (why == STOP_FAILED)
			return -1;
		if (why == STOP_DONE && rf_scan_ended(r->scan) && r->told_slices == r->scan->slices)
			return end_writing(r, e);
		if (wait_because(r, why, e))
			return -1;
	}
}

int rf_round_drain(struct rf_round *r, struct rf_error *e)
{
	struct rf_stats *s = r->peer->engine->stats;
	/* The last completions of our own side may come behind the peer's word. */
	while (!r->drained || r->lanes->in_flight)
		if (rf_peer_pump(r->peer, -1, e))
			return -1;
	int64_t now = rf_peer_now(r->peer);
	r->now.duration_ns = (uint64_t)(now - r->started_ns);
	r->now.drain_ns = (uint64_t)(now - r->posted_ns);
	r->now.bytes_per_second = rf_per_second(r->now.bytes, now - r->started_ns);
	s->normal_bytes += r->now.bytes;
	s->normal_pages += r->now.pages;
	s->duplicate_pages += r->now.zero_pages;
	if (rf_stats_add_round(s, &r->now))
		return rf_fail(e, RF_E_FAILED, "no memory for the statistics of a round");
	r->last = r->now;
	r->now = (struct rf_round_stats){0};
	r->number++;
	return 0;
}

int rf_round_ok(struct rf_round *r, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint64_t number = rf_get_u64(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (!r->ended || r->drained || number != r->number)
		return rf_fail(e, RF_E_FAILED, "the peer's ROUND_OK is for a round that has not ended");
	r->drained = true;
	return 0;
}
