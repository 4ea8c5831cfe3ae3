// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/source.h"

#include "common/checked.h"
#include "common/sizes.h"

#include <stdio.h>

/* Bandwidth is learned from rounds that moved enough for the drain not to matter. */
static const uint64_t LEARN_BYTES = 8 << 20;
static const int64_t STALLED_ROUND_NS = 100000000;
/* Guesses until a switchover has shown better; they matter only next to a downtime limit of that size. */
static const int64_t PAUSE_NS = 10000000, STATE_NS = 15000000;

/* The sync has ended: what it found was written while the previous round went on. */
static void learn_from_sync(struct rf_source *s)
{
	struct rf_stats *stats = s->engine->stats;
	uint64_t dirty = s->scan.dirty_pages << RF_PAGE_SHIFT;

	stats->dirty_sync_count++;
	s->costs.scan_ns = s->scan.ended_ns - s->scan.started_ns;
	if (stats->nrounds) {
		struct rf_round_stats *last = &stats->rounds[stats->nrounds - 1];
		last->dirty_bytes = dirty;
		last->dirty_bytes_per_second = rf_per_second(dirty, s->scan.started_ns - s->previous_sync_ns);
	}
	s->previous_sync_ns = s->scan.started_ns;
}

/* Suspect, and not left to be written by this round anyway. Nearly all that a round writes is suspect, too. */
static uint64_t extra_bytes(const struct rf_source *s)
{
	uint64_t suspect = s->scan.suspect_pages << RF_PAGE_SHIFT, left = rf_round_left_bytes(&s->round);
	return suspect > left ? suspect - left : 0;
}

/* What the guest's stop leaves to be moved: what this round has not written, what is still on its way, and what of that
 * the guest will have written again until it stands still; but for what is suspect. */
static uint64_t rest_bytes(struct rf_source *s)
{
	const struct rf_stats *stats = s->engine->stats;
	uint64_t on_the_way = rf_lanes_in_flight_bytes(&s->lanes), again = 0;

	if (stats->nrounds) {
		double rate = (double)stats->rounds[stats->nrounds - 1].dirty_bytes_per_second;
		again = (uint64_t)(rate * (double)(s->costs.pause_ns + s->costs.scan_ns) / 1e9);
	}
	return rf_round_left_bytes(&s->round) + on_the_way + rf_min_u64(again, on_the_way);
}

/* The pause takes at least as long as the guest's disks took at the last drain point. */
static uint64_t predict_with(struct rf_source *s, int64_t pause_ns, uint64_t bytes)
{
	s->costs.pause_ns = pause_ns > PAUSE_NS ? pause_ns : PAUSE_NS;
	s->costs.hand_off_ns = s->peer.round_trip_ns > 0 ? 3 * s->peer.round_trip_ns : 1000000;
	return rf_predict_downtime_ns(&s->costs, bytes);
}

static uint64_t predict(struct rf_source *s)
{
	s->engine->stats->predicted_downtime_ns = predict_with(s, s->drains.last_ns, rest_bytes(s) + extra_bytes(s));
	return s->engine->stats->predicted_downtime_ns;
}

static void log_decision(struct rf_source *s, const char *verdict)
{
	char left[32], suspect[64] = "", more[32], rate[32], downtime[32], limit[32];
	if (s->drains.needed)
		snprintf(suspect, sizeof(suspect), " and %s suspect",
			 rf_format_size(extra_bytes(s), more, sizeof(more)));
	rf_log(s->engine->log, RF_LOG_INFO, "round %llu: %s left%s at %s/s, predicted downtime %s, limit %s: %s",
	       (unsigned long long)s->round.number, rf_format_size(rf_round_left_bytes(&s->round), left, sizeof(left)),
	       suspect, rf_format_size(s->costs.bytes_per_second, rate, sizeof(rate)),
	       rf_format_duration(s->engine->stats->predicted_downtime_ns, downtime, sizeof(downtime)),
	       rf_format_duration(s->engine->options->downtime_limit_ns, limit, sizeof(limit)), verdict);
}

