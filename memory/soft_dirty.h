// SPDX-License-Identifier: LGPL-2.1-or-later
/* The kernel's soft-dirty bits, below the tracker: track_soft_dirty.c and its probe share it. */
#ifndef RAMFERRY_MEMORY_SOFT_DIRTY_H
#define RAMFERRY_MEMORY_SOFT_DIRTY_H

#include "memory/guest.h"

/* Add to `dirty` what was written since the last clearing, in the run of the block mapped at `address`. Does not clear. */
int rf_soft_dirty_read(int pagemap, uint64_t address, struct rf_run run, struct rf_pages *dirty, struct rf_error *e);

/* Clear all bits of that process. */
int rf_soft_dirty_clear(int clear_refs, struct rf_error *e);

/* Does a write show, on this kernel? Tried on scratch memory; where there are bits, those of this process are cleared. */
int rf_soft_dirty_self_test(struct rf_error *why);

#endif
