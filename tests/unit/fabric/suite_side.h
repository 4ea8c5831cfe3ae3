// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the cases of the suite are written with: one side's view, and steps that say why they failed. */
#ifndef RAMFERRY_TESTS_UNIT_FABRIC_SUITE_SIDE_H
#define RAMFERRY_TESTS_UNIT_FABRIC_SUITE_SIDE_H

#include "tests/unit/fabric/suite.h"

enum { SUITE_MAX_LANES = 64 };

struct suite_side {
	const struct suite_fabric *on;
	void (*role)(struct suite_side *side);
	struct rf_fabric *f;
	char failure[400]; /* empty: all went as promised */

	uint64_t posted[1 + SUITE_MAX_LANES];  /* writes taken */
	uint64_t written[1 + SUITE_MAX_LANES]; /* … and reported */
	unsigned char *message;                /* the last one that was awaited */
	size_t message_length;
	unsigned message_lane;
	char loss[300]; /* the sentence of RF_EV_LOST */
};

/* Returns false, so that a step can end with it. */
bool suite_fail(struct suite_side *side, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A role goes on only while this holds. */
#define NEED(side, condition)                                                   \
	do {                                                                    \
		if (!(condition)) {                                             \
			suite_fail(side, __FILE__, __LINE__, "%s", #condition); \
			return;                                                 \
		}                                                               \
	} while (0)

/* The next event of this kind, within 20 s. RF_EV_WRITTEN is counted on the way; anything else fails. A message is
 * copied into the side. */
bool suite_await(struct suite_side *side, enum rf_event_kind kind, struct rf_event *ev);

/* Messages and completions are let pass until the peer is lost. */
bool suite_await_loss(struct suite_side *side);

/* However often it is refused. */
bool suite_send(struct suite_side *side, unsigned lane, const void *message, size_t length);
bool suite_write(struct suite_side *side, unsigned lane, const struct rf_write *w, int n);
/* All writes are done, and a message has come: in any order, for a card may tell of the peer's answer before it tells of
 * what is answered. */
bool suite_written_and_answered(struct suite_side *side);

/* Memory of one side that is ready for writes; on the source `remote` and `rkey` are those of the destination's. */
struct suite_memory {
	unsigned char *local;
	struct rf_key lkey;
	uint64_t remote;
	struct rf_key rkey;
	uint64_t pages;
};

/* Destination: map and register; tell the source. Source: map, register, hear of the destination's. */
bool suite_offer(struct suite_side *side, uint64_t pages, struct suite_memory *m);
bool suite_take_offer(struct suite_side *side, struct suite_memory *m);
bool suite_unmap(struct suite_side *side, struct suite_memory *m); /* released first */

bool suite_register(struct suite_side *side, void *address, uint64_t length, unsigned access, uint64_t cookie,
		    struct rf_key *key);
bool suite_release(struct suite_side *side, struct rf_key key, uint64_t cookie);

/* The write that brings pages [first, first + count) to the same place at the other side. */
struct rf_write suite_pages(const struct suite_memory *m, uint64_t first, uint64_t count);
void suite_put(struct suite_side *side, const struct suite_memory *m, uint64_t page, uint64_t stamp);
bool suite_holds(struct suite_side *side, const struct suite_memory *m, uint64_t page, uint64_t stamp);

/* All pages but those of [first, first + count) still hold stamp 0. */
bool suite_untouched(struct suite_side *side, const struct suite_memory *m, uint64_t first, uint64_t count);

uint64_t suite_random(uint64_t *state, uint64_t limit);

struct suite_case {
	const char *name;
	struct rf_fabric_config config; /* zeros: as the fabric likes */
	void (*source)(struct suite_side *side);
	void (*destination)(struct suite_side *side);
};

/* The cases of suite_write.c, suite_message.c and suite_end.c; a zero name ends each table. */
extern const struct suite_case suite_write_cases[], suite_message_cases[], suite_end_cases[];

#endif
