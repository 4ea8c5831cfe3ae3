// SPDX-License-Identifier: LGPL-2.1-or-later
/* The destination of a move, from the first word to the last.
 *
 *   set up    check the guest, wait for a source, agree, prepare, empty the memory
 *   fill      destination_memory.c: the source registers, writes and zeroes, round by round
 *   load      destination_state.c: the memory is complete: load the device state, say READY
 *   own       COMMIT makes the guest ours: run it, say RUNNING
 *
 * A failure before COMMIT discards the guest here; it has never run and never will. After COMMIT it must run; where it
 * cannot (an image that somebody else has locked), it has not run either, and when it is discarded for certain the source
 * is told so and may resume. */
#include "engine/destination.h"

#include "common/sizes.h"
#include "engine/pins.h"
#include "engine/probe.h"

#include <stdlib.h>
#include <string.h>

static void report(struct rf_destination *d)
{
	struct rf_engine *engine = d->engine;
	int64_t now = rf_peer_now(&d->peer);
	struct rf_engine_progress p = {
	    .phase = d->phase,
	    .round = d->round,
	    .elapsed_ns = d->connected_ns ? (uint64_t)(now - d->connected_ns) : 0,
	};
	d->reported_ns = now;
	rf_stats_count(engine->stats, engine->fabric);
	if (engine->progress)
		engine->progress(engine->progress_arg, &p);
}

void rf_destination_phase(struct rf_destination *d, enum rf_engine_phase phase, const char *activity)
{
	d->phase = phase;
	d->peer.activity = activity;
	report(d);
}

/* Copying may take hours; nobody wants to hear at their end that there is no guest any more. */
static void look_after_guest(struct rf_destination *d)
{
	const struct rf_lifecycle_ops *ops = d->guest->ops;
	struct rf_error e;
	if (ops->alive && d->owner == RF_DEST_FILLING && !d->failed.code && ops->alive(d->guest->ctx, &e))
		d->failed = e;
}

static void idle(void *side)
{
	struct rf_destination *d = side;
	if (rf_peer_now(&d->peer) - d->reported_ns >= 100000000) {
		look_after_guest(d);
		report(d);
	}
	/* A failure shows as d->failed or as a lost peer at the next pump. */
	struct rf_error e;
	if (!d->peer.lost && !d->peer.aborted && rf_destination_answer(d, &e) && !d->failed.code)
		d->failed = e;
}

/* ---- what the source says ---- */

static int take_commit(struct rf_destination *d, const struct rf_message *m, struct rf_error *e)
{
	if (memcmp(m->body, d->engine->id, sizeof(d->engine->id)))
		return rf_fail(e, RF_E_FAILED, "the peer's COMMIT is for another migration");
	/* From its receipt the guest is ours: nothing that comes later may end this. */
	if (!d->heard_commit)
		d->owner = rf_owner_after(d->owner, RF_STEP_COMMIT);
	d->heard_commit = true;
	d->peer.phase = RF_WIRE_COMMITTED;
	d->peer.may_cancel = rf_owner_rule(d->owner)->may_cancel;
	return 0;
}

static int take_message(void *side, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct rf_destination *d = side;
	switch (m->type) {
	case RF_MSG_HELLO:
		d->heard_hello = true;
		d->peer.phase = RF_WIRE_SETUP;
		return rf_agree_take_hello(&d->peer, d->facts, m, e);
	case RF_MSG_BLOCKS:
		if (d->heard_blocks)
			return rf_fail(e, RF_E_FAILED, "the peer told its blocks twice");
		d->heard_blocks = true;
		return rf_agree_take_blocks(&d->peer, m, e);
	case RF_MSG_REGISTER:
		return rf_destination_register(d, m, e);
	case RF_MSG_RELEASE:
		return rf_destination_release(d, lane, m, e);
	case RF_MSG_ZERO:
		return rf_destination_zero(d, m, e);
	case RF_MSG_ROUND_END:
		return d->probe ? rf_probe_round_end(d, lane, m, e) : rf_destination_round_end(d, lane, m, e);
	case RF_MSG_PROBE:
		return rf_probe_take(d, e);
	case RF_MSG_STATE:
	case RF_MSG_EARLY:
		return rf_destination_take_state(d, m, e);
	case RF_MSG_LOAD:
		return rf_destination_take_load(d, m, e);
	case RF_MSG_DIGEST:
		return rf_verify_digest(&d->verify, m, e);
	case RF_MSG_COMMIT:
		return take_commit(d, m, e);
	default:
		return rf_fail(e, RF_E_FAILED, "the peer sent something that a source does not say");
	}
}

int rf_destination_pump(struct rf_destination *d, int64_t timeout_ns, struct rf_error *e)
{
	if (d->failed.code) {
		*e = d->failed;
		return -1;
	}
	return rf_peer_pump(&d->peer, timeout_ns, e);
}

