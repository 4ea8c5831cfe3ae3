// SPDX-License-Identifier: LGPL-2.1-or-later
/* When to switch over: a pure function of what the rounds showed (design.md 5.3). */
#ifndef RAMFERRY_ENGINE_CONVERGE_H
#define RAMFERRY_ENGINE_CONVERGE_H

#include "common/options.h"

#include <stdbool.h>
#include <stdint.h>

/* What a switchover would cost apart from the bytes; learned where it can be, guessed at first. */
struct rf_costs {
	int64_t pause_ns, state_ns, scan_ns, hand_off_ns;
	uint64_t bytes_per_second; /* 0: not known yet */
};

struct rf_converge {
	uint64_t best_bytes;  /* smallest rest so far, UINT64_MAX before the first round */
	unsigned no_progress; /* rounds in a row that did not shrink the rest */
	unsigned rounds;      /* decided about */
	uint64_t known_bytes; /* the smallest rest before it began again; 0: it did not */
};

enum rf_verdict {
	RF_VERDICT_ROUND, /* write another round */
	RF_VERDICT_LEAVE, /* switch over */
	RF_VERDICT_STALL, /* it does not converge: --on-stall says what now */
	RF_VERDICT_DRAIN, /* these two are engine/drains.h's */
	RF_VERDICT_WAIT,
};

void rf_converge_init(struct rf_converge *c);

/* The rest has got larger on purpose: look for the low point anew, and know it when it is there. */
void rf_converge_begin_again(struct rf_converge *c);

uint64_t rf_predict_downtime_ns(const struct rf_costs *costs, uint64_t left_bytes);

/* Called after each sync of a drained round: `left_bytes` is what the next round would write. */
enum rf_verdict rf_converge_decide(struct rf_converge *c, enum rf_switchover mode, uint64_t left_bytes,
				   uint64_t predicted_ns, uint64_t limit_ns);

#endif
