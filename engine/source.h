// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the files of the source share: its whole state. */
#ifndef RAMFERRY_ENGINE_SOURCE_H
#define RAMFERRY_ENGINE_SOURCE_H

#include "engine/agree.h"
#include "engine/drains.h"
#include "engine/handoff.h"
#include "engine/round.h"
#include "engine/state.h"
#include "engine/verify.h"

struct rf_source {
	struct rf_engine *engine;
	struct rf_guest *guest;
	struct rf_peer peer;
	struct rf_tracker *tracker;
	struct rf_chunks chunks;
	struct rf_lanes lanes;
	struct rf_scan scan;
	struct rf_round round;
	struct rf_verify_source verify;
	struct rf_state state;
	struct rf_converge converge;
	struct rf_drains drains;
	struct rf_costs costs;
	uint64_t previous_rate; /* of the last round that moved enough, bytes per second; 0: none yet */

	enum rf_owner owner;
	enum rf_stand stand;
	bool was_running; /* what the destination shall restore */
	bool agreed;      /* the destination said BLOCKS_OK */
	bool touched;     /* prepare() was called: undo() is due after a failure */
	bool tracking;    /* armed: drop() is due */
	bool heard_hello, heard_blocks_ok, heard_ready, heard_running, heard_discarded;
	bool staged;             /* pages are sent from copies */
	uint64_t data_bytes;     /* that the blocks hold before the move, where that matters; otherwise 0 */
	uint64_t load_ns;        /* as the destination measured it */
	struct rf_error refused; /* DISCARDED: why */
	char facts[RF_FACTS_BYTES];

	enum rf_engine_phase phase;
	int64_t connected_ns, stopped_ns, reported_ns;
	int64_t previous_sync_ns;
	bool decided; /* about this round */
	bool leave;   /* what was decided */
	bool drain;   /* … or this */
	bool stalled; /* it was found that rounds do not make the rest smaller, and that it is to wait */
};

/* source_report.c: progress and the statistics of a whole move */
void rf_source_phase(struct rf_source *s, enum rf_engine_phase phase);
void rf_source_report(struct rf_source *s, bool round_ended); /* now */
void rf_source_idle(void *side);                              /* ten times a second */

/* source_rounds.c: rounds until it is time to switch over */
int rf_source_rounds(struct rf_source *s, struct rf_error *e);

/* source_drains.c: stop the guest for a moment, so that no write of a device is under way. Between two rounds. */
int rf_source_drain_point(struct rf_source *s, struct rf_error *e);

/* source_switchover.c: from the pause to the hand-off */
int rf_source_switchover(struct rf_source *s, struct rf_error *e);

#endif
