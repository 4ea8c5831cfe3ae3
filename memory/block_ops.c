// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is done with the pages of a block of real memory. Holes are never touched through the mapping: each operation
 * that could meet one asks for the extents first. */
#include "common/checked.h"
#include "memory/block_real.h"
#include "memory/zero.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void rf_real_find_zero(const struct rf_block *b, struct rf_run range, struct rf_pages *zero)
{
	uint64_t end = range.first + range.count;

	for (uint64_t page = range.first; page < end; page++) {
		uint64_t first = page;

		while (page < end && rf_page_is_zero(rf_block_at(b, page)))
			page++;
		if (page > first)
			rf_pages_add(zero, first, page - first);
	}
}

void rf_real_copy(const struct rf_block *b, struct rf_run range, void *to)
{
	memcpy(to, rf_block_at(b, range.first), range.count << RF_PAGE_SHIFT);
}

/* The hash runs over (page number, bytes) of each page that is not zero, so it says where bytes are, too. */
static void digest_pages(const struct rf_block *b, struct rf_run run, XXH3_state_t *state)
{
	for (uint64_t page = run.first; page < run.first + run.count; page++) {
		const void *bytes = rf_block_at(b, page);

		if (rf_page_is_zero(bytes))
			continue;
		XXH3_128bits_update(state, &page, sizeof(page));
		XXH3_128bits_update(state, bytes, RF_PAGE_BYTES);
	}
}

int rf_real_digest(const struct rf_block *b, struct rf_run range, struct rf_digest *out, struct rf_error *e)
{
	uint64_t end = range.first + range.count;
	struct rf_pages data;
	struct rf_run run;
	XXH3_state_t state;

	if (rf_pages_init(&data, b->npages, e))
		return -1;
	if (rf_real_extents(b, range, &data, e)) {
		rf_pages_free(&data);
		return -1;
	}
	XXH3_INITSTATE(&state);
	XXH3_128bits_reset(&state);
	for (uint64_t at = range.first; rf_pages_next(&data, at, end, &run); at = run.first + run.count)
		digest_pages(b, run, &state);
	rf_pages_free(&data);
	XXH128_hash_t hash = XXH3_128bits_digest(&state);

	*out = (struct rf_digest){.low = hash.low64, .high = hash.high64};
	return 0;
}

/* Overwrite what is there. Pages that are zero already stay untouched, so that clearing makes no page dirty for nothing. */
static int overwrite(struct rf_block *b, struct rf_run range, struct rf_error *e)
{
	uint64_t end = range.first + range.count;
	struct rf_pages data;
	struct rf_run run;

	if (rf_pages_init(&data, b->npages, e))
		return -1;
	if (rf_real_extents(b, range, &data, e)) {
		rf_pages_free(&data);
		return -1;
	}
	for (uint64_t at = range.first; rf_pages_next(&data, at, end, &run); at = run.first + run.count)
		for (uint64_t page = run.first; page < run.first + run.count; page++)
			if (!rf_page_is_zero(rf_block_at(b, page)))
				memset(rf_block_at(b, page), 0, RF_PAGE_BYTES);
	rf_pages_free(&data);
	return 0;
}

/* Give pages back to the kernel; false: it cannot be done here. */
static bool punch(struct rf_block *b, struct rf_run range)
{
	if (b->fd < 0)
		return !madvise(rf_block_at(b, range.first), range.count << RF_PAGE_SHIFT, MADV_REMOVE);
	return !fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(b->fd_offset + (range.first << RF_PAGE_SHIFT)),
			  (off_t)(range.count << RF_PAGE_SHIFT));
}

int rf_real_clear(struct rf_block *b, struct rf_run range, bool keep, struct rf_error *e)
{
	uint64_t unit = b->page_bytes >> RF_PAGE_SHIFT, end = range.first + range.count;
	uint64_t first = rf_round_up(range.first, unit), last = end & ~(unit - 1);

	/* Only whole pages of the file can be given back; kernels before 5.19 leave the bytes of the others alone. A
	 * file system without holes gets zeros, too. */
	if (keep || first >= last || !punch(b, (struct rf_run){first, last - first}))
		return overwrite(b, range, e);
	if (overwrite(b, (struct rf_run){range.first, first - range.first}, e))
		return -1;
	return overwrite(b, (struct rf_run){last, end - last}, e);
}
