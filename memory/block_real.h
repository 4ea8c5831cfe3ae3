// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared by the files that make up a block of real memory: block.c (open, close), block_ops.c, extents.c, mapping.c. */
#ifndef RAMFERRY_MEMORY_BLOCK_REAL_H
#define RAMFERRY_MEMORY_BLOCK_REAL_H

#include "memory/block.h"

#include <sys/stat.h>

struct rf_real_block {
	struct rf_block block;
	bool mapped;        /* by us: ours to unmap */
	bool mincore_tells; /* to those who may not write the file it says that everything is there */
};

static inline const struct rf_real_block *rf_real(const struct rf_block *b)
{
	return (const struct rf_real_block *)b;
}

/* mapping.c: is [memory, memory + length) mapped here, readable (and writable), and, with a file (`file` not NULL), a
 * shared mapping of that file from `offset` on? */
int rf_mapping_check(const struct rf_block_source *s, const struct stat *file, struct rf_error *e);

/* extents.c */
int rf_real_extents(const struct rf_block *b, struct rf_run range, struct rf_pages *data, struct rf_error *e);

/* block_ops.c */
void rf_real_find_zero(const struct rf_block *b, struct rf_run range, struct rf_pages *zero);
void rf_real_copy(const struct rf_block *b, struct rf_run range, void *to);
int rf_real_digest(const struct rf_block *b, struct rf_run range, struct rf_digest *out, struct rf_error *e);
int rf_real_clear(struct rf_block *b, struct rf_run range, bool keep, struct rf_error *e);

#endif
