// SPDX-License-Identifier: LGPL-2.1-or-later
/* When to take drain points (design.md 4.2): a pure function of what rounds showed, as converge.h.
 *
 * One is taken before round 0. From then on everything that is collected is suspect, so by the end of round 0 that may be
 * much, and none of it is worth a stop of the guest until the rounds have got small. Then the mover closes in: behind
 * each sync comes a drain point, and the round writes what both found. So at the next sync nothing is suspect but what that
 * sync itself has found, and the final pass is as small as that of any other guest.
 *
 * Each of them stops the guest until its disks have answered. So they also show what the pause will cost, and none is taken
 * to spare the guest a shorter stop than it is itself. Where closing in
 * has led to nothing, they take at most a twentieth of the guest's time from then on. */
#ifndef RAMFERRY_ENGINE_DRAINS_H
#define RAMFERRY_ENGINE_DRAINS_H

#include "engine/converge.h"

struct rf_drains {
	bool needed;
	bool closing_in;
	int64_t last_ns;       /* the guest stood still for the last one; 0: there was none */
	int64_t spent_ns;      /* … for all since closing in began */
	int64_t not_before_ns; /* closing in again */
};

/* What is known after a sync. */
struct rf_drains_view {
	enum rf_verdict verdict; /* of converge.h, about what the sync found */
	uint64_t extra_bytes;    /* suspect, and not to be written by this round anyway */
	uint64_t extra_ns;       /* what these take */
	uint64_t left_ns;        /* what the rest takes */
	bool fits;               /* into the downtime limit, all that is suspect included */
	bool would_fit;          /* what the sync found, if the pause were as quick as it is without I/O */
	bool forced;             /* a stall means to leave */
	int64_t now_ns;
};

/* What the verdict comes to: RF_VERDICT_DRAIN, to take a drain point and write what was suspect; RF_VERDICT_WAIT, not to do so
 * yet; or one of the others. */
enum rf_verdict rf_drains_decide(struct rf_drains *d, struct rf_converge *c, const struct rf_drains_view *v);

void rf_drains_took(struct rf_drains *d, int64_t duration_ns);

#endif
