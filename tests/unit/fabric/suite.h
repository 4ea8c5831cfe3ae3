// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite: what fabric.h promises, tried on any fabric.
 *
 * A case is two roles, source and destination. Each runs on a thread of its own, sees nothing but its fabric, and learns
 * of the other side through messages only (so it also runs where threads take turns, as in sim). A role returns early
 * when something is not as promised, with the reason in its side; the case then fails with both reasons.
 *
 * A fabric joins by filling in a struct suite_fabric and calling suite_run(). */
#ifndef RAMFERRY_TESTS_UNIT_FABRIC_SUITE_H
#define RAMFERRY_TESTS_UNIT_FABRIC_SUITE_H

#include "fabric/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SUITE_PAGE = 4096 };

struct suite_side;

/* What the suite needs to know of one fabric. */
struct suite_fabric {
	const char *name;

	/* On two threads: open a fabric each with *config, make them one connected pair (the source connects), call
	 * suite_side_run(side, f), then at once, without waiting for the other side, f->ops->close(f). Returns when
	 * both threads have ended. false when no pair could be made, with the reason printed. */
	bool (*run_pair)(const struct suite_fabric *on, const struct rf_fabric_config *config,
			 struct suite_side *source, struct suite_side *destination);

	/* Memory that this fabric can move, page-aligned, whose pages hold stamp 0. */
	void *(*map)(const struct suite_fabric *on, size_t bytes);
	void (*unmap)(const struct suite_fabric *on, void *address, size_t bytes);

	/* Make a page hold what belongs to `stamp`; does it hold that? */
	void (*put)(const struct suite_fabric *on, void *page, uint64_t stamp);
	bool (*holds)(const struct suite_fabric *on, const void *page, uint64_t stamp);
};

/* Run the role that belongs to this side. Called by run_pair on the side's thread. */
void suite_side_run(struct suite_side *side, struct rf_fabric *f);

/* Parts of a struct suite_fabric whose pages are bytes of this process. */
void suite_bytes_put(const struct suite_fabric *on, void *page, uint64_t stamp);
bool suite_bytes_hold(const struct suite_fabric *on, const void *page, uint64_t stamp);
void suite_bytes_unmap(const struct suite_fabric *on, void *address, size_t bytes);

/* All cases as one cmocka group. The number that failed. */
int suite_run(const struct suite_fabric *on);

#endif
