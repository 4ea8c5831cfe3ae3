// SPDX-License-Identifier: LGPL-2.1-or-later
/* A set of pages of one block: a bitmap with a summary (one bit per 64 pages), walked run by run. Walking costs the
 * set bits plus one summary word per 16 MiB of guest, so a sparse set of a huge block is cheap.
 *
 * Threads: different threads may change pages of different slices at the same time when slices start at multiples
 * of RF_SLICE_PAGES (one summary word), because then they share no word. */
#ifndef RAMFERRY_MEMORY_PAGES_H
#define RAMFERRY_MEMORY_PAGES_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { RF_PAGE_SHIFT = 12, RF_PAGE_BYTES = 1 << RF_PAGE_SHIFT, RF_SLICE_PAGES = 64 * 64 };

struct rf_pages {
	uint64_t npages;
	uint64_t *words;   /* bit p % 64 of word p / 64 */
	uint64_t *summary; /* bit w % 64 of word w / 64: words[w] is not 0 */
};

struct rf_run {
	uint64_t first, count; /* pages */
};

/* An empty set; memory is zero on demand, so an untouched set costs address space only. */
int rf_pages_init(struct rf_pages *p, uint64_t npages, struct rf_error *e);
void rf_pages_free(struct rf_pages *p); /* also of an all-zero struct */

void rf_pages_add(struct rf_pages *p, uint64_t first, uint64_t count);
void rf_pages_remove(struct rf_pages *p, uint64_t first, uint64_t count);
bool rf_pages_has(const struct rf_pages *p, uint64_t page);

/* The first run of set pages that starts in [from, end), cut off at `end`. False: none. */
bool rf_pages_next(const struct rf_pages *p, uint64_t from, uint64_t end, struct rf_run *run);

uint64_t rf_pages_count(const struct rf_pages *p, uint64_t first, uint64_t count);

/* Over the range only: a |= b; a &= ~b. The sets have the same size. */
void rf_pages_unite(struct rf_pages *a, const struct rf_pages *b, uint64_t first, uint64_t count);
void rf_pages_subtract(struct rf_pages *a, const struct rf_pages *b, uint64_t first, uint64_t count);

#endif
