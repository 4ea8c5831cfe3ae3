// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tracker "soft-dirty": the kernel's soft-dirty bits (soft_dirty.c), for kernels before 6.7 that were built with them.
 *
 * Bits are read page by page and cleared for a whole process, in two steps, and a write that falls between them would be lost. So
 * the guest is held still for both (rf_lifecycle_ops.hold). It must be the whole guest, with what writes on its behalf: a
 * SIGSTOP or a freezer stops the threads of QEMU, but neither a vhost worker nor the kernel's own I/O threads, which write
 * through the same page tables; QMP `stop` stops them all. It costs a few milliseconds per GiB for each sync.
 *
 * So a sync is one step for all slices: the collect() of whichever slice comes first *takes* the bits of all blocks into
 * `pending`, and the others are served from there. A slice that is asked for again before another take begins the next one. That is
 * what the contract of tracker.h wants as long as every sync asks for every slice once.
 *
 * What it cannot see, besides what wp-async cannot: the bits are in the page table entry and nowhere else, so they are
 * lost with it when the kernel takes a page of shared memory out of it: to swap it out, to write its file to a disk and take it
 * back, or to put a huge page in its place. With those it is never chosen by itself. Nor does it know hugetlbfs. Somebody else
 * who clears the bits of the same process (CRIU) takes them from us. */
#include "memory/huge.h"
#include "memory/soft_dirty.h"
#include "memory/tracker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

struct soft_dirty_block {
	struct rf_pages pending; /* written, and not collected */
	struct rf_pages served;  /* one bit a slice unit: asked for since the last take */
};

struct soft_dirty_tracker {
	struct rf_tracker tracker;
	int pagemap, clear_refs; /* of the process that maps the guest */
	pthread_mutex_t lock;    /* of the blocks */
	struct soft_dirty_block blocks[];
};

static struct soft_dirty_tracker *soft(struct rf_tracker *t)
{
	return (struct soft_dirty_tracker *)t;
}

/* ---- Can it serve? ---------------------------------------------------------------------------------------------------- */

static int soft_dirty_probe(struct rf_guest *g, struct rf_error *why)
{
	for (unsigned i = 0; i < g->nblocks; i++)
		if (g->blocks[i]->page_bytes > RF_PAGE_BYTES)
			return rf_fail(why, RF_E_REFUSED,
				       "block \"%s\" lies in hugetlbfs, which has no soft-dirty bits",
				       g->blocks[i]->name);
	if (g->nblocks && !g->ops->hold)
		return rf_fail(
		    why, RF_E_REFUSED,
		    "the program that runs the guest cannot hold it still while the bits are read and cleared");
	return rf_soft_dirty_self_test(why);
}

static bool swap_is_on(void)
{
	FILE *f = fopen("/proc/swaps", "re");
	char line[256];
	int lines = 0;

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	return lines > 1; /* the first is a heading */
}

static int soft_dirty_by_itself(struct rf_guest *g, struct rf_error *why)
{
	struct statfs fs;

	if (swap_is_on())
		return rf_fail(why, RF_E_REFUSED,
			       "swap is on, and soft-dirty bits of pages that are swapped out are lost");
	for (unsigned i = 0; i < g->nblocks; i++) {
		const struct rf_block *b = g->blocks[i];

		if (b->may_be_huge)
			return rf_fail(why, RF_E_REFUSED,
				       "block \"%s\" may get huge pages, which take soft-dirty bits away", b->name);
		if (b->fd >= 0 && (fstatfs(b->fd, &fs) || fs.f_type != TMPFS_MAGIC))
			return rf_fail(
			    why, RF_E_REFUSED,
			    "block \"%s\" lies in a file on a disk, and soft-dirty bits of pages that go back "
			    "there are lost",
			    b->name);
	}
	return 0;
}

/* ---- Opening and closing ---------------------------------------------------------------------------------------------- */

