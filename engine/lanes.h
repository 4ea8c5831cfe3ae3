// SPDX-License-Identifier: LGPL-2.1-or-later
/* The lanes that carry writes: batches on their way into the fabric, and what is in flight.
 *
 * A lane reports its oldest writes as done, so what is in flight is a ring per lane. Where pages are staged (the hash
 * tracker, --source-memory staged), each lane owns a ring of memory, registered once, that is given back in the same order. */
#ifndef RAMFERRY_ENGINE_LANES_H
#define RAMFERRY_ENGINE_LANES_H

#include "engine/chunks.h"

enum {
	RF_BATCH_WRITES = 512,
	RF_STAGING_BYTES = 4 << 20, /* the ring of one lane */
};

struct rf_flight {
	struct rf_chunk *chunk;
	uint32_t length; /* bytes; as many of the staging ring are given back with it */
	uint64_t page;   /* its first, of the block: debug builds check that no two overlap */
};

struct rf_lane {
	struct rf_flight *ring; /* posted and batched, oldest first */
	uint32_t head, count;   /* count <= depth */
	uint64_t in_flight_bytes;
	struct rf_write batch[RF_BATCH_WRITES];
	uint32_t nbatch;
	uint64_t batch_bytes;
	uint8_t *staging; /* NULL: pages are sent from where they are */
	uint64_t staging_at, staging_used;
	struct rf_key staging_key;
	bool staging_ready;
	struct rf_task staging_task;
	struct rf_lanes *all;
	uint64_t round_writes; /* posted in this round, for ROUND_END */
	uint64_t bytes;        /* of all rounds */
};

struct rf_lanes {
	struct rf_peer *peer;
	struct rf_lane *lanes; /* 1 to n; 0 is not used */
	unsigned n, current;
	uint64_t stay_bytes; /* since the current lane was chosen */
	uint32_t stay_writes;
	uint32_t depth;
	uint32_t in_flight;        /* writes of all lanes, batched ones included */
	uint32_t writes_per_chunk; /* 0: no limit */
	struct rf_error failed;    /* a staging ring could not be registered */
};

int rf_lanes_open(struct rf_lanes *l, struct rf_peer *peer, bool staged, struct rf_error *e);
void rf_lanes_free(struct rf_lanes *l); /* after the fabric does not use the staging rings any more */

/* The lane that shall take the next write, or 0 when all are full. */
unsigned rf_lanes_pick(struct rf_lanes *l);

/* Room for a copy of up to `length` bytes on a picked lane: *length may get smaller, by whole pages. NULL: none now. */
void *rf_lanes_stage(struct rf_lanes *l, unsigned lane, uint32_t *length);

/* Add a write of the chunk's pages from `page` on to the lane's batch; a full batch goes out. */
int rf_lanes_add(struct rf_lanes *l, unsigned lane, const struct rf_write *w, struct rf_chunk *chunk, uint64_t page,
		 struct rf_error *e);

/* Post what is batched, as far as the fabric takes it. */
int rf_lanes_flush(struct rf_lanes *l, struct rf_error *e);
void rf_lanes_spread(const struct rf_lanes *l, uint64_t *min_bytes, uint64_t *max_bytes); /* over the lanes */
uint64_t rf_lanes_in_flight_bytes(const struct rf_lanes *l); /* of all lanes, batched ones included */
bool rf_lanes_posted(const struct rf_lanes *l);                                           /* nothing batched any more */

void rf_lanes_written(struct rf_lanes *l, unsigned lane, uint32_t count); /* RF_EV_WRITTEN */

#endif
