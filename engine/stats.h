// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is measured, by name. All numbers are uint64_t; units stand in the names. */
#ifndef RAMFERRY_ENGINE_STATS_H
#define RAMFERRY_ENGINE_STATS_H

#include "fabric/fabric.h"

#include <stddef.h>
#include <stdint.h>

struct rf_round_stats {
	uint64_t bytes;       /* page data written */
	uint64_t pages;       /* of 4 KiB */
	uint64_t zero_pages;  /* found to be zero: not sent, or told in a few bytes */
	uint64_t writes;      /* one-sided writes */
	uint64_t duration_ns; /* sync to ROUND_OK */
	uint64_t scan_ns;     /* until the last slice was collected */
	uint64_t drain_ns;    /* from the last write posted to ROUND_OK */
	uint64_t bytes_per_second;
	uint64_t dirty_bytes; /* written by the guest while the round went on */
	uint64_t dirty_bytes_per_second;
	uint64_t wait_key_ns;   /* nothing to do but wait for a registration */
	uint64_t wait_queue_ns; /* … for room on the lanes */
	uint64_t wait_scan_ns;  /* … for the next slice of the scan */
	uint64_t wait_pace_ns;  /* … because of max-bandwidth */
	uint64_t suspect_pages; /* looked at again because of a drain point */
};

struct rf_stats {
	uint64_t setup_ns;              /* connected until round 0 begins */
	uint64_t total_ns;              /* connected until it runs at the destination */
	uint64_t downtime_ns;           /* from the guest's stop to its run at the other side */
	uint64_t predicted_downtime_ns; /* what was predicted when the decision to switch over was taken */
	uint64_t downtime_pause_ns;     /* parts of the downtime, in their order */
	uint64_t downtime_save_ns;
	uint64_t downtime_scan_ns;
	uint64_t downtime_final_pass_ns;
	uint64_t downtime_verify_ns;
	uint64_t downtime_load_ns;
	uint64_t downtime_hand_off_ns;
	uint64_t final_bytes_per_second;
	uint64_t state_bytes;       /* device state */
	uint64_t ram_total_bytes;   /* of all blocks */
	uint64_t ram_data_bytes;    /* extents at the start of round 0 */
	uint64_t transferred_bytes; /* everything handed to the fabric, messages included */
	uint64_t normal_bytes;      /* page data */
	uint64_t normal_pages;
	uint64_t duplicate_pages;  /* zero pages */
	uint64_t dirty_sync_count; /* syncs, the first scan not counted */
	uint64_t drain_points;     /* the pause not counted */
	uint64_t drain_point_ns;   /* the guest stood still for them */
	uint64_t suspect_pages;    /* of all rounds that have ended */
	uint64_t page_bytes;       /* 4096 */
	uint64_t registrations;
	uint64_t registered_bytes;
	uint64_t register_ns; /* sum over all, asked to ready */
	uint64_t released_registrations;
	uint64_t failed_registrations;
	uint64_t fabric_registrations;       /* that succeeded on this side … */
	uint64_t fabric_register_ns;         /* … and the time they took, added up over workers */
	uint64_t wait_key_ns, wait_queue_ns; /* of all rounds that have ended */
	uint64_t doorbells, completions;     /* of this side's card */
	uint64_t lane_bytes_min, lane_bytes_max;
	uint64_t lanes;
	struct rf_round_stats *rounds; /* that have ended */
	size_t nrounds;
};

struct rf_stat_name {
	const char *name, *help;
	size_t offset;
};

/* The tables behind rf_stat_name() and rf_round_stat_name(); they end with a NULL name. */
extern const struct rf_stat_name rf_stat_table[], rf_round_stat_table[];

uint64_t rf_per_second(uint64_t bytes, int64_t ns); /* 0 over no time */

/* What the fabric has counted, where it counts. */
void rf_stats_count(struct rf_stats *s, struct rf_fabric *f);

int rf_stats_add_round(struct rf_stats *s, const struct rf_round_stats *round); /* -1: no memory */
void rf_stats_free(struct rf_stats *s);

#endif
