// SPDX-License-Identifier: LGPL-2.1-or-later
/* A drain point: the guest is stopped until every write of its devices has ended, and runs on. No round is under way, so that
 * what was suspect joins the next one whole. */
#include "engine/source.h"

#include "common/sizes.h"

static int call_drain(void *arg, struct rf_error *e)
{
	struct rf_source *s = arg;
	return s->guest->ops->drain(s->guest->ctx, e);
}

int rf_source_drain_point(struct rf_source *s, struct rf_error *e)
{
	struct rf_stats *stats = s->engine->stats;
	int64_t began_ns = rf_peer_now(&s->peer), took_ns;
	char duration[32];

	if (rf_peer_call(&s->peer, call_drain, s, e))
		return rf_wrap(e, "cannot let the guest's direct I/O end");
	rf_scan_drained(&s->scan);
	took_ns = rf_peer_now(&s->peer) - began_ns;
	rf_drains_took(&s->drains, took_ns);
	stats->drain_points++;
	stats->drain_point_ns += (uint64_t)took_ns;
	rf_log(s->engine->log, RF_LOG_INFO,
	       "drain point %llu: the guest was stopped for %s, until its direct I/O had ended",
	       (unsigned long long)stats->drain_points,
	       rf_format_duration((uint64_t)took_ns, duration, sizeof(duration)));
	return 0;
}
