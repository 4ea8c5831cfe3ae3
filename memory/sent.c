// SPDX-License-Identifier: LGPL-2.1-or-later
/* Two pages of the same 64-bit hash: 1 in 1.8e19 per comparison. */
#include "memory/sent.h"

#include "memory/zero.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { COPY_PAGES = 4 };

static uint64_t hash_of(const void *page)
{
	return rf_page_is_zero(page) ? 0 : rf_page_hash(page);
}

static uint64_t last_sent(const struct rf_sent *s, unsigned block, uint64_t page)
{
	return __atomic_load_n(&s->hashes[block][page], __ATOMIC_RELAXED);
}

void rf_sent_close(struct rf_sent *s)
{
	for (unsigned i = 0; s->hashes && i < s->guest->nblocks; i++)
		if (s->hashes[i])
			munmap(s->hashes[i], s->guest->blocks[i]->npages * sizeof(uint64_t));
	free(s->hashes);
	*s = (struct rf_sent){0};
}

int rf_sent_open(struct rf_sent *s, const struct rf_guest *g, struct rf_error *e)
{
	*s = (struct rf_sent){.guest = g, .hashes = calloc(g->nblocks + 1, sizeof(*s->hashes))};
	if (!s->hashes)
		return rf_fail(e, RF_E_FAILED, "no memory for the hashes of %u blocks", g->nblocks);
	for (unsigned i = 0; i < g->nblocks; i++) {
		void *memory = mmap(NULL, g->blocks[i]->npages * sizeof(uint64_t), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (memory == MAP_FAILED)
			return rf_fail_errno(e, RF_E_FAILED, errno,
					     "block \"%s\": no memory for the hashes of its pages", g->blocks[i]->name);
		s->hashes[i] = memory;
	}
	return 0;
}

void rf_sent_note(struct rf_sent *s, unsigned block, struct rf_run run, const void *copy)
{
	const char *page = copy;

	for (uint64_t i = 0; i < run.count; i++, page += RF_PAGE_BYTES) {
		uint64_t hash = hash_of(page);

		/* Do not touch memory to write a 0 where a 0 is. */
		if (last_sent(s, block, run.first + i) != hash)
			__atomic_store_n(&s->hashes[block][run.first + i], hash, __ATOMIC_RELAXED);
	}
}

/* Through a copy that stays in the cache, as the guest's pages may be made up by a simulation. */
static void compare_data(const struct rf_sent *s, unsigned block, struct rf_run run, struct rf_pages *dirty)
{
	_Alignas(RF_PAGE_BYTES) char copy[COPY_PAGES][RF_PAGE_BYTES];
	struct rf_block *b = s->guest->blocks[block];
	uint64_t end = run.first + run.count;

	for (uint64_t page = run.first; page < end;) {
		struct rf_run piece = {page, end - page < COPY_PAGES ? end - page : COPY_PAGES};

		b->ops->copy(b, piece, copy);
		for (uint64_t i = 0; i < piece.count; i++, page++)
			if (hash_of(copy[i]) != last_sent(s, block, page))
				rf_pages_add(dirty, page, 1);
	}
}

static void compare_hole(const struct rf_sent *s, unsigned block, uint64_t first, uint64_t end, struct rf_pages *dirty)
{
	for (uint64_t page = first; page < end; page++)
		if (last_sent(s, block, page))
			rf_pages_add(dirty, page, 1);
}

int rf_sent_compare(const struct rf_sent *s, unsigned block, struct rf_run run, bool may_have_holes,
		    struct rf_pages *dirty, struct rf_error *e)
{
	struct rf_block *b = s->guest->blocks[block];
	uint64_t at = run.first, end = run.first + run.count;
	struct rf_pages data;
	struct rf_run part;

	if (!may_have_holes) {
		compare_data(s, block, run, dirty);
		return 0;
	}
	if (rf_pages_init(&data, b->npages, e))
		return -1;
	if (b->ops->extents(b, run, &data, e)) {
		rf_pages_free(&data);
		return -1;
	}
	while (rf_pages_next(&data, at, end, &part)) {
		compare_hole(s, block, at, part.first, dirty);
		compare_data(s, block, part, dirty);
		at = part.first + part.count;
	}
	compare_hole(s, block, at, end, dirty);
	rf_pages_free(&data);
	return 0;
}
