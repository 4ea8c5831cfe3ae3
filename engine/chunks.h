// SPDX-License-Identifier: LGPL-2.1-or-later
/* Chunks: what of the guest is registered, on both sides, and what is being written.
 *
 * A chunk holds registrations (spans; usually one) and the number of its writes in flight. Writes to one chunk are posted
 * as fast as the lanes take them; the count exists because a registration may be released only when it is zero. Spans
 * cover what holds data, not the whole chunk, since registering fills holes: runs of pages to send, with the gaps
 * closed that are smallest until the fabric's sensible number of spans is reached. A page outside gets a span later.
 *
 * Both sides are bounded by max-pinned: the least recently used chunk without writes in flight goes first, and counts
 * until the peer has said RELEASED. Chunks between the writer and the look-ahead are wanted and never chosen, so the
 * look-ahead, which asks in the order of the writer, cannot starve it. */
#ifndef RAMFERRY_ENGINE_CHUNKS_H
#define RAMFERRY_ENGINE_CHUNKS_H

#include "engine/peer.h"
#include "memory/pages.h"

struct rf_chunk;

enum { RF_REGISTRATIONS_MAX = 1 << 24 }; /* what either side keeps track of */

#define RF_KEYS_NO_MEMORY UINT64_MAX /* an address in KEYS: the destination has no memory to register that */

struct rf_span {
	struct rf_task task; /* of the local registration */
	struct rf_chunks *all;
	struct rf_chunk *chunk;
	uint64_t first, count; /* pages of the block */
	uint32_t id;           /* what the peer calls it */
	bool local_ready, remote_ready, releasing;
	bool local_failed, remote_failed; /* for lack of memory */
	struct rf_key lkey, rkey;
	uint64_t remote; /* the peer's address of page `first` */
	int64_t asked_ns;
};

struct rf_chunk {
	struct rf_span **spans; /* sorted, disjoint */
	uint32_t nspans;
	uint32_t in_flight;             /* writes */
	uint64_t lanes;                 /* that carried writes to it since it was registered; bit 0 is lane 1 */
	bool wanted;                    /* the writer will come by */
	struct rf_chunk *newer, *older; /* by last use; only chunks with spans are linked */
};

struct rf_chunks {
	struct rf_peer *peer;
	struct rf_guest *guest;
	struct rf_stats *stats;
	bool local;            /* this side registers too */
	bool on_demand;        /* --register odp */
	uint64_t chunk_bytes;  /* as the option has it, or less when memory is short */
	uint64_t *first_chunk; /* per block: index of its first chunk; one more at the end */
	uint64_t *chunk_pages; /* per block: at least a page of its mapping */
	struct rf_chunk *chunks;
	struct rf_span **by_id;
	uint32_t *free_ids;
	uint32_t nids, nfree, ids_room;
	struct rf_chunk newest;                  /* head of the ring of use */
	uint64_t pinned_bytes, max_pinned_bytes; /* those being released still count */
	uint64_t releasing_bytes;
	uint32_t asked;     /* spans that are not ready yet */
	uint32_t lacking;   /* spans for which a side has no memory: time to give up others */
	char lack[200];     /* why, where this side has none; "": it is the peer */
	unsigned max_spans; /* per 64 MiB */
	struct {
		const struct rf_chunk *chunk; /* for which there was no room; NULL: none */
		uint32_t nspans;
		uint64_t gap, bytes; /* what was found out about it, which costs a walk over its pages */
	} refused;
	struct rf_out ask; /* REGISTER being filled */
	unsigned nask;
	struct rf_error failed; /* a registration that failed */
};

/* Can these options work with this guest? -1 with RF_E_USAGE. */
int rf_chunks_check(const struct rf_guest *g, const struct rf_options *o, struct rf_error *e);

/* `staged`: pages are not sent from where the guest has them, so this side need not register them. */
int rf_chunks_open(struct rf_chunks *c, struct rf_peer *peer, struct rf_stats *stats, bool staged, struct rf_error *e);
void rf_chunks_free(struct rf_chunks *c);

struct rf_chunk *rf_chunks_at(const struct rf_chunks *c, unsigned block, uint64_t page);
uint64_t rf_chunks_end(const struct rf_chunks *c, unsigned block, uint64_t page); /* first page of the next chunk */

/* The pages to send are about to change. */
void rf_chunks_new_round(struct rf_chunks *c);

/* See that every page of `pages` in the chunk of `page` is covered by a span, asking for those that are missing; the
 * chunk is wanted from now on. 1 done, 0 no room below max-pinned now, -1 failed. */
int rf_chunks_want(struct rf_chunks *c, unsigned block, uint64_t page, const struct rf_pages *pages,
		   struct rf_error *e);
int rf_chunks_flush(struct rf_chunks *c, struct rf_error *e); /* send what was asked */

/* The writer has passed this chunk. */
void rf_chunks_passed(struct rf_chunks *c, struct rf_chunk *chunk);

/* The span that covers `page` and can be written to now, or NULL. */
const struct rf_span *rf_chunks_span(const struct rf_chunks *c, const struct rf_chunk *chunk, uint64_t page);

int rf_chunks_keys(struct rf_chunks *c, const struct rf_message *m, struct rf_error *e);     /* KEYS */
int rf_chunks_released(struct rf_chunks *c, const struct rf_message *m, struct rf_error *e); /* RELEASED */

/* With c->lacking, when nothing is asked, wanted or in flight any more: settle for less and release everything. When
 * pinned_bytes is 0, lay the chunks out anew; they are other chunks then. -1: there is nothing less. */
int rf_chunks_give_up_all(struct rf_chunks *c, struct rf_error *e);
int rf_chunks_lay_out(struct rf_chunks *c, struct rf_error *e);

/* ---- between the files of the chunks ---- */

void rf_chunks_forget_layout(struct rf_chunks *c);
void rf_chunks_used(struct rf_chunks *c, struct rf_chunk *chunk); /* now */

/* Begin to release until `bytes` more would fit, as far as that is possible. */
int rf_chunks_make_room(struct rf_chunks *c, uint64_t bytes, struct rf_error *e);

#endif
