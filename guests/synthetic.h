// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest of real memory and nothing else: a mapping of a file in memory, all of it data, and threads that write to it at a rate that
 * is known, which no real guest offers. For measuring moves by real fabrics.
 *
 * Each writer has a working set of its own at the start of its share of the memory. It writes one word of a page at a time: a
 * random page of the set, or one after the other. A writer that was held up for longer than a moment (by page faults of
 * the tracker, or by a host that has no CPU for it) does not catch up: what it wrote is counted, and told. */
#ifndef RAMFERRY_GUESTS_SYNTHETIC_H
#define RAMFERRY_GUESTS_SYNTHETIC_H

#include "memory/guest.h"

#define RF_SYNTHETIC_NO_LIMIT UINT64_MAX

struct rf_synthetic_spec {
	enum rf_role role; /* a destination is empty, and nothing writes there */
	uint64_t memory_bytes;
	unsigned writers;
	uint64_t working_bytes;    /* of each writer: at most its share of the memory */
	uint64_t bytes_per_second; /* of pages written to, all writers together; or RF_SYNTHETIC_NO_LIMIT */
	bool sweep;                /* one page after the other */
	uint64_t seed;
};

struct rf_synthetic;

/* -1 with a sentence: no memory, no thread. */
int rf_synthetic_open(const struct rf_synthetic_spec *spec, struct rf_synthetic **out, struct rf_error *e);
void rf_synthetic_close(struct rf_synthetic *g); /* NULL is fine */

struct rf_guest *rf_synthetic_guest(struct rf_synthetic *g); /* stays its own */

int rf_synthetic_start(struct rf_synthetic *g, struct rf_error *e);
void rf_synthetic_stop(struct rf_synthetic *g);

/* What its writers have done. Right while they stand still. */
struct rf_synthetic_count {
	uint64_t written_pages; /* one as often as it was written to */
	int64_t ran_ns;
	int64_t cpu_ns;
};
struct rf_synthetic_count rf_synthetic_count(const struct rf_synthetic *g);

/* Pages that differ, of two of one size that stand still. */
uint64_t rf_synthetic_differences(const struct rf_synthetic *a, const struct rf_synthetic *b);

#endif
