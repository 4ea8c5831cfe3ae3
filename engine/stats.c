// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/stats.h"

#include <stdlib.h>

#define STAT(field, text)                                      \
	{                                                      \
#field, text, offsetof(struct rf_stats, field) \
	}
#define ROUND(field, text)                                           \
	{                                                            \
#field, text, offsetof(struct rf_round_stats, field) \
	}

const struct rf_stat_name rf_stat_table[] = {
    STAT(setup_ns, "from the connection to the start of round 0"),
    STAT(total_ns, "from the connection until the guest ran at the destination"),
    STAT(downtime_ns, "from the guest's stop to its run at the destination"),
    STAT(predicted_downtime_ns, "the downtime predicted when the switchover was decided"),
    STAT(downtime_pause_ns, "downtime: stopping the guest"),
    STAT(downtime_save_ns, "downtime: saving the device state, and meanwhile finding what became a hole"),
    STAT(downtime_scan_ns, "downtime: the last sync, behind the save"),
    STAT(downtime_final_pass_ns, "downtime: the writes after the pause, drained"),
    STAT(downtime_verify_ns, "downtime: comparing digests (--verify)"),
    STAT(downtime_load_ns, "downtime: loading the device state at the destination"),
    STAT(downtime_hand_off_ns, "downtime: COMMIT to RUNNING"),
    STAT(final_bytes_per_second, "bandwidth of the final pass"),
    STAT(state_bytes, "device state"),
    STAT(ram_total_bytes, "guest memory"),
    STAT(ram_data_bytes, "guest memory that held data when round 0 began"),
    STAT(transferred_bytes, "all bytes handed to the fabric, messages included"),
    STAT(normal_bytes, "page data sent"),
    STAT(normal_pages, "pages sent as data"),
    STAT(duplicate_pages, "pages found to be zero, and so not sent as data"),
    STAT(dirty_sync_count, "syncs of the dirty pages"),
    STAT(drain_points,
	 "times that the guest was stopped for a moment to let its disks' direct I/O end, the pause not counted"),
    STAT(drain_point_ns, "time that the guest stood still for these"),
    STAT(suspect_pages, "pages looked at again after these, because direct I/O might have changed them"),
    STAT(page_bytes, "size of a page"),
    STAT(registrations, "registrations asked for"),
    STAT(registered_bytes, "bytes registered, each time counted"),
    STAT(register_ns, "time from asking for a registration until it was ready, summed over all"),
    STAT(released_registrations, "registrations given up to stay below max-pinned"),
    STAT(failed_registrations, "registrations for which a side had no memory, so that the move went on with less"),
    STAT(fabric_registrations, "registrations made on this side, where the fabric counts them"),
    STAT(fabric_register_ns, "time that these took, added up over workers"),
    STAT(wait_key_ns, "waited for a registration, in all rounds"),
    STAT(wait_queue_ns, "waited for room on the lanes, in all rounds"),
    STAT(doorbells, "times that writes or messages were handed to an RDMA card"),
    STAT(completions, "completions that an RDMA card has reported"),
    STAT(lanes, "lanes used"),
    STAT(lane_bytes_min, "page data sent on the lane that sent least"),
    STAT(lane_bytes_max, "page data sent on the lane that sent most"),
    {NULL, NULL, 0},
};

const struct rf_stat_name rf_round_stat_table[] = {
    ROUND(bytes, "page data sent"),
    ROUND(pages, "pages sent as data"),
    ROUND(zero_pages, "pages found to be zero"),
    ROUND(writes, "one-sided writes"),
    ROUND(duration_ns, "from the sync to the destination's word that all has arrived"),
    ROUND(scan_ns, "until the last slice of the sync was there"),
    ROUND(drain_ns, "from the last write to the destination's word that all has arrived"),
    ROUND(bytes_per_second, "page data over duration"),
    ROUND(dirty_bytes, "written by the guest while the round went on, as the next sync found (0 before that)"),
    ROUND(dirty_bytes_per_second, "the same over duration"),
    ROUND(wait_key_ns, "waited for a registration"),
    ROUND(wait_queue_ns, "waited for room on the lanes"),
    ROUND(wait_scan_ns, "waited for the next slice of the sync"),
    ROUND(wait_pace_ns, "waited because of max-bandwidth"),
    ROUND(suspect_pages, "pages looked at again after a drain point or the pause, for no other reason"),
    {NULL, NULL, 0},
};

uint64_t rf_per_second(uint64_t bytes, int64_t ns)
{
	return ns > 0 ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

void rf_stats_count(struct rf_stats *s, struct rf_fabric *f)
{
	struct rf_fabric_counters counters = {0};

	if (!f->ops->count)
		return;
	f->ops->count(f, &counters);
	s->fabric_registrations = counters.registrations;
	s->fabric_register_ns = counters.registration_ns;
	s->doorbells = counters.doorbells;
	s->completions = counters.completions;
}

int rf_stats_add_round(struct rf_stats *s, const struct rf_round_stats *round)
{
	struct rf_round_stats *more = realloc(s->rounds, (s->nrounds + 1) * sizeof(*more));
	if (!more)
		return -1;
	s->rounds = more;
	s->rounds[s->nrounds++] = *round;
	s->wait_key_ns += round->wait_key_ns;
	s->wait_queue_ns += round->wait_queue_ns;
	s->suspect_pages += round->suspect_pages;
	return 0;
}

void rf_stats_free(struct rf_stats *s)
{
	free(s->rounds);
	s->rounds = NULL;
	s->nrounds = 0;
}
