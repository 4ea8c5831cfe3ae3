// SPDX-License-Identifier: LGPL-2.1-or-later
/* The time in which nobody runs the guest. The order is the one of docs/design.md section 5, and each step is measured:
 *
 *   pause         the guest stands still and no device writes; meanwhile the last round drains, and what the guest hands out
 *                 of its device state on the way travels and is loaded already
 *   save          the device state; this may still write to guest RAM. Meanwhile the extents are compared with what was ever
 *                 sent: nobody discards any more, and it costs as much as a sync
 *   last sync     behind the save, so that it finds what that wrote
 *   final pass    its set; the state travels on the control lane meanwhile
 *   verify        --verify only
 *   load          the destination loads the state, once its memory is complete
 *   hand-off      COMMIT to RUNNING */
#include "engine/source.h"


#include "common/sizes.h"

#include <string.h>

static uint64_t since(struct rf_source *s, int64_t *mark)
{
	int64_t now = rf_peer_now(&s->peer), past = now - *mark;
	*mark = now;
	return (uint64_t)past;
}

/* What the guest hands out is kept for the engine's thread to send. */
struct taking {
	struct rf_source *source;
	struct rf_error full;
};

static int take_state(void *arg, const void *data, size_t length)
{
	struct taking *t = arg;
	return rf_state_append(&t->source->state, data, length, &t->full);
}

static int taken(const struct taking *t, int result, const char *what, struct rf_error *e)
{
	if (t->full.code)
		*e = t->full;
	return t->full.code || result ? rf_wrap(e, "%s", what) : 0;
}

static int call_pause(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	struct taking t = {.source = s};
	struct rf_state_sink early = {take_state, &t};
	return taken(&t, s->guest->ops->pause(s->guest->ctx, &early, &s->stand, &s->was_running, e),
		     "cannot stop the guest", e);
}

static int call_save(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	struct taking t = {.source = s};
	struct rf_state_sink sink = {take_state, &t};
	if (!s->guest->ops->save)
		return 0;
	return taken(&t, s->guest->ops->save(s->guest->ctx, &sink, e), "cannot save the device state", e);
}

static int find_holes(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	return s->guest->may_discard ? rf_scan_all(&s->scan, RF_SCAN_HOLES, e) : 0;
}

static int pause_guest(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	struct rf_stats *stats = s->engine->stats;
	s->owner = rf_owner_after(s->owner, RF_STEP_PAUSE);
	for (s->stand = RF_STAND_RUNS; s->stand != RF_STAND_STILL;) {
		if (s->stand == RF_STAND_RUNS)
			s->stopped_ns = *mark = rf_peer_now(&s->peer);
		if (rf_peer_call(&s->peer, call_pause, s, e) || rf_state_send(&s->state, &s->peer, RF_MSG_EARLY, e))
			return -1;
		/* The guest runs on while the lane is behind with what it has handed out. */
		while (s->stand == RF_STAND_RUNS && s->peer.outbox)
			if (rf_peer_pump(&s->peer, -1, e))
				return -1;
	}
	s->owner = rf_owner_after(s->owner, RF_STEP_PAUSED);
	if (s->drains.needed)
		rf_scan_drained(&s->scan); /* what is suspect goes with the final pass */
	if (rf_round_drain(&s->round, e))
		return -1;
	stats->downtime_pause_ns = since(s, mark);
	return 0;
}

static int save_state(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	struct rf_stats *stats = s->engine->stats;
	if (rf_peer_call_meanwhile(&s->peer, call_save, find_holes, s, e))
		return -1;
	stats->downtime_save_ns = since(s, mark);
	if (rf_state_send(&s->state, &s->peer, RF_MSG_STATE, e))
		return -1;
	stats->state_bytes = s->state.told_bytes;
	return 0;
}