/* ---- setting up ---- */

static int check_guest(struct rf_destination *d, struct rf_error *e)
{
	const struct rf_lifecycle_ops *ops = d->guest->ops;
	if (ops->check && ops->check(d->guest->ctx, RF_ROLE_DESTINATION, e))
		return -1;
	if (!d->guest->nblocks)
		return rf_fail(e, RF_E_REFUSED, "the guest has no memory that can be filled");
	return ops->facts ? ops->facts(d->guest->ctx, d->facts, sizeof(d->facts), e) : 0;
}

static int check_pins(struct rf_destination *d, struct rf_error *e)
{
	struct rf_fabric *f = d->peer.fabric;
	const struct rf_options *o = d->engine->options;

	return rf_pins_check_on_demand(f, o, "destination", e) || rf_pins_check(f, o, d->peer.data_bytes, e);
}

static int agree(struct rf_destination *d, struct rf_error *e)
{
	while (!d->heard_hello)
		if (rf_destination_pump(d, -1, e))
			return -1;
	if (rf_agree_hello(&d->peer, d->facts, e))
		return -1;
	while (!d->heard_blocks && !d->probe)
		if (rf_destination_pump(d, -1, e))
			return -1;
	return d->probe ? 0 : check_pins(d, e);
}

static int call_prepare(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	return d->guest->ops->prepare ? d->guest->ops->prepare(d->guest->ctx, RF_ROLE_DESTINATION, e) : 0;
}

/* Old files may hold bytes; what is never sent must read as zero. */
static int call_empty(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	for (unsigned i = 0; i < d->guest->nblocks; i++) {
		struct rf_block *b = d->guest->blocks[i];
		if (b->ops->clear(b, (struct rf_run){0, b->npages}, false, e))
			return rf_wrap(e, "cannot empty the memory block %s", b->name);
		d->engine->stats->ram_total_bytes += b->npages << RF_PAGE_SHIFT;
	}
	return 0;
}

static void tell_files(struct rf_destination *d)
{
	struct rf_fabric *f = d->peer.fabric;
	for (unsigned i = 0; i < d->guest->nblocks && f->ops->file; i++) {
		const struct rf_block *b = d->guest->blocks[i];
		/* hugetlbfs can be mapped, but not written to. */
		if (b->fd >= 0 && b->page_bytes == RF_PAGE_BYTES)
			f->ops->file(f, b->memory, b->npages << RF_PAGE_SHIFT, b->fd, b->fd_offset);
	}
}

static int set_up(struct rf_destination *d, struct rf_error *e)
{
	struct rf_fabric *f = d->engine->fabric;
	if (check_guest(d, e))
		return -1;
	rf_peer_init(&d->peer, d->engine, false, d);
	d->peer.message = take_message;
	d->peer.idle = idle;
	rf_destination_phase(d, RF_ENGINE_LISTENING, "listening");
	return f->ops->accept(f, -1, e);
}

static int meet_source(struct rf_destination *d, struct rf_error *e)
{
	d->connected_ns = d->peer.heard_ns = d->peer.pinged_ns = rf_peer_now(&d->peer);
	rf_destination_phase(d, RF_ENGINE_SETUP, "setting up");
	if (agree(d, e)) {
		if (e->code == RF_E_REFUSED)
			rf_agree_refuse(&d->peer, e);
		return -1;
	}
	if (d->probe)
		return rf_probe_serve(d, e);
	d->owner = rf_owner_after(d->owner, RF_STEP_FILL);
	if (rf_peer_call(&d->peer, call_prepare, d, e) || rf_peer_call(&d->peer, call_empty, d, e))
		return -1;
	tell_files(d);
	d->peer.phase = RF_WIRE_COPY;
	rf_peer_begin(&d->peer, RF_MSG_BLOCKS_OK);
	return rf_peer_send(&d->peer, RF_LANE_CONTROL, e);
}

/* ---- filling, loading, owning ---- */

static int fill(struct rf_destination *d, struct rf_error *e)
{
	rf_destination_phase(d, RF_ENGINE_ROUNDS, "receiving memory");
	while (!d->complete || !d->heard_load)
		if (rf_destination_pump(d, -1, e))
			return -1;
	return 0;
}

static int wait_commit(struct rf_destination *d, struct rf_error *e)
{
	int64_t until = rf_peer_now(&d->peer) + (int64_t)d->engine->options->resolve_timeout_ns;
	while (!d->heard_commit) {
		int64_t left = until - rf_peer_now(&d->peer);
		if (left <= 0)
			return rf_fail(e, RF_E_FAILED,
				       "the source did not hand the guest over within --resolve-timeout");
		/* COMMIT and the end of the connection may come in one batch: then it is ours all the same. */
		if (rf_destination_pump(d, left, e) && !d->heard_commit) {
			rf_peer_last_words(&d->peer, e);
			if (!d->heard_commit)
				return -1;
		}
	}
	return 0;
}