static int stalled(struct rf_source *s, struct rf_error *e)
{
	switch ((enum rf_on_stall)s->engine->options->on_stall) {
	case RF_ON_STALL_FORCE:
		log_decision(s, "does not get smaller; switching over all the same (--on-stall force)");
		return 1;
	case RF_ON_STALL_ABORT: {
		char downtime[32], pause[32];
		log_decision(s, "does not get smaller");
		if (s->drains.last_ns > (int64_t)(s->engine->stats->predicted_downtime_ns / 2))
			return rf_fail(
			    e, RF_E_FAILED,
			    "the guest's disks take %s to end what they have begun: the downtime would be %s "
			    "(see --downtime-limit, --on-stall)",
			    rf_format_duration((uint64_t)s->drains.last_ns, pause, sizeof(pause)),
			    rf_format_duration(s->engine->stats->predicted_downtime_ns, downtime, sizeof(downtime)));
		return rf_fail(e, RF_E_FAILED,
			       "the guest writes faster than its memory can be moved: the downtime would be %s "
			       "(see --downtime-limit, --on-stall)",
			       rf_format_duration(s->engine->stats->predicted_downtime_ns, downtime, sizeof(downtime)));
	}
	case RF_ON_STALL_WAIT:
		break;
	}
	s->stalled = true;
	log_decision(s, "does not get smaller; going on (--on-stall wait)");
	return 0;
}

static int check_timeout(struct rf_source *s, struct rf_error *e)
{
	uint64_t limit = s->engine->options->timeout_ns;
	char text[32];
	if (!limit || (uint64_t)(rf_peer_now(&s->peer) - s->connected_ns) < limit)
		return 0;
	return rf_fail(e, RF_E_FAILED,
		       "the guest's memory did not get small enough to switch over within %s (see --timeout)",
		       rf_format_duration(limit, text, sizeof(text)));
}

static uint64_t time_of(const struct rf_source *s, uint64_t bytes)
{
	struct rf_costs moving = {.bytes_per_second = s->costs.bytes_per_second};
	return rf_predict_downtime_ns(&moving, bytes);
}

static enum rf_verdict verdict_of(struct rf_source *s)
{
	const struct rf_options *o = s->engine->options;
	uint64_t limit = o->downtime_limit_ns, rest = rest_bytes(s);
	struct rf_drains_view v = {
	    .extra_bytes = extra_bytes(s),
	    .extra_ns = time_of(s, extra_bytes(s)),
	    .left_ns = time_of(s, rest),
	    .fits = predict(s) <= limit,
	    .would_fit = s->drains.last_ns > PAUSE_NS && predict_with(s, PAUSE_NS, rest) <= limit,
	    .forced = o->on_stall == RF_ON_STALL_FORCE,
	    .now_ns = rf_peer_now(&s->peer),
	};

	/* What is suspect does not count here: a drain point makes sure of it when the time has come. */
	v.verdict =
	    rf_converge_decide(&s->converge, (enum rf_switchover)o->switchover, s->scan.send_pages << RF_PAGE_SHIFT,
			       predict_with(s, s->drains.last_ns, rest), limit);
	return rf_drains_decide(&s->drains, &s->converge, &v);
}

/* Once for each round, when its sync has ended. */
static int decide_once(struct rf_source *s, struct rf_error *e)
{
	learn_from_sync(s);
	switch (verdict_of(s)) {
	case RF_VERDICT_LEAVE:
		log_decision(s, "switching over");
		s->leave = true;
		return 1;
	case RF_VERDICT_DRAIN:
		log_decision(s, "a drain point, and another round");
		s->drain = true;
		return 1;
	case RF_VERDICT_STALL:
		s->leave = stalled(s, e) > 0;
		return s->leave ? 1 : s->stalled ? 0 : -1;
	case RF_VERDICT_WAIT:
		s->stalled = true;
		log_decision(s, "another round, for drain points have stopped the guest long enough");
		return 0;
	case RF_VERDICT_ROUND:
		log_decision(s, "another round");
		return 0;
	}
	return 0;
}

