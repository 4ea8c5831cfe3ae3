// SPDX-License-Identifier: LGPL-2.1-or-later
/* A round: sync, write everything that it found, drain.
 *
 * Three cursors go over the guest in the same order. The scan makes slices ready; the look-ahead asks for the keys of the
 * chunks that come next, up to register-ahead bytes in front of the writer; the writer posts writes and stops only
 * when there is nothing to post: no slice, no key, no room on the lanes, or no bandwidth left. Nothing waits for an
 * earlier write: within a round no two writes overlap. The round ends with ROUND_END behind the writes of each lane and
 * the destination's ROUND_OK, which is the only wait for writes that there is. */
#ifndef RAMFERRY_ENGINE_ROUND_H
#define RAMFERRY_ENGINE_ROUND_H

#include "engine/chunks.h"
#include "engine/lanes.h"
#include "engine/pace.h"
#include "engine/scan.h"

struct rf_position {
	unsigned block;
	uint64_t page;
};

struct rf_round {
	struct rf_peer *peer;
	struct rf_guest *guest;
	struct rf_tracker *tracker;
	struct rf_chunks *chunks;
	struct rf_lanes *lanes;
	struct rf_scan *scan;
	struct rf_pace pace;
	uint64_t ahead_limit_bytes;
	uint32_t max_write_bytes;
	bool staged;

	uint64_t number;
	bool final;
	struct rf_round_stats now, last; /* last: the one that was drained */
	struct rf_position writer, ahead;
	struct rf_chunk *current;      /* the writer's */
	uint64_t ahead_bytes;          /* wanted and not written yet */
	uint64_t written_bytes;        /* of this round, also after its drain */
	uint64_t told_slices;          /* whose ZEROs were sent */
	uint64_t zero_runs;            /* sent in this round, for ROUND_END */
	int64_t started_ns, posted_ns; /* posted: the last write of the round */
	bool ended;                    /* ROUND_END was sent */
	bool drained;                  /* ROUND_OK came */
};

/* Asked whenever the writer looks up, once the scan has ended: 1 leave the rest for later, 0 go on, -1 failed. */
typedef int rf_round_decide(void *arg, struct rf_round *r, struct rf_error *e);

void rf_round_start(struct rf_round *r, enum rf_scan_kind kind);

/* Write until everything is written or `decide` (may be NULL) says leave, then say ROUND_END. 1 when left early. */
int rf_round_write(struct rf_round *r, rf_round_decide *decide, void *arg, struct rf_error *e);

/* Wait for ROUND_OK and add the round to the statistics. */
int rf_round_drain(struct rf_round *r, struct rf_error *e);

/* What is still to be written of this round, once the scan has ended. */
uint64_t rf_round_left_bytes(const struct rf_round *r);

int rf_round_ok(struct rf_round *r, const struct rf_message *m, struct rf_error *e); /* ROUND_OK */

#endif
