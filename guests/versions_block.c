// SPDX-License-Identifier: LGPL-2.1-or-later
/* Blocks of versions, as the engine sees them and as a simulated fabric moves them. */
#include "guests/versions.h"

#include "common/checked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct rf_versions_block *of(const struct rf_block *b)
{
	return (struct rf_versions_block *)b;
}

/* A real guest's memory would be allocated by that, without anybody noticing. */
static void no_holes(const struct rf_versions_block *b, uint64_t first, uint64_t count, const char *what)
{
	if (rf_pages_count(&b->present, first, count) != count)
		rf_versions_violate(b->guest, "%s reads a hole in pages %llu to %llu", what, (unsigned long long)first,
				    (unsigned long long)(first + count - 1));
}

static int versions_extents(const struct rf_block *b, struct rf_run range, struct rf_pages *data, struct rf_error *e)
{
	rf_pages_unite(data, &of(b)->present, range.first, range.count);
	return 0;
}

static void versions_find_zero(const struct rf_block *b, struct rf_run range, struct rf_pages *zero)
{
	uint64_t page;

	no_holes(of(b), range.first, range.count, "the zero test");
	for (page = range.first; page < range.first + range.count; page++)
		if (!of(b)->version[page])
			rf_pages_add(zero, page, 1);
}

static void versions_copy(const struct rf_block *b, struct rf_run range, void *to)
{
	uint64_t i;

	no_holes(of(b), range.first, range.count, "a copy");
	memset(to, 0, range.count << RF_PAGE_SHIFT);
	for (i = 0; i < range.count; i++)
		memcpy((char *)to + (i << RF_PAGE_SHIFT), &of(b)->version[range.first + i], sizeof(uint32_t));
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A sum over the pages that are not zero, so that holes and zeros are the same. */
static int versions_digest(const struct rf_block *b, struct rf_run range, struct rf_digest *out, struct rf_error *e)
{
	uint64_t page, h;

	*out = (struct rf_digest){0, 0};
	for (page = range.first; page < range.first + range.count; page++) {
		if (!of(b)->version[page])
			continue;
		h = mix(page << 32 | of(b)->version[page]);
		out->low += h;
		out->high += mix(h);
	}
	return 0;
}

static int versions_clear(struct rf_block *b, struct rf_run range, bool keep, struct rf_error *e)
{
	uint64_t page;

	if (of(b)->guest->calls[RF_VERSIONS_LOAD])
		rf_versions_violate(of(b)->guest, "memory is cleared after the state was loaded");
	for (page = range.first; page < range.first + range.count; page++)
		of(b)->version[page] = 0;
	if (!keep)
		rf_pages_remove(&of(b)->present, range.first, range.count);
	return 0;
}

static void versions_close(struct rf_block *b)
{
	struct rf_versions_block *v = of(b);

	if (v->version)
		munmap(v->version, b->npages * sizeof(uint32_t));
	if (v->at_pause)
		munmap(v->at_pause, b->npages * sizeof(uint32_t));
	rf_pages_free(&v->present);
	rf_pages_free(&v->armed);
	rf_pages_free(&v->dirty);
	free(v);
}

const struct rf_block_ops rf_versions_block_ops = {
    .extents = versions_extents,
    .find_zero = versions_find_zero,
    .copy = versions_copy,
    .digest = versions_digest,
    .clear = versions_clear,
    .close = versions_close,
};

/* ---- for a simulated fabric ---------------------------------------------------------------------------------------- */

/* The block that holds the address, or NULL. */
static struct rf_versions_block *block_at(const struct rf_versions *g, uint64_t address, uint64_t length,
					  uint64_t *page)
{
	struct rf_versions_block *b;
	uint64_t begin;
	unsigned i;

	for (i = 0; i < g->spec.nblocks; i++) {
		b = g->blocks[i];
		begin = b->block.guest_address;
		if (address < begin || !rf_range_within(address - begin, length, b->block.npages << RF_PAGE_SHIFT))
			continue;
		*page = (address - begin) >> RF_PAGE_SHIFT;
		return b;
	}
	return NULL;
}

size_t rf_versions_image_size(void *guest, uint64_t length)
{
	if (length % RF_PAGE_BYTES)
		rf_versions_violate(guest, "a write of %llu bytes, which is not whole pages",
				    (unsigned long long)length);
	return (length >> RF_PAGE_SHIFT) * sizeof(uint32_t);
}

void rf_versions_load_image(void *guest, const void *local, uint64_t length, void *image)
{
	struct rf_versions_block *b;
	uint64_t page, i, count = length >> RF_PAGE_SHIFT;

	b = block_at(guest, (uint64_t)(uintptr_t)local, length, &page);
	if (b) {
		/* Writes of the last round are still under way when the guest pauses, and so discards. */
		if (!b->guest->calls[RF_VERSIONS_PAUSE] || b->guest->calls[RF_VERSIONS_SAVE])
			no_holes(b, page, count, "a write");
		b->guest->direct_pages += count;
		memcpy(image, &b->version[page], count * sizeof(uint32_t));
		return;
	}
	((struct rf_versions *)guest)->staged_pages += count;
	for (i = 0; i < count; i++)
		memcpy((uint32_t *)image + i, (const char *)local + (i << RF_PAGE_SHIFT), sizeof(uint32_t));
}

void rf_versions_store_image(void *guest, uint64_t remote, uint64_t length, const void *image)
{
	struct rf_versions *g = guest;
	struct rf_versions_block *b;
	uint64_t page, count = length >> RF_PAGE_SHIFT;

	b = block_at(g, remote, length, &page);
	if (!b) {
		rf_versions_violate(g, "a write lands outside all blocks, at %#llx", (unsigned long long)remote);
		return;
	}
	if (g->calls[RF_VERSIONS_LOAD] || g->running)
		rf_versions_violate(g, "a write lands after the state was loaded");
	memcpy(&b->version[page], image, count * sizeof(uint32_t));
	rf_pages_add(&b->present, page, count);
}
