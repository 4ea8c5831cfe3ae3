// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared by the two faces of wp-async: track_wp.c, and track_wp_huge.c on top of it. */
#ifndef RAMFERRY_MEMORY_TRACK_WP_H
#define RAMFERRY_MEMORY_TRACK_WP_H

#include "memory/tracker.h"

struct rf_wp_tracker {
	struct rf_tracker tracker;
	int userfaultfd; /* of the process that maps the guest */
	int pagemap;
	unsigned registered; /* the first blocks of the guest */
};

/* An open one in memory that the caller has allocated; closing does not free it. */
int rf_wp_tracker_open(struct rf_wp_tracker *w, const struct rf_tracker_ops *ops, struct rf_guest *g,
		       struct rf_error *e);
void rf_wp_tracker_close(struct rf_wp_tracker *w); /* also after a failed open */

#endif
