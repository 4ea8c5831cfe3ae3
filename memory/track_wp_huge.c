// SPDX-License-Identifier: LGPL-2.1-or-later
/* wp-async for guests in huge pages, where one byte written makes 2 MiB dirty, and a thousand of them two gigabytes.
 *
 * The pages of 4 KiB in a dirty huge page are compared with what was last sent of them (sent.h), and only those that differ are
 * reported. The kernel has protected the huge page again before it is read: whatever is written while it is compared makes it
 * dirty for the next collect, so the contract of tracker.h holds. What it costs: pages go out by way of a staging ring, 8 bytes
 * of memory a page, and reading each huge page that was written to, which is several times as fast as any wire here.
 *
 * Not for guests whose devices write behind the page tables' back (rf_guest.needs_drain): of such a write the kernel tells when
 * it begins, and the page that it tells of differs only when it has ended. There huge pages are sent whole. */
#include "memory/huge.h"
#include "memory/sent.h"
#include "memory/track_wp.h"

#include "common/checked.h"

#include <stdlib.h>

struct huge_tracker {
	struct rf_wp_tracker wp;
	struct rf_sent sent;
};

static struct huge_tracker *of(struct rf_tracker *t)
{
	return (struct huge_tracker *)t;
}

static int huge_probe(struct rf_guest *g, struct rf_error *why)
{
	return rf_track_wp.probe(g, why);
}

static void huge_close(struct rf_tracker *t)
{
	rf_wp_tracker_close(&of(t)->wp);
	rf_sent_close(&of(t)->sent);
	free(t);
}

static int huge_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct huge_tracker *h = calloc(1, sizeof(*h));

	if (!h)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	if (rf_wp_tracker_open(&h->wp, &rf_track_wp_huge, g, e) || rf_sent_open(&h->sent, g, e)) {
		huge_close(&h->wp.tracker);
		return -1;
	}
	*out = &h->wp.tracker;
	return 0;
}

static int huge_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	return rf_track_wp.arm(t, block, slice, e);
}

/* What was told of in whole huge pages is looked into; the rest of the run was told of page by page. A guest that wrote all pages of
 * one singly is asked for nothing but time. */
static int take_run(struct rf_tracker *t, unsigned block, struct rf_run run, struct rf_pages *dirty, struct rf_error *e)
{
	const struct rf_block *b = t->guest->blocks[block];
	/* Huge pages lie where the file's offset is a multiple of their size. */
	uint64_t lead = (b->fd_offset >> RF_PAGE_SHIFT) % RF_HUGE_PAGES, end = run.first + run.count;
	uint64_t first = rf_round_up(run.first + lead, RF_HUGE_PAGES) - lead;
	uint64_t last = (end + lead) / RF_HUGE_PAGES * RF_HUGE_PAGES;

	if (last < first + lead + RF_HUGE_PAGES) {
		rf_pages_add(dirty, run.first, run.count);
		return 0;
	}
	last -= lead;
	rf_pages_add(dirty, run.first, first - run.first);
	rf_pages_add(dirty, last, end - last);
	return rf_sent_compare(&of(t)->sent, block, (struct rf_run){first, last - first}, t->guest->may_discard, dirty,
			       e);
}

static int huge_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			struct rf_error *e)
{
	struct rf_block *b = t->guest->blocks[block];
	uint64_t end = slice.first + slice.count;
	struct rf_pages told;
	struct rf_run run;
	int result;

	if (!b->may_be_huge)
		return rf_track_wp.collect(t, block, slice, dirty, e);
	if (rf_pages_init(&told, b->npages, e))
		return -1;
	result = rf_track_wp.collect(t, block, slice, &told, e);
	for (uint64_t at = slice.first; !result && rf_pages_next(&told, at, end, &run); at = run.first + run.count)
		result = take_run(t, block, run, dirty, e);
	rf_pages_free(&told);
	return result;
}

static void huge_sent(struct rf_tracker *t, unsigned block, struct rf_run run, const void *copy)
{
	if (t->guest->blocks[block]->may_be_huge)
		rf_sent_note(&of(t)->sent, block, run, copy);
}

static void huge_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
	rf_track_wp.drop(t, block, slice);
}

const struct rf_tracker_ops rf_track_wp_huge = {
    .name = "wp-async",
    .staged = true,
    .direct = &rf_track_wp,
    .probe = huge_probe,
    .open = huge_open,
    .arm = huge_arm,
    .collect = huge_collect,
    .sent = huge_sent,
    .drop = huge_drop,
    .close = huge_close,
};