static int final_pass(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	struct rf_stats *stats = s->engine->stats;
	s->round.final = true;
	rf_round_start(&s->round, RF_SCAN_COLLECT);
	if (rf_round_write(&s->round, NULL, NULL, e))
		return -1;
	if (!s->engine->options->verify) {
		if (rf_state_say_load(&s->state, &s->peer, s->was_running, e))
			return -1;
		s->peer.phase = RF_WIRE_LOADING; /* READY may come close behind the ROUND_OK that is waited for now */
	}
	if (rf_round_drain(&s->round, e))
		return -1;
	rf_source_report(s, true);
	stats->dirty_sync_count++;
	stats->downtime_scan_ns = s->round.last.scan_ns;
	stats->downtime_final_pass_ns = since(s, mark) - s->round.last.scan_ns;
	stats->final_bytes_per_second = s->round.last.bytes_per_second;
	return 0;
}

static int verify(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	if (!s->engine->options->verify)
		return 0;
	rf_log(s->engine->log, RF_LOG_INFO, "comparing the memory of both sides");
	if (rf_verify_all(&s->verify, &s->scan, e))
		return -1;
	s->engine->stats->downtime_verify_ns = since(s, mark);
	return rf_state_say_load(&s->state, &s->peer, s->was_running, e);
}

static int wait_ready(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	s->peer.phase = RF_WIRE_LOADING;
	while (!s->heard_ready)
		if (rf_peer_pump(&s->peer, -1, e))
			return -1;
	s->engine->stats->downtime_load_ns = since(s, mark);
	return 0;
}

static int wait_running(struct rf_source *s, struct rf_error *e)
{
	int64_t until = rf_peer_now(&s->peer) + (int64_t)s->engine->options->resolve_timeout_ns;
	while (!s->heard_running && !s->heard_discarded) {
		int64_t left = until - rf_peer_now(&s->peer);
		if (left <= 0)
			return rf_fail(e, RF_E_UNKNOWN, "no answer within --resolve-timeout");
		if (rf_peer_pump(&s->peer, left, e)) {
			rf_peer_last_words(&s->peer, e);
			if (!s->heard_running && !s->heard_discarded)
				return -1;
		}
	}
	return 0;
}

static int hand_off(struct rf_source *s, int64_t *mark, struct rf_error *e)
{
	struct rf_stats *stats = s->engine->stats;

	/* Recorded before the first byte leaves: from here on the source never resumes by itself. */
	s->owner = rf_owner_after(s->owner, RF_STEP_COMMIT);
	s->peer.may_cancel = rf_owner_rule(s->owner)->may_cancel;
	s->peer.phase = RF_WIRE_COMMITTED;
	rf_put_bytes(rf_peer_begin(&s->peer, RF_MSG_COMMIT), s->engine->id, sizeof(s->engine->id));
	if (rf_peer_send(&s->peer, RF_LANE_CONTROL, e))
		rf_peer_last_words(&s->peer, e); /* if it gave up, it may have said DISCARDED */
	else if (wait_running(s, e))
		return -1;
	if (!s->heard_discarded && !s->heard_running)
		return -1;
	if (s->heard_discarded && s->heard_running)
		return rf_fail(e, RF_E_UNKNOWN, "it says that it runs and that it was discarded");
	if (s->heard_discarded) {
		s->owner = rf_owner_after(s->owner, RF_STEP_DISCARDED_THERE);
		return rf_fail(e, RF_E_FAILED, "the destination could not run the guest and has discarded it: %s",
			       s->refused.text);
	}
	s->owner = rf_owner_after(s->owner, RF_STEP_CONFIRMED);
	stats->downtime_hand_off_ns = since(s, mark);
	stats->downtime_ns = (uint64_t)(*mark - s->stopped_ns);
	stats->total_ns = (uint64_t)(*mark - s->connected_ns);
	return 0;
}

int rf_source_switchover(struct rf_source *s, struct rf_error *e)
{
	int64_t mark;
	rf_source_phase(s, RF_ENGINE_SWITCHOVER);
	if (pause_guest(s, &mark, e) || save_state(s, &mark, e) || final_pass(s, &mark, e) || verify(s, &mark, e) ||
	    wait_ready(s, &mark, e) || hand_off(s, &mark, e))
		return -1;
	rf_source_phase(s, RF_ENGINE_RUNNING);
	char downtime[32];
	rf_log(s->engine->log, RF_LOG_INFO, "the guest %s at the destination after %s",
	       s->was_running ? "runs" : "is paused, as it was,",
	       rf_format_duration(s->engine->stats->downtime_ns, downtime, sizeof(downtime)));
	return 0;
}
