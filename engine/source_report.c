// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/source.h"

static const int64_t REPORT_EVERY_NS = 100000000;

void rf_source_report(struct rf_source *s, bool round_ended)
{
	struct rf_engine *engine = s->engine;
	const struct rf_round *r = &s->round;
	int64_t now = rf_peer_now(&s->peer);

	s->reported_ns = now;
	engine->stats->transferred_bytes = engine->stats->normal_bytes + r->now.bytes + s->peer.messages_bytes;
	rf_stats_count(engine->stats, engine->fabric);
	if (s->lanes.n)
		rf_lanes_spread(&s->lanes, &engine->stats->lane_bytes_min, &engine->stats->lane_bytes_max);
	if (!engine->progress)
		return;
	const struct rf_stats *stats = engine->stats;
	struct rf_engine_progress p = {
	    .phase = s->phase,
	    .round_ended = round_ended,
	    .round = r->number - (round_ended ? 1 : 0),
	    .sent_bytes = stats->normal_bytes + r->now.bytes,
	    .left_bytes = r->scan ? rf_round_left_bytes(r) : 0,
	    .dirty_bytes = r->scan && s->scan.kind != RF_SCAN_EXTENTS ? s->scan.dirty_pages << RF_PAGE_SHIFT : 0,
	    .bytes_per_second =
		round_ended ? r->last.bytes_per_second : rf_per_second(r->now.bytes, now - r->started_ns),
	    .dirty_bytes_per_second = stats->nrounds > 1 ? stats->rounds[stats->nrounds - 2].dirty_bytes_per_second : 0,
	    .predicted_downtime_ns = stats->predicted_downtime_ns,
	    .elapsed_ns = s->connected_ns ? (uint64_t)(now - s->connected_ns) : 0,
	};
	engine->progress(engine->progress_arg, &p);
}

void rf_source_idle(void *side)
{
	struct rf_source *s = side;
	if (rf_peer_now(&s->peer) - s->reported_ns >= REPORT_EVERY_NS)
		rf_source_report(s, false);
}

void rf_source_phase(struct rf_source *s, enum rf_engine_phase phase)
{
	static const char *const activities[] = {
	    [RF_ENGINE_LISTENING] = "listening",   [RF_ENGINE_SETUP] = "setting up",
	    [RF_ENGINE_ROUNDS] = "copying memory", [RF_ENGINE_SWITCHOVER] = "switching over",
	    [RF_ENGINE_RUNNING] = "cleaning up",   [RF_ENGINE_UNDOING] = "putting the guest back",
	};
	s->phase = phase;
	s->peer.activity = activities[phase];
	rf_source_report(s, false);
}