static int open_descriptors(struct soft_dirty_tracker *s, struct rf_error *e)
{
	struct rf_guest *g = s->tracker.guest;

	if (g->ops->open_soft_dirty)
		return g->ops->open_soft_dirty(g->ctx, &s->pagemap, &s->clear_refs, e);
	s->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (s->pagemap < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot open /proc/self/pagemap");
	s->clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (s->clear_refs < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot open /proc/self/clear_refs");
	return 0;
}

static int open_blocks(struct soft_dirty_tracker *s, struct rf_error *e)
{
	struct rf_guest *g = s->tracker.guest;

	for (unsigned i = 0; i < g->nblocks; i++) {
		uint64_t npages = g->blocks[i]->npages;

		if (rf_pages_init(&s->blocks[i].pending, npages, e) || rf_pages_init(&s->blocks[i].served, npages, e))
			return -1;
	}
	return 0;
}

static void soft_dirty_close(struct rf_tracker *t)
{
	struct soft_dirty_tracker *s = soft(t);

	for (unsigned i = 0; i < t->guest->nblocks; i++) {
		rf_pages_free(&s->blocks[i].pending);
		rf_pages_free(&s->blocks[i].served);
	}
	if (s->pagemap >= 0)
		close(s->pagemap);
	if (s->clear_refs >= 0)
		close(s->clear_refs);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int take(struct soft_dirty_tracker *s, struct rf_error *e);

static int soft_dirty_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct soft_dirty_tracker *s = calloc(1, sizeof(*s) + g->nblocks * sizeof(s->blocks[0]));

	if (!s)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	s->tracker = (struct rf_tracker){.ops = &rf_track_soft_dirty, .guest = g};
	s->pagemap = s->clear_refs = -1;
	pthread_mutex_init(&s->lock, NULL);
	if (open_descriptors(s, e) || open_blocks(s, e) || take(s, e)) {
		soft_dirty_close(&s->tracker);
		return -1;
	}
	*out = &s->tracker;
	return 0;
}

/* ---- Tracking --------------------------------------------------------------------------------------------------------- */

static int read_bits(struct soft_dirty_tracker *s, struct rf_error *e)
{
	struct rf_guest *g = s->tracker.guest;

	for (unsigned i = 0; i < g->nblocks; i++) {
		struct rf_block *b = g->blocks[i];

		if (rf_soft_dirty_read(s->pagemap, b->guest_address, (struct rf_run){0, b->npages},
				       &s->blocks[i].pending, e))
			return rf_wrap(e, "block \"%s\"", b->name);
	}
	return 0;
}

/* Read, and then clear, while the guest stands still. It goes on whatever fails. */
static int take(struct soft_dirty_tracker *s, struct rf_error *e)
{
	struct rf_guest *g = s->tracker.guest;
	struct rf_error release;

	if (g->ops->hold(g->ctx, true, e))
		return rf_wrap(e, "the guest cannot be held still for its soft-dirty bits");
	int result = read_bits(s, e) || rf_soft_dirty_clear(s->clear_refs, e) ? -1 : 0;

	if (g->ops->hold(g->ctx, false, &release)) {
		*e = release;
		return rf_wrap(e, "the guest stands still and does not go on");
	}
	for (unsigned i = 0; !result && i < g->nblocks; i++)
		rf_pages_remove(&s->blocks[i].served, 0, g->blocks[i]->npages);
	return result;
}

/* Move what is pending in the slice to `dirty` (NULL: nowhere). */
static int serve(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty, struct rf_error *e)
{
	struct soft_dirty_tracker *s = soft(t);
	struct soft_dirty_block *b = &s->blocks[block];
	int result = 0;

	pthread_mutex_lock(&s->lock);
	if (rf_pages_has(&b->served, slice.first))
		result = take(s, e);
	if (!result) {
		rf_pages_add(&b->served, slice.first, 1);
		if (dirty)
			rf_pages_unite(dirty, &b->pending, slice.first, slice.count);
		rf_pages_remove(&b->pending, slice.first, slice.count);
	}
	pthread_mutex_unlock(&s->lock);
	return result;
}

static int soft_dirty_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	return serve(t, block, slice, NULL, e);
}

static int soft_dirty_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			      struct rf_error *e)
{
	return serve(t, block, slice, dirty, e);
}

/* Nothing to do: the next write of a page takes a last fault, and then the kernel has forgotten. */
static void soft_dirty_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
}

const struct rf_tracker_ops rf_track_soft_dirty = {
    .name = "soft-dirty",
    .probe = soft_dirty_probe,
    .by_itself = soft_dirty_by_itself,
    .open = soft_dirty_open,
    .arm = soft_dirty_arm,
    .collect = soft_dirty_collect,
    .drop = soft_dirty_drop,
    .close = soft_dirty_close,
};
