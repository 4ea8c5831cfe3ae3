// SPDX-License-Identifier: LGPL-2.1-or-later
/* A peer on a stage that plays a source or a destination by the rules, except where it was told not to: its messages are
 * numbered as it says them, and mischief is done to those with certain numbers. Two runs with one seed are the same. */
#ifndef RAMFERRY_TESTS_IMPOSTOR_H
#define RAMFERRY_TESTS_IMPOSTOR_H

#include "tests/unit/engine/player.h"
#include "tests/unit/engine/stage.h"

#include <stdio.h>

enum mischief {
	MISCHIEF_BITS,     /* some bits of the body */
	MISCHIEF_CHECKSUM, /* the same, and the checksum is not put right */
	MISCHIEF_NUMBER,   /* a field of the body is an extreme number */
	MISCHIEF_TYPE,     /* another type */
	MISCHIEF_LANE,     /* another lane */
	MISCHIEF_TWICE,
	MISCHIEF_DROPPED,
	MISCHIEF_SHORT,    /* the body's end is missing */
	MISCHIEF_LONG,     /* it goes on */
	MISCHIEF_LATE,     /* behind the message that follows */
	MISCHIEF_REPLAY,   /* in front of it one that was said before, with a good frame */
	MISCHIEF_INVENTED, /* in front of it one of a random type with a random body, with a good frame */
	MISCHIEF_SEQUENCE, /* a wrong sequence number */
	MISCHIEF_NOISE,    /* random bytes in front of it */
	MISCHIEF_LOST,     /* the connection ends here */
	MISCHIEF_SILENCE,  /* nothing is said any more, not even PONG */
	MISCHIEFS,
};

enum { IMPOSTOR_TRICKS = 4, IMPOSTOR_PAST = 32, IMPOSTOR_PAST_BYTES = 256 };

struct impostor {
	struct stage stage;
	struct player *player; /* the guest at the other end, for its layout */
	uint8_t id[16];

	struct {
		unsigned at; /* the number of a message */
		enum mischief kind;
	} tricks[IMPOSTOR_TRICKS];
	unsigned ntricks;

	/* For one exact trick: called with every message before it is said; it may change it. false: it is not said. */
	bool (*edit)(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o);

	/* its part: react to a message, or, when all is quiet, say what comes next; false: nothing */
	void (*hear)(struct impostor *i, unsigned lane, const struct rf_message *m);
	bool (*next)(struct impostor *i);

	unsigned said, heard[RF_MSG_TYPES], heard_bytes;
	unsigned step, quiet; /* of its part; times that it was asked and had nothing to say */
	unsigned ended_lanes; /* of the round, when it plays a destination */
	uint64_t rounds;
	uint64_t digests;
	unsigned keys; /* heard, when it plays a source */
	uint64_t sequence[STAGE_LANES + 1];
	bool silent, stays; /* says nothing more; never leaves by itself */
	struct rf_out out;

	/* what it said with a good frame, at the right time for that to count */
	bool gave_commit, gave_running, gave_discarded, gave_ready;

	struct {
		unsigned lane;
		struct rf_out out;
	} held; /* said late; .out.length 0: none */
	struct {
		enum rf_message_type type;
		size_t length;
		uint8_t bytes[IMPOSTOR_PAST_BYTES];
	} past[IMPOSTOR_PAST]; /* what it said, if it was short */
	unsigned npast;
};

void impostor_open(struct impostor *i, struct player *p, uint64_t seed);
void impostor_close(struct impostor *i);

struct rf_out *impostor_begin(struct impostor *i, enum rf_message_type type);
void impostor_say(struct impostor *i, unsigned lane); /* what was begun, mischief included */

/* The two parts. */
void impostor_plays_source(struct impostor *i);
void impostor_plays_destination(struct impostor *i);

/* The start of each part, for tests that bring their own rest. */
void impostor_say_hello(struct impostor *i, uint16_t version, const char *facts);
void impostor_say_blocks(struct impostor *i);

/* Every run: its options, its engine, and what it came to. */
struct run {
	struct rf_engine engine;
	struct rf_options options;
	struct rf_stats stats;
	atomic_bool cancelled;
	struct rf_error error;
	int result;
};

void run_open(struct run *r, struct impostor *i);
void run_close(struct run *r, struct impostor *i); /* as lib/ does it: fabric first */

/* An error is one sentence. */
void assert_sentence(const struct rf_error *e);

#endif
