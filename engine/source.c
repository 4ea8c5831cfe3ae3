// SPDX-License-Identifier: LGPL-2.1-or-later
/* The source of a move, from the first word to the last.
 *
 *   set up      check the guest, connect, agree, prepare, arm tracking
 *   rounds      source_rounds.c: sync, write, drain, until the rest is small enough; with source_drains.c, where devices write
 *               unseen
 *   switchover  source_switchover.c: pause, state, final pass, load, hand-off
 *
 * It goes one way, and every step may fail. Until COMMIT is given to the fabric a failure at any place leads to give_up():
 * whatever is under way ends, the guest is put back as the operator had it, tracking is dropped. From COMMIT on the guest
 * is the destination's unless it says DISCARDED, and the source only tells what it knows. */
#include "engine/source.h"

#include "engine/pins.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the destination says ---- */

static int take_running(struct rf_source *s, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	const void *id = rf_get_bytes(&in, sizeof(s->engine->id));
	if (m->type == RF_MSG_DISCARDED)
		rf_get_text(&in, s->refused.text, sizeof(s->refused.text));
	if (rf_in_end(&in, m, e))
		return -1;
	if (memcmp(id, s->engine->id, sizeof(s->engine->id)))
		return rf_fail(e, RF_E_FAILED, "the peer speaks of another migration");
	if (s->peer.phase != RF_WIRE_COMMITTED)
		return rf_fail(e, RF_E_FAILED, "the other side gave up: %s", s->refused.text);
	if (m->type == RF_MSG_RUNNING)
		s->heard_running = true;
	else
		s->heard_discarded = true;
	return 0;
}

