// SPDX-License-Identifier: LGPL-2.1-or-later
/* A sync: finding out, in slices and by several workers, which pages are to be sent.
 *
 * A slice is collected from the tracker (or, in round 0, from the block's extents) and at once sorted into pages to send
 * and pages that are zero. Slices come back in any order and are handed on in order, so writing starts while later
 * slices are still being scanned. Only the order per page matters: a page is collected before it is read.
 *
 * A tracker that works on page tables hears of a device's write when it begins, and never again until it ends. So where the
 * guest has such devices, what is collected is also suspect: after the next drain point, at which all these writes have
 * ended, it is sent again. What begins after a drain point is found by a later collect, for a page that was collected is
 * armed.
 *
 * Threads: a worker changes the sets of its own slice only, the engine's thread only those of slices that are ready. */
#ifndef RAMFERRY_ENGINE_SCAN_H
#define RAMFERRY_ENGINE_SCAN_H

#include "engine/peer.h"
#include "memory/pages.h"

enum { RF_SCAN_SLICE_PAGES = 4 * RF_SLICE_PAGES }; /* 64 MiB */

struct rf_sets { /* of one block */
	struct rf_pages to_send;
	struct rf_pages zero;      /* to be told as ZERO: the destination may hold something else there */
	struct rf_pages ever_sent; /* the destination may hold something else than zeros */
	struct rf_pages suspect;   /* collected since the last drain point: a device may still be writing there */
	struct rf_pages scratch;   /* of the worker that has the slice */
};

enum rf_scan_kind {
	RF_SCAN_ARM,     /* start tracking */
	RF_SCAN_EXTENTS, /* round 0: everything that holds data */
	RF_SCAN_COLLECT, /* what was written since */
	RF_SCAN_SUSPECT, /* what a drain point has made sure of, and nothing newer */
	RF_SCAN_HOLES,   /* what became a hole without a write; its ZEROs are told with the next COLLECT */
	RF_SCAN_DROP,    /* stop tracking */
};

struct rf_scan_job;

struct rf_scan {
	struct rf_peer *peer;
	struct rf_guest *guest;
	struct rf_tracker *tracker;
	struct rf_sets *sets;  /* per block */
	uint64_t *first_slice; /* per block, and one more */
	struct rf_scan_job *jobs, *free_jobs;

	bool suspicious; /* the guest has writers that the tracker sees only when they begin */
	bool drained;    /* a drain point was taken, and what was suspect has not joined a scan yet */
	bool joining;    /* … joins this one */

	enum rf_scan_kind kind;
	uint8_t *finished;                 /* per slice */
	uint64_t submitted, ready, slices; /* of this scan; `ready` is a prefix */
	uint64_t data_pages;               /* extents, in round 0 */
	uint64_t dirty_pages;              /* to send and zero together */
	uint64_t send_pages;               /* to send, of ready slices */
	uint64_t zero_pages;
	uint64_t joined_pages;        /* that were suspect and are looked at again for no other reason */
	uint64_t suspect_pages;       /* after it */
	int64_t started_ns, ended_ns; /* ended: 0 while it goes on */
	struct rf_error failed;       /* code RF_E_NONE: not */
};

int rf_scan_open(struct rf_scan *s, struct rf_peer *peer, struct rf_tracker *tracker, struct rf_error *e);
void rf_scan_free(struct rf_scan *s); /* no jobs may be under way */

/* Start a scan over everything. The last one has ended. */
void rf_scan_start(struct rf_scan *s, enum rf_scan_kind kind);

/* A drain point was taken, between two scans: what is suspect joins the next one that collects. */
void rf_scan_drained(struct rf_scan *s);

/* Give work to the workers; to be called after every pump. -1: a slice failed. */
int rf_scan_feed(struct rf_scan *s, struct rf_error *e);
bool rf_scan_ended(const struct rf_scan *s);

/* Start it, and pump until it has ended. */
int rf_scan_all(struct rf_scan *s, enum rf_scan_kind kind, struct rf_error *e);

/* After a failure, when no job is under way any more: there is no scan. */
void rf_scan_stop(struct rf_scan *s);

/* The slice with this number. */
unsigned rf_scan_slice(const struct rf_scan *s, uint64_t slice, struct rf_run *run);
/* The first page of the block that is not ready yet; npages when all are. */
uint64_t rf_scan_ready_end(const struct rf_scan *s, unsigned block);

#endif
