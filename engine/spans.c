// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/spans.h"

#include "common/checked.h"

struct rf_span *rf_span_from(const struct rf_chunk *chunk, uint64_t page)
{
	uint32_t low = 0, high = chunk->nspans;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (chunk->spans[middle]->first + chunk->spans[middle]->count > page)
			high = middle;
		else
			low = middle + 1;
	}
	return low < chunk->nspans ? chunk->spans[low] : NULL;
}

static bool next_uncovered(const struct rf_chunk *chunk, const struct rf_pages *pages, uint64_t from, uint64_t end,
			   struct rf_run *run)
{
	while (rf_pages_next(pages, from, end, run)) {
		struct rf_span *s = rf_span_from(chunk, run->first);
		if (!s || s->first >= run->first + run->count)
			return true;
		if (s->first > run->first) {
			run->count = s->first - run->first;
			return true;
		}
		from = s->first + s->count;
		if (from < run->first + run->count) {
			run->count -= from - run->first;
			run->first = from;
			s = rf_span_from(chunk, from);
			if (s && s->first < from + run->count)
				run->count = s->first - from;
			if (run->count)
				return true;
		}
	}
	return false;
}

bool rf_span_next(const struct rf_chunk *chunk, const struct rf_pages *pages, uint64_t from, uint64_t end, uint64_t gap,
		  uint64_t unit, struct rf_run *span)
{
	struct rf_run run;
	if (!next_uncovered(chunk, pages, from, end, span))
		return false;
	uint64_t last = span->first + span->count;
	while (next_uncovered(chunk, pages, last, end, &run) && run.first - last <= gap) {
		struct rf_span *between = rf_span_from(chunk, last);
		if (between && between->first < run.first)
			break;
		last = run.first + run.count;
	}
	span->first -= span->first % unit;
	span->count = rf_min_u64(rf_round_up(last, unit), end) - span->first;
	return true;
}

uint64_t rf_span_choose_gap(const struct rf_chunk *chunk, const struct rf_pages *pages, struct rf_run range,
			    uint64_t most, uint64_t unit, uint64_t *bytes)
{
	uint64_t end = range.first + range.count, gap = unit > 1 ? unit : 0;
	for (;; gap = gap ? 2 * gap : 1) {
		uint64_t n = 0, at = range.first;
		struct rf_run span;
		for (*bytes = 0; rf_span_next(chunk, pages, at, end, gap, unit, &span); at = span.first + span.count) {
			*bytes += span.count << RF_PAGE_SHIFT;
			n++;
		}
		if (n <= most || gap > range.count)
			return gap;
	}
}