static int take_ready(struct rf_source *s, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	s->load_ns = rf_get_u64(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (!s->round.drained || s->heard_ready)
		return rf_fail(e, RF_E_FAILED, "the peer sent READY at the wrong time");
	s->heard_ready = true;
	return 0;
}

static int take_message(void *side, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct rf_source *s = side;
	switch (m->type) {
	case RF_MSG_HELLO:
		s->heard_hello = true;
		s->peer.phase = RF_WIRE_SETUP;
		return rf_agree_take_hello(&s->peer, s->facts, m, e);
	case RF_MSG_BLOCKS_OK:
		s->heard_blocks_ok = true;
		s->peer.phase = RF_WIRE_COPY;
		return 0;
	case RF_MSG_KEYS:
		return rf_chunks_keys(&s->chunks, m, e);
	case RF_MSG_RELEASED:
		return rf_chunks_released(&s->chunks, m, e);
	case RF_MSG_ROUND_OK:
		return rf_round_ok(&s->round, m, e);
	case RF_MSG_DIGEST_OK:
		return rf_verify_ok(&s->verify, m, e);
	case RF_MSG_READY:
		return take_ready(s, m, e);
	case RF_MSG_RUNNING:
	case RF_MSG_DISCARDED:
		return take_running(s, m, e);
	default:
		return rf_fail(e, RF_E_FAILED, "the peer sent something that a destination does not say");
	}
}

static void take_written(void *side, unsigned lane, uint32_t count)
{
	struct rf_source *s = side;
	rf_lanes_written(&s->lanes, lane, count);
}

/* ---- setting up ---- */

/* Before the receiver is called, so that it goes on waiting for a better one. */
static int check_pins(struct rf_source *s, struct rf_error *e)
{
	struct rf_fabric *f = s->engine->fabric;
	const struct rf_options *o = s->engine->options;

	if (rf_pins_check_guest(f, s->guest, o, s->staged, e))
		return -1;
	if (!f->ops->can_pin)
		return 0;
	return rf_pins_data(s->guest, &s->data_bytes, e) || (!s->staged && rf_pins_check(f, o, s->data_bytes, e));
}

/* What the fabric can do is known for certain only once it is connected. */
static int check_fabric(struct rf_source *s, struct rf_error *e)
{
	struct rf_fabric *f = s->engine->fabric;
	const struct rf_options *o = s->engine->options;

	if (rf_pins_check_on_demand(f, o, "source", e) || rf_pins_check_guest(f, s->guest, o, s->staged, e))
		return -1;
	if (!s->staged || !f->ops->can_pin || !f->ops->can_pin(f, f->limits.lanes * (uint64_t)RF_STAGING_BYTES, e))
		return 0;
	e->code = RF_E_REFUSED;
	return -1;
}

static int check_guest(struct rf_source *s, const struct rf_tracker_ops **tracker, struct rf_error *e)
{
	const struct rf_options *o = s->engine->options;
	const struct rf_lifecycle_ops *ops = s->guest->ops;
	if (ops->check && ops->check(s->guest->ctx, RF_ROLE_SOURCE, e))
		return -1;
	if (!s->guest->nblocks)
		return rf_fail(e, RF_E_REFUSED, "the guest has no memory that can be moved");
	if (rf_chunks_check(s->guest, o, e))
		return -1;
	if (ops->facts && ops->facts(s->guest->ctx, s->facts, sizeof(s->facts), e))
		return -1;
	if (rf_tracker_choose(s->guest, (unsigned)o->tracker, tracker, e))
		return -1;
	if (o->source_memory == RF_SOURCE_DIRECT && (*tracker)->direct)
		*tracker = (*tracker)->direct;
	if ((*tracker)->staged && o->source_memory == RF_SOURCE_DIRECT)
		return rf_fail(e, RF_E_USAGE,
			       "the tracker %s needs staged pages, --source-memory direct rules them out",
			       (*tracker)->name);
	s->staged = (*tracker)->staged || o->source_memory == RF_SOURCE_STAGED;
	return check_pins(s, e);
}

static int agree(struct rf_source *s, struct rf_error *e)
{
	if (rf_agree_hello(&s->peer, s->facts, e))
		return -1;
	while (!s->heard_hello)
		if (rf_peer_pump(&s->peer, -1, e))
			return -1;
	if (check_fabric(s, e) || rf_agree_blocks(&s->peer, e))
		return -1;
	while (!s->heard_blocks_ok)
		if (rf_peer_pump(&s->peer, -1, e))
			return -1;
	s->agreed = true;
	return 0;
}

static int call_prepare(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	return s->guest->ops->prepare ? s->guest->ops->prepare(s->guest->ctx, RF_ROLE_SOURCE, e) : 0;
}

struct open_tracker {
	struct rf_source *source;
	const struct rf_tracker_ops *ops;
};

static int call_open_tracker(void *arg, struct rf_error *e)
{
	struct open_tracker *open = arg;
	struct rf_source *s = open->source;
	return rf_tracker_open(s->guest, (unsigned)s->engine->options->tracker, open->ops, &s->tracker, e);
}

static int open_parts(struct rf_source *s, struct rf_error *e)
{
	const struct rf_options *o = s->engine->options;
	bool staged = s->tracker->ops->staged || s->staged;
	uint64_t max_write = o->max_write_bytes;

	if (rf_chunks_open(&s->chunks, &s->peer, s->engine->stats, staged, e) ||
	    rf_lanes_open(&s->lanes, &s->peer, staged, e) || rf_scan_open(&s->scan, &s->peer, s->tracker, e))
		return -1;
	s->drains.needed = s->scan.suspicious = s->guest->needs_drain && !s->tracker->ops->sees_devices;
	s->round = (struct rf_round){
	    .peer = &s->peer,
	    .guest = s->guest,
	    .tracker = s->tracker,
	    .chunks = &s->chunks,
	    .lanes = &s->lanes,
	    .scan = &s->scan,
	    .ahead_limit_bytes = o->register_mode == RF_REGISTER_PIN_ALL ? UINT64_MAX : o->register_ahead_bytes,
	    .staged = staged,
	};
	rf_pace_init(&s->round.pace, o->max_bandwidth);
	/* With a limit, a single write is a small part of a second. */
	if (o->max_bandwidth && max_write > o->max_bandwidth / 200)
		max_write = o->max_bandwidth / 200 < RF_PAGE_BYTES
				? RF_PAGE_BYTES
				: o->max_bandwidth / 200 / RF_PAGE_BYTES * RF_PAGE_BYTES;
	if (max_write > s->peer.fabric->limits.max_write_bytes)
		max_write = s->peer.fabric->limits.max_write_bytes;
	s->round.max_write_bytes = (uint32_t)max_write;
	return 0;
}

static void count_memory(struct rf_source *s)
{
	struct rf_stats *stats = s->engine->stats;
	stats->page_bytes = RF_PAGE_BYTES;
	stats->lanes = s->peer.fabric->limits.lanes;
	for (unsigned i = 0; i < s->guest->nblocks; i++)
		stats->ram_total_bytes += s->guest->blocks[i]->npages << RF_PAGE_SHIFT;
}

static int set_up(struct rf_source *s, struct rf_error *e)
{
	struct rf_fabric *f = s->engine->fabric;
	struct open_tracker open = {.source = s};

	if (check_guest(s, &open.ops, e))
		return -1;
	if (atomic_load(s->engine->cancelled))
		return rf_fail(e, RF_E_CANCELLED, "cancelled");
	if (f->ops->connect(f, &s->engine->uri, e))
		return -1;
	rf_peer_init(&s->peer, s->engine, true, s);
	s->peer.message = take_message;
	s->peer.written = take_written;
	s->peer.idle = rf_source_idle;
	s->peer.data_bytes = s->data_bytes;
	s->connected_ns = rf_peer_now(&s->peer);
	rf_source_phase(s, RF_ENGINE_SETUP);
	if (agree(s, e))
		return -1;
	s->touched = true;
	if (rf_peer_call(&s->peer, call_prepare, s, e) || rf_peer_call(&s->peer, call_open_tracker, &open, e) ||
	    open_parts(s, e))
		return -1;
	s->tracking = true;
	/* What devices have begun to write before the first scan, it cannot tell: so that ends before round 0 reads. */
	if (rf_scan_all(&s->scan, RF_SCAN_ARM, e) || (s->drains.needed && rf_source_drain_point(s, e)))
		return -1;
	count_memory(s);
	s->engine->stats->setup_ns = (uint64_t)(rf_peer_now(&s->peer) - s->connected_ns);
	return 0;
}

/* ---- the end ---- */

static int call_undo(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	return s->guest->ops->undo ? s->guest->ops->undo(s->guest->ctx, e) : 0;
}

static int call_finish(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	return s->guest->ops->finish ? s->guest->ops->finish(s->guest->ctx, e) : 0;
}

/* After the guest runs again somewhere, so that nobody waits for it. */
static void drop_tracking(struct rf_source *s)
{
	struct rf_error ignored;
	if (s->tracking && rf_scan_all(&s->scan, RF_SCAN_DROP, &ignored))
		rf_peer_quiesce(&s->peer); /* slices that are being dropped use what is closed now */
	if (s->tracker)
		s->tracker->ops->close(s->tracker);
	s->tracker = NULL;
	s->tracking = false;
}

static void unknown(struct rf_source *s, struct rf_error *e)
{
	struct rf_error why = *e;
	s->owner = rf_owner_after(s->owner, RF_STEP_FAILED);
	rf_fail(e, rf_owner_rule(s->owner)->on_failure,
		"the guest was handed over, but the destination's word that it runs did not come (%.200s): it stays "
		"stopped here; look whether it runs at the destination, and only if it does not and never will, resume "
		"it here",
		why.text);
}

/* Before COMMIT, or after DISCARDED: the guest is ours, and goes on as it was. */
static void put_back(struct rf_source *s, struct rf_error *e)
{
	struct rf_error undo;
	if (s->owner != RF_SOURCE_UNDONE)
		s->owner = rf_owner_after(s->owner, RF_STEP_FAILED);
	if (!s->touched)
		return;
	rf_source_phase(s, RF_ENGINE_UNDOING);
	if (rf_peer_call(&s->peer, call_undo, s, &undo)) {
		struct rf_error why = *e;
		rf_fail(e, RF_E_UNKNOWN,
			"%.200s; and the guest, which runs nowhere else, could not be put back: %.200s", why.text,
			undo.text);
	} else if (e->code == RF_E_REFUSED || e->code == RF_E_USAGE) {
		e->code = RF_E_FAILED; /* for something was touched, and put back */
	}
}

static void give_up(struct rf_source *s, struct rf_error *e)
{
	if (!s->connected_ns) /* nothing was begun */
		return;
	rf_peer_last_words(&s->peer, e);
	if (!rf_owner_rule(s->owner)->source_may_run)
		unknown(s, e);
	else
		rf_peer_abort(&s->peer, e);
	rf_peer_quiesce(&s->peer);
	rf_scan_stop(&s->scan);
	if (rf_owner_rule(s->owner)->source_may_run)
		put_back(s, e);
}

static void finish(struct rf_source *s)
{
	struct rf_error e;
	rf_peer_quiesce(&s->peer);
	if (rf_peer_call(&s->peer, call_finish, s, &e))
		rf_log(s->engine->log, RF_LOG_WARNING, "the guest has moved, but cleaning up here failed: %s", e.text);
}

static void free_source(void *side)
{
	struct rf_source *s = side;
	rf_state_free(&s->state);
	rf_lanes_free(&s->lanes);
	rf_chunks_free(&s->chunks);
	rf_scan_free(&s->scan);
	rf_peer_free(&s->peer);
	free(s);
}

int rf_source_run(struct rf_engine *engine, struct rf_error *e)
{
	struct rf_source *s = calloc(1, sizeof(*s));
	int result = 0;

	if (!s)
		return rf_fail(e, RF_E_FAILED, "no memory for a migration");
	engine->side = s;
	engine->free_side = free_source;
	s->engine = engine;
	s->guest = engine->guest;
	s->owner = RF_SOURCE_RUNNING;
	s->verify.peer = &s->peer;
	if (set_up(s, e) || rf_source_rounds(s, e) || rf_source_switchover(s, e)) {
		give_up(s, e);
		result = -1;
	} else {
		finish(s);
	}
	drop_tracking(s);
	return result;
}
