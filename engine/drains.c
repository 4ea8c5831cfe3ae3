// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/drains.h"

/* Less than this is not worth a stop of the guest. */
static const uint64_t SMALL_BYTES = 256 << 10;
static const int64_t REST_FACTOR = 20;

static enum rf_verdict close_in(struct rf_drains *d, struct rf_converge *c, int64_t now_ns)
{
	if (now_ns < d->not_before_ns)
		return RF_VERDICT_WAIT;
	d->closing_in = true;
	d->spent_ns = 0;
	rf_converge_begin_again(c);
	return RF_VERDICT_DRAIN;
}

static enum rf_verdict while_closing_in(struct rf_drains *d, const struct rf_drains_view *v)
{
	bool slow_disks = v->would_fit && !v->fits; /* which another stop now would not make quick */

	if (v->verdict == RF_VERDICT_LEAVE)
		return RF_VERDICT_LEAVE;
	if (v->verdict == RF_VERDICT_ROUND && v->fits && v->left_ns <= (uint64_t)d->last_ns)
		return RF_VERDICT_LEAVE; /* it would stop the guest for longer than it could save */
	if (v->verdict == RF_VERDICT_ROUND && !slow_disks)
		return RF_VERDICT_DRAIN;
	d->closing_in = false;
	d->not_before_ns = v->now_ns + REST_FACTOR * d->spent_ns;
	return v->verdict == RF_VERDICT_STALL ? RF_VERDICT_STALL : RF_VERDICT_WAIT;
}

enum rf_verdict rf_drains_decide(struct rf_drains *d, struct rf_converge *c, const struct rf_drains_view *v)
{
	bool small = v->extra_bytes <= SMALL_BYTES || v->extra_ns <= (uint64_t)d->last_ns;

	if (!d->needed)
		return v->verdict;
	if (d->closing_in)
		return while_closing_in(d, v);
	if (v->verdict == RF_VERDICT_LEAVE)
		return small && v->fits ? RF_VERDICT_LEAVE : close_in(d, c, v->now_ns);
	if (v->verdict != RF_VERDICT_STALL)
		return v->verdict;
	/* Disks that were slow at the last drain point may be quick by now. And who leaves by force leaves with little. */
	if ((v->would_fit || (v->forced && !small)) && v->now_ns >= d->not_before_ns)
		return close_in(d, c, v->now_ns);
	return RF_VERDICT_STALL;
}

void rf_drains_took(struct rf_drains *d, int64_t duration_ns)
{
	d->last_ns = duration_ns;
	d->spent_ns += duration_ns;
}
