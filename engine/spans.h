// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which spans of a chunk should be registered next: arithmetic on sorted spans and sets of pages. */
#ifndef RAMFERRY_ENGINE_SPANS_H
#define RAMFERRY_ENGINE_SPANS_H

#include "engine/chunks.h"

/* The span that ends behind `page`, in order: the one that covers it or the next. NULL: none. */
struct rf_span *rf_span_from(const struct rf_chunk *chunk, uint64_t page);

/* The next span to ask for in [from, end): runs of `pages` that no span covers, with gaps of at most `gap` pages between
 * them that no span lies in; widened to whole pages of the mapping (`unit` of ours). False: all is covered. */
bool rf_span_next(const struct rf_chunk *chunk, const struct rf_pages *pages, uint64_t from, uint64_t end, uint64_t gap,
		  uint64_t unit, struct rf_run *span);

/* The smallest gap that leaves at most `most` new spans in the range, and their bytes in all. */
uint64_t rf_span_choose_gap(const struct rf_chunk *chunk, const struct rf_pages *pages, struct rf_run range,
			    uint64_t most, uint64_t unit, uint64_t *bytes);

#endif
