// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/converge.h"

/* Below this much, another round costs more in its drain than it could save of the downtime. */
static const uint64_t SMALL_BYTES = 256 << 10;
static const unsigned STALL_ROUNDS = 3;

void rf_converge_init(struct rf_converge *c)
{
	*c = (struct rf_converge){.best_bytes = UINT64_MAX};
}

void rf_converge_begin_again(struct rf_converge *c)
{
	uint64_t known = c->best_bytes;

	rf_converge_init(c);
	c->known_bytes = known;
}

uint64_t rf_predict_downtime_ns(const struct rf_costs *costs, uint64_t left_bytes)
{
	double bytes_ns = costs->bytes_per_second ? (double)left_bytes * 1e9 / (double)costs->bytes_per_second : 0;
	int64_t fixed_ns = costs->pause_ns + costs->state_ns + costs->scan_ns + costs->hand_off_ns;
	return (uint64_t)fixed_ns + (bytes_ns < (double)INT64_MAX ? (uint64_t)bytes_ns : INT64_MAX);
}

enum rf_verdict rf_converge_decide(struct rf_converge *c, enum rf_switchover mode, uint64_t left_bytes,
				   uint64_t predicted_ns, uint64_t limit_ns)
{
	bool fits = predicted_ns <= limit_ns;
	/* Shrinks by a third or more: left <= 2/3 best, without overflow. */
	bool shrinks = c->best_bytes == UINT64_MAX || left_bytes <= c->best_bytes - c->best_bytes / 3;

	/* As small as it ever was, or nearly. */
	bool low = left_bytes <= SMALL_BYTES || (c->known_bytes && left_bytes / 3 <= c->known_bytes / 2);

	/* A hair less than ever before is noise, not progress. */
	bool better = c->best_bytes == UINT64_MAX || left_bytes < c->best_bytes - c->best_bytes / 20;
	c->no_progress = better ? 0 : c->no_progress + 1;
	if (left_bytes < c->best_bytes)
		c->best_bytes = left_bytes;
	c->rounds++;

	if (fits && (mode == RF_SWITCHOVER_THRESHOLD || low || !shrinks))
		return RF_VERDICT_LEAVE;
	if (!fits && c->no_progress >= STALL_ROUNDS)
		return RF_VERDICT_STALL;
	return RF_VERDICT_ROUND;
}
