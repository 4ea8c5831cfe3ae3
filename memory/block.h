// SPDX-License-Identifier: LGPL-2.1-or-later
/* A block: one piece of guest RAM, and what can be done with its pages.
 *
 * All page content goes through rf_block_ops, so that a simulated guest can hold versions instead of bytes. Pages are
 * 4 KiB everywhere here; `page_bytes` is the size in which the mapping allocates (hugetlbfs). Operations block and run
 * on workers; several may run at once on different pages. Ranges come checked. */
#ifndef RAMFERRY_MEMORY_BLOCK_H
#define RAMFERRY_MEMORY_BLOCK_H

#include "common/error.h"
#include "memory/digest.h"
#include "memory/pages.h"

#include <stdbool.h>
#include <stdint.h>

enum { RF_BLOCK_NAME_BYTES = 256 };

struct rf_block;

struct rf_block_ops {
	/* Add to `data` every page of the range that holds data. What it leaves out is a hole: it reads as zero, and
	 * reading it through the mapping would allocate it. */
	int (*extents)(const struct rf_block *b, struct rf_run range, struct rf_pages *data, struct rf_error *e);

	/* Add to `zero` every page of the range whose bytes are all zero. The range holds data. */
	void (*find_zero)(const struct rf_block *b, struct rf_run range, struct rf_pages *zero);

	/* Copy the range to `to` (staging). */
	void (*copy)(const struct rf_block *b, struct rf_run range, void *to);

	/* Digest of the range; a hole and a page of zeros are the same, and holes stay holes. */
	int (*digest)(const struct rf_block *b, struct rf_run range, struct rf_digest *out, struct rf_error *e);

	/* Destination: make the range read as zero. `keep` is true where a registration may hold the pages: then they
	 * are overwritten, never punched, because writes through the registration would land in the old pages. */
	int (*clear)(struct rf_block *b, struct rf_run range, bool keep, struct rf_error *e);

	void (*close)(struct rf_block *b); /* frees b too */
};

struct rf_block {
	const struct rf_block_ops *ops;
	char name[RF_BLOCK_NAME_BYTES]; /* the same on both hosts */
	uint64_t npages;
	uint64_t page_bytes;    /* what the mapping allocates at once: 4 KiB, 2 MiB, 1 GiB */
	bool may_be_huge;       /* the kernel may map it in pages larger than 4 KiB (huge.h) */
	void *memory;           /* our mapping (or a made-up address range of a simulated guest) */
	uint64_t guest_address; /* where the process that runs the guest maps it; tracking works on that mapping */
	int fd;                 /* the file behind it, -1 for anonymous memory */
	uint64_t fd_offset;
};

static inline void *rf_block_at(const struct rf_block *b, uint64_t page)
{
	return (char *)b->memory + (page << RF_PAGE_SHIFT);
}

/* How rf_block_open comes by the mapping. */
struct rf_block_source {
	const char *name;
	uint64_t length; /* bytes, a multiple of 4 KiB (of the mapping's page size for hugetlbfs) */
	void *memory;    /* an existing mapping of the caller's, or NULL: map `fd` */
	int fd;          /* duplicated; -1: anonymous memory, then `memory` is given */
	uint64_t fd_offset;
	uint64_t guest_address; /* 0: the same as `memory` */
	bool writable;          /* destination */
};

/* A block of real memory. -1 with a sentence: private or too short a file, bad length, no such memory. */
int rf_block_open(const struct rf_block_source *source, struct rf_block **out, struct rf_error *e);

#endif
