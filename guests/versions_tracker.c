// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which pages were written: exact, and atomic because nothing else runs meanwhile. */
#include "guests/versions.h"

#include <stdlib.h>

static struct rf_versions *of(struct rf_guest *g)
{
	return g->ctx;
}

static int versions_probe(struct rf_guest *g, struct rf_error *why)
{
	return 0;
}

static int versions_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct rf_tracker *t = calloc(1, sizeof(*t));

	if (!t)
		return rf_fail(e, RF_E_FAILED, "no memory for a tracker");
	t->ops = &rf_versions_tracker;
	t->guest = g;
	of(g)->tracking = true;
	*out = t;
	return 0;
}

static struct rf_versions_block *slice_of(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
	struct rf_versions *g = of(t->guest);

	if (block >= g->spec.nblocks || slice.first % RF_SLICE_PAGES ||
	    slice.first + slice.count > g->blocks[block]->block.npages)
		rf_versions_violate(g, "a slice that is none: block %u, page %llu, %llu pages", block,
				    (unsigned long long)slice.first, (unsigned long long)slice.count);
	return g->blocks[block];
}

static int versions_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	struct rf_versions_block *b = slice_of(t, block, slice);

	rf_pages_add(&b->armed, slice.first, slice.count);
	rf_pages_remove(&b->dirty, slice.first, slice.count);
	return 0;
}

static int versions_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			    struct rf_error *e)
{
	struct rf_versions_block *b = slice_of(t, block, slice);

	if (rf_pages_count(&b->armed, slice.first, slice.count) != slice.count)
		rf_versions_violate(of(t->guest), "a slice is collected that was not armed");
	rf_pages_unite(dirty, &b->dirty, slice.first, slice.count);
	rf_pages_remove(&b->dirty, slice.first, slice.count);
	return 0;
}

static void versions_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
	struct rf_versions_block *b = slice_of(t, block, slice);

	rf_pages_remove(&b->armed, slice.first, slice.count);
}

static void versions_close(struct rf_tracker *t)
{
	struct rf_versions *g = of(t->guest);
	unsigned i;

	for (i = 0; i < g->spec.nblocks; i++)
		if (rf_pages_count(&g->blocks[i]->armed, 0, g->blocks[i]->block.npages))
			rf_versions_violate(g, "the tracker is closed while it tracks");
	g->tracking = false;
	free(t);
}

const struct rf_tracker_ops rf_versions_tracker = {
    .name = "versions",
    .probe = versions_probe,
    .open = versions_open,
    .arm = versions_arm,
    .collect = versions_collect,
    .drop = versions_drop,
    .close = versions_close,
};
