// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which pages were written since I last asked?
 *
 * The contract that the guest's safety rests on: a page that collect() does not report has not changed since the last
 * arm() or collect() of that page *began*; so whoever reads the page after that call returned, and reads it again whenever
 * it is reported, ends with what the guest wrote. Reporting and arming again are one atomic step per page.
 *
 * arm, collect and drop work on a slice (a range of one block that starts at a multiple of RF_SLICE_PAGES); several
 * slices may be worked on at once by different threads. All are armed, and each sync collects each of them once: a tracker
 * may find out about all of them when it is asked for the first. */
#ifndef RAMFERRY_MEMORY_TRACKER_H
#define RAMFERRY_MEMORY_TRACKER_H

#include "memory/guest.h"

struct rf_tracker {
	const struct rf_tracker_ops *ops;
	struct rf_guest *guest;
};

struct rf_tracker_ops {
	const char *name;

	/* What is sent must be the copy that sent() was told about, not the guest's page itself. */
	bool staged;

	/* It compares what is there, and so finds at its last collect() also what devices have written behind the page tables'
	 * back (rf_guest.needs_drain). The others tell of that at its beginning only, and must then tell of the page whatever
	 * it holds. */
	bool sees_devices;

	/* The same, for those who want no copies to be sent; NULL: it cannot do without. */
	const struct rf_tracker_ops *direct;

	/* Can it serve this guest on this kernel? -1 with one sentence that says why not. Touches nothing. */
	int (*probe)(struct rf_guest *g, struct rf_error *why);

	/* Where it can: may it be chosen without having been asked for by name? NULL: yes. */
	int (*by_itself)(struct rf_guest *g, struct rf_error *why);

	int (*open)(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e);

	/* Start tracking a slice. What was written before counts as not written. */
	int (*arm)(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e);

	/* Add to `dirty` the pages of the slice written since it was armed or last collected. */
	int (*collect)(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
		       struct rf_error *e);

	/* staged only: this copy of the run goes out now. */
	void (*sent)(struct rf_tracker *t, unsigned block, struct rf_run run, const void *copy);

	/* Stop tracking a slice, without a stall for the guest above some milliseconds. */
	void (*drop)(struct rf_tracker *t, unsigned block, struct rf_run slice);

	void (*close)(struct rf_tracker *t); /* after every slice was dropped, or when the guest is gone */
};

/* The first of wp-async, callback, soft-dirty, hash that can serve; or the named one or a sentence why not (RF_E_REFUSED).
 * `choice` is an enum rf_tracker_choice. Logs the choice and its reason. */
int rf_tracker_choose(struct rf_guest *g, unsigned choice, const struct rf_tracker_ops **out, struct rf_error *e);

/* Open the one that was chosen. With auto, one that turns out not to be able to (QEMU may not be traced) gives way to hash,
 * which needs nothing of anybody; the log says why. */
int rf_tracker_open(struct rf_guest *g, unsigned choice, const struct rf_tracker_ops *chosen, struct rf_tracker **out,
		    struct rf_error *e);

extern const struct rf_tracker_ops rf_track_wp, rf_track_wp_huge, rf_track_soft_dirty, rf_track_hash, rf_track_callback;

#endif
