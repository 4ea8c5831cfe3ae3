// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tracker "hash": works anywhere, asks the kernel for nothing, and reads all of the guest's data at each sync.
 *
 * It remembers, per page, the hash of the copy that was last sent: 8 bytes a page, 1/512 of the data. 0 stands for a page of
 * zeros, which is what the emptied destination has before anything is sent; so memory of the kernel that nobody touched says
 * the right thing, and a page that becomes zero or a hole again after it was sent counts as written.
 *
 * It must hash what was sent and not the guest's page: a write between sending and hashing would never be noticed. Hence
 * `staged`. A page that changes while collect() reads it hashes to something of no moment; whichever way that compares,
 * the write began after the call did, and the next one sees it. Two pages of the same 64-bit hash: 1 in 1.8e19 per
 * comparison. */
#include "memory/tracker.h"
#include "memory/zero.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { COPY_PAGES = 4 };

struct hash_tracker {
	struct rf_tracker tracker;
	uint64_t *sent[]; /* per block, per page */
};

static uint64_t *sent_of(struct rf_tracker *t, unsigned block)
{
	return ((struct hash_tracker *)t)->sent[block];
}

static uint64_t hash_of(const void *page)
{
	return rf_page_is_zero(page) ? 0 : rf_page_hash(page);
}

static int hash_probe(struct rf_guest *g, struct rf_error *why)
{
	return 0;
}

static void hash_close(struct rf_tracker *t)
{
	for (unsigned i = 0; i < t->guest->nblocks; i++)
		if (sent_of(t, i))
			munmap(sent_of(t, i), t->guest->blocks[i]->npages * sizeof(uint64_t));
	free(t);
}

static int hash_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct hash_tracker *h = calloc(1, sizeof(*h) + g->nblocks * sizeof(h->sent[0]));

	if (!h)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	h->tracker = (struct rf_tracker){.ops = &rf_track_hash, .guest = g};
	for (unsigned i = 0; i < g->nblocks; i++) {
		void *memory = mmap(NULL, g->blocks[i]->npages * sizeof(uint64_t), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (memory == MAP_FAILED) {
			rf_fail_errno(e, RF_E_FAILED, errno, "block \"%s\": no memory for the hashes of its pages",
				      g->blocks[i]->name);
			hash_close(&h->tracker);
			return -1;
		}
		h->sent[i] = memory;
	}
	*out = &h->tracker;
	return 0;
}

/* Nothing to do: what round 0 does not send is known to be zero over there, and shows as different otherwise. */
static int hash_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	return 0;
}

/* Through a copy that stays in the cache, as the guest's pages may be made up by a simulation. */
static void collect_data(struct rf_tracker *t, unsigned block, struct rf_run run, struct rf_pages *dirty)
{
	_Alignas(RF_PAGE_BYTES) char copy[COPY_PAGES][RF_PAGE_BYTES];
	struct rf_block *b = t->guest->blocks[block];
	const uint64_t *sent = sent_of(t, block);
	uint64_t end = run.first + run.count;

	for (uint64_t page = run.first; page < end;) {
		struct rf_run piece = {page, end - page < COPY_PAGES ? end - page : COPY_PAGES};

		b->ops->copy(b, piece, copy);
		for (uint64_t i = 0; i < piece.count; i++, page++)
			if (hash_of(copy[i]) != __atomic_load_n(&sent[page], __ATOMIC_RELAXED))
				rf_pages_add(dirty, page, 1);
	}
}

static void collect_hole(struct rf_tracker *t, unsigned block, uint64_t first, uint64_t end, struct rf_pages *dirty)
{
	const uint64_t *sent = sent_of(t, block);

	for (uint64_t page = first; page < end; page++)
		if (__atomic_load_n(&sent[page], __ATOMIC_RELAXED))
			rf_pages_add(dirty, page, 1);
}

static int hash_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			struct rf_error *e)
{
	struct rf_block *b = t->guest->blocks[block];
	uint64_t at = slice.first, end = slice.first + slice.count;
	struct rf_pages data;
	struct rf_run run;

	if (rf_pages_init(&data, b->npages, e))
		return -1;
	if (b->ops->extents(b, slice, &data, e)) {
		rf_pages_free(&data);
		return -1;
	}
	while (rf_pages_next(&data, at, end, &run)) {
		collect_hole(t, block, at, run.first, dirty);
		collect_data(t, block, run, dirty);
		at = run.first + run.count;
	}
	collect_hole(t, block, at, end, dirty);
	rf_pages_free(&data);
	return 0;
}

static void hash_sent(struct rf_tracker *t, unsigned block, struct rf_run run, const void *copy)
{
	uint64_t *sent = sent_of(t, block);
	const char *page = copy;

	for (uint64_t i = 0; i < run.count; i++, page += RF_PAGE_BYTES) {
		uint64_t hash = hash_of(page);

		/* Do not touch memory to write a 0 where a 0 is. */
		if (__atomic_load_n(&sent[run.first + i], __ATOMIC_RELAXED) != hash)
			__atomic_store_n(&sent[run.first + i], hash, __ATOMIC_RELAXED);
	}
}

static void hash_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
}

const struct rf_tracker_ops rf_track_hash = {
    .name = "hash",
    .staged = true,
    .sees_devices = true,
    .probe = hash_probe,
    .open = hash_open,
    .arm = hash_arm,
    .collect = hash_collect,
    .sent = hash_sent,
    .drop = hash_drop,
    .close = hash_close,
};