static int call_resume(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	return d->guest->ops->resume(d->guest->ctx, d->run, e);
}

static int call_discard(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	return d->guest->ops->discard ? d->guest->ops->discard(d->guest->ctx, e) : 0;
}

static void say(struct rf_destination *d, enum rf_message_type type, const char *text)
{
	struct rf_out *o = rf_peer_begin(&d->peer, type);
	rf_put_bytes(o, d->engine->id, sizeof(d->engine->id));
	if (text)
		rf_put_text(o, text);
	rf_peer_send(&d->peer, RF_LANE_CONTROL, NULL);
}

/* true: it is certain that the guest can never run here. */
static bool discard(struct rf_destination *d, struct rf_error *why)
{
	struct rf_error e;
	if (why->code == RF_E_REFUSED || why->code == RF_E_USAGE)
		why->code = RF_E_FAILED; /* for something was touched */
	if (!rf_peer_call_anyway(&d->peer, call_discard, d, &e)) {
		d->owner = rf_owner_after(d->owner, RF_STEP_DISCARD);
		return true;
	}
	d->owner = rf_owner_after(d->owner, RF_STEP_DISCARD_FAILED);
	rf_log(d->engine->log, RF_LOG_WARNING, "the guest here could not be discarded: %s", e.text);
	if (d->owner == RF_DEST_STUCK) {
		struct rf_error first = *why;
		rf_fail(why, RF_E_UNKNOWN,
			"%.200s; and it could not be discarded here either (%.200s): see that it never runs here, "
			"then resume it at the source",
			first.text, e.text);
	}
	return false;
}

/* COMMIT was given, or may be on its way: only DISCARDED tells the source that its own guest may go on. */
static void discard_and_tell(struct rf_destination *d, struct rf_error *why)
{
	if (discard(d, why))
		say(d, RF_MSG_DISCARDED, why->text);
	else
		rf_peer_abort(&d->peer, why);
	rf_peer_quiesce(&d->peer);
}

static int own(struct rf_destination *d, struct rf_error *e)
{
	/* Told before it is done: who watches this process must not end the guest from here on. */
	rf_destination_phase(d, RF_ENGINE_RUNNING, "running the guest");
	if (rf_peer_call_anyway(&d->peer, call_resume, d, e)) {
		rf_wrap(e, "cannot run the guest");
		discard_and_tell(d, e);
		return -1;
	}
	d->owner = rf_owner_after(d->owner, RF_STEP_RUN);
	say(d, RF_MSG_RUNNING, NULL);
	rf_peer_quiesce(&d->peer);
	d->engine->stats->total_ns = (uint64_t)(rf_peer_now(&d->peer) - d->connected_ns);
	report(d);
	rf_log(d->engine->log, RF_LOG_INFO, d->run ? "the guest runs here" : "the guest is here, paused as it was");
	return 0;
}

/* ---- the end ---- */

static void give_up(struct rf_destination *d, struct rf_error *e)
{
	if (!d->connected_ns || rf_owner_rule(d->owner)->dest_may_run || d->owner == RF_DEST_DISCARDED)
		return;
	if (d->owner == RF_DEST_LOADED) {
		rf_peer_quiesce(&d->peer); /* a COMMIT that comes now is not heard any more */
		discard_and_tell(d, e);
		return;
	}
	rf_peer_last_words(&d->peer, e);
	if (!(d->owner == RF_DEST_EMPTY && e->code == RF_E_REFUSED))
		rf_peer_abort(&d->peer, e);
	rf_peer_quiesce(&d->peer);
	if (d->owner != RF_DEST_EMPTY)
		discard(d, e);
}

static void free_destination(void *side)
{
	struct rf_destination *d = side;
	rf_state_free(&d->state);
	rf_state_free(&d->early);
	rf_destination_free_memory(d);
	rf_probe_free(d);
	rf_peer_free(&d->peer);
	free(d);
}

int rf_destination_run(struct rf_engine *engine, struct rf_error *e)
{
	struct rf_destination *d = calloc(1, sizeof(*d));
	if (!d)
		return rf_fail(e, RF_E_FAILED, "no memory for a migration");
	engine->side = d;
	engine->free_side = free_destination;
	d->engine = engine;
	d->guest = engine->guest;
	d->owner = RF_DEST_EMPTY;
	d->verify.peer = &d->peer;
	if (set_up(d, e) || meet_source(d, e) || fill(d, e) || rf_destination_load(d, e) || wait_commit(d, e) ||
	    own(d, e)) {
		if (d->probe)
			return rf_probe_end(d, e);
		give_up(d, e);
		return -1;
	}
	return 0;
}
