// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tracker "wp-async": the kernel write-protects the guest's own mapping and lifts the protection at the first write
 * (wp.c). Works on any process whose userfaultfd we can get, also under KVM. A collect costs 2 to 4 ms per GiB of 4 KiB pages
 * and needs no memory of ours. Huge pages are reported whole; track_wp_huge.c looks into them. */
#include "memory/track_wp.h"
#include "memory/uffd.h"
#include "memory/wp.h"

#include <errno.h>
#include <stdlib.h>

static struct rf_wp_tracker *wp(struct rf_tracker *t)
{
	return (struct rf_wp_tracker *)t;
}

static int wp_probe(struct rf_guest *g, struct rf_error *why)
{
	for (unsigned i = 0; i < g->nblocks; i++)
		if (g->blocks[i]->page_bytes > 2 << 20)
			return rf_fail(why, RF_E_REFUSED,
				       "block \"%s\" has pages of 1 GiB, which are not tracked singly",
				       g->blocks[i]->name);
	return rf_wp_self_test(why);
}

static int open_descriptors(struct rf_wp_tracker *w, struct rf_error *e)
{
	struct rf_guest *g = w->tracker.guest;

	if (g->ops->open_tracking)
		return g->ops->open_tracking(g->ctx, &w->userfaultfd, &w->pagemap, e);
	w->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (w->pagemap < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot open /proc/self/pagemap");
	w->userfaultfd = rf_userfaultfd();
	if (w->userfaultfd < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "no userfaultfd can be had");
	return 0;
}

/* Whole blocks at once: registering slices one by one would cut the guest's mapping into pieces. */
static int register_blocks(struct rf_wp_tracker *w, struct rf_error *e)
{
	struct rf_guest *g = w->tracker.guest;

	for (unsigned i = 0; i < g->nblocks; i++) {
		struct rf_block *b = g->blocks[i];

		if (rf_wp_register(w->userfaultfd, b->guest_address, b->npages << RF_PAGE_SHIFT, e))
			return rf_wrap(e, "block \"%s\"", b->name);
		w->registered = i + 1;
	}
	return 0;
}

/* Whatever was not dropped is dropped now: closing the descriptor over much memory would stall a guest that lives on. */
void rf_wp_tracker_close(struct rf_wp_tracker *w)
{
	for (unsigned i = 0; i < w->registered; i++) {
		struct rf_block *b = w->tracker.guest->blocks[i];

		rf_wp_unregister(w->userfaultfd, b->guest_address, b->npages << RF_PAGE_SHIFT);
	}
	if (w->userfaultfd >= 0)
		close(w->userfaultfd);
	if (w->pagemap >= 0)
		close(w->pagemap);
}

int rf_wp_tracker_open(struct rf_wp_tracker *w, const struct rf_tracker_ops *ops, struct rf_guest *g,
		       struct rf_error *e)
{
	w->tracker = (struct rf_tracker){.ops = ops, .guest = g};
	w->userfaultfd = w->pagemap = -1;
	return open_descriptors(w, e) || rf_wp_handshake(w->userfaultfd, e) || register_blocks(w, e) ? -1 : 0;
}

static void wp_close(struct rf_tracker *t)
{
	rf_wp_tracker_close(wp(t));
	free(t);
}

static int wp_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct rf_wp_tracker *w = calloc(1, sizeof(*w));

	if (!w)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	if (rf_wp_tracker_open(w, &rf_track_wp, g, e)) {
		wp_close(&w->tracker);
		return -1;
	}
	*out = &w->tracker;
	return 0;
}

static int wp_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	struct rf_block *b = t->guest->blocks[block];

	if (rf_wp_check(wp(t)->pagemap, b->guest_address, slice, e) ||
	    rf_wp_collect(wp(t)->pagemap, b->guest_address, slice, NULL, e))
		return rf_wrap(e, "block \"%s\"", b->name);
	return 0;
}

static int wp_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
		      struct rf_error *e)
{
	struct rf_block *b = t->guest->blocks[block];

	if (rf_wp_collect(wp(t)->pagemap, b->guest_address, slice, dirty, e))
		return rf_wrap(e, "block \"%s\"", b->name);
	return 0;
}

static void wp_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
	struct rf_block *b = t->guest->blocks[block];

	rf_wp_unregister(wp(t)->userfaultfd, b->guest_address + (slice.first << RF_PAGE_SHIFT),
			 slice.count << RF_PAGE_SHIFT);
}

const struct rf_tracker_ops rf_track_wp = {
    .name = "wp-async",
    .probe = wp_probe,
    .open = wp_open,
    .arm = wp_arm,
    .collect = wp_collect,
    .drop = wp_drop,
    .close = wp_close,
};
