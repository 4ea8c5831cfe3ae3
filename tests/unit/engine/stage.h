// SPDX-License-Identifier: LGPL-2.1-or-later
/* A stage: a fabric with a virtual clock whose other end is played by the test, for whole runs of rf_source_run() and
 * rf_destination_run() against a peer that does not keep to the rules.
 *
 * Everything happens in poll(): work given to run() and reg() is done there, in an order that follows from the seed, and
 * events come in batches of every size. When nothing else is left to happen the actor is asked to say something, and when
 * it has nothing to say the clock goes on. An engine that polls without end, or waits for ever for nothing, fails the test. */
#ifndef RAMFERRY_TESTS_STAGE_H
#define RAMFERRY_TESTS_STAGE_H

#include "engine/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STAGE_LANES = 2 };

struct stage_event;
struct stage_task;

struct stage {
	struct rf_fabric base; /* first */
	uint64_t random;
	bool tidy;        /* nothing by chance: work is done at once, in order */
	bool refuse_some; /* send() and write() say now and then that there is no room */
	bool no_memory;   /* to register anything */

	/* The actor. heard() gets every message that the engine sends; says() is asked when all is quiet. */
	void (*heard)(void *actor, unsigned lane, const void *message, size_t length);
	bool (*says)(void *actor);
	void *actor;

	struct stage_event *head, **tail, *delivered;
	struct stage_task *tasks;
	int64_t now_ns;
	uint64_t polls, next_key;
	bool lost; /* RF_EV_LOST is on its way or was delivered */
	bool full[STAGE_LANES + 1];
	uint64_t written[STAGE_LANES + 1]; /* waiting to be told */
	uint64_t written_bytes;
	uint64_t registered; /* regions that the engine has registered and not released */
};

void stage_open(struct stage *s, uint64_t seed);
void stage_close(struct stage *s); /* does what was still to be done, as a fabric's close() */

/* For the actor: a message on a lane, whatever its bytes are; the end of the connection. */
void stage_say(struct stage *s, unsigned lane, const void *message, size_t length);
void stage_lose(struct stage *s, const char *text);

uint64_t stage_random(struct stage *s, uint64_t limit); /* 0 to limit - 1 */

#endif