/* threshold: QEMU leaves a round when the rest of it fits, and looks again after a sync. */
static bool threshold_reached(struct rf_source *s)
{
	const struct rf_options *o = s->engine->options;
	uint64_t rate = s->round.now.bytes >= LEARN_BYTES
			    ? rf_per_second(s->round.now.bytes, rf_peer_now(&s->peer) - s->round.started_ns)
			    : s->costs.bytes_per_second;
	if (o->switchover != RF_SWITCHOVER_THRESHOLD || !rate)
		return false;
	s->costs.bytes_per_second = rate;
	return predict(s) <= o->downtime_limit_ns;
}

static int decide(void *arg, struct rf_round *r, struct rf_error *e)
{
	struct rf_source *s = arg;
	if (check_timeout(s, e))
		return -1;
	if (s->scan.kind == RF_SCAN_COLLECT && !s->decided) {
		s->decided = true;
		int end = decide_once(s, e);
		if (end)
			return end;
	}
	return threshold_reached(s);
}

/* The rate while bytes moved: waiting for the sync is a cost of its own. The better of the last two that say something, for
 * the guest, which takes its share of CPU and memory now, will stand still then. */
static void learn_from_round(struct rf_source *s)
{
	const struct rf_round_stats *last = &s->round.last;
	int64_t moving_ns = (int64_t)last->duration_ns - (int64_t)last->wait_scan_ns;
	uint64_t rate = rf_per_second(last->bytes, moving_ns > 0 ? moving_ns : 1);

	if (last->bytes >= LEARN_BYTES) {
		s->costs.bytes_per_second = rf_max_u64(rate, s->previous_rate);
		s->previous_rate = rate;
	} else if (!s->costs.bytes_per_second) {
		s->costs.bytes_per_second = last->bytes_per_second;
	}
}

/* A round that has nothing to shrink lasts no longer than its drain: do not spin until the guest changes its ways. */
static int rest(struct rf_source *s, struct rf_error *e)
{
	int64_t until = s->round.started_ns + STALLED_ROUND_NS, left;
	while ((left = until - rf_peer_now(&s->peer)) > 0)
		if (check_timeout(s, e) || rf_peer_pump(&s->peer, left, e))
			return -1;
	return 0;
}

static int one_round(struct rf_source *s, enum rf_scan_kind kind, struct rf_error *e)
{
	s->decided = s->stalled = s->drain = false;
	rf_round_start(&s->round, kind);
	if (rf_round_write(&s->round, decide, s, e) < 0)
		return -1;
	/* When it is time to leave, the drain goes on while the guest is being stopped. */
	if (s->leave)
		return 0;
	if (rf_round_drain(&s->round, e))
		return -1;
	learn_from_round(s);
	/* One that was left empty is not told. */
	if (!s->drain || s->round.last.bytes)
		rf_source_report(s, true);
	return s->stalled ? rest(s, e) : 0;
}

int rf_source_rounds(struct rf_source *s, struct rf_error *e)
{
	s->costs = (struct rf_costs){.pause_ns = PAUSE_NS, .state_ns = STATE_NS};
	rf_converge_init(&s->converge);
	s->previous_sync_ns = rf_peer_now(&s->peer);
	rf_source_phase(s, RF_ENGINE_ROUNDS);

	if (one_round(s, RF_SCAN_EXTENTS, e))
		return -1;
	s->engine->stats->ram_data_bytes = s->scan.data_pages << RF_PAGE_SHIFT;
	while (!s->leave) {
		if (one_round(s, RF_SCAN_COLLECT, e))
			return -1;
		if (s->drain && (rf_source_drain_point(s, e) || one_round(s, RF_SCAN_SUSPECT, e)))
			return -1;
	}
	return 0;
}
