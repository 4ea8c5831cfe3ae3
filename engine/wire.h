// SPDX-License-Identifier: LGPL-2.1-or-later
/* Messages: their frame, the table of their types, and reading and writing of bodies.
 *
 *   u32 length (of all), u16 type, u16 flags, u64 sequence, body, 16 bytes: u32 CRC32C of all before it, 12 zeros
 *
 * Little-endian, unpadded. The sequence counts from 0 on each lane in each direction. Who may send what, on which kind
 * of lane, how long it may be and in which state the receiver takes it is data: rf_message_table. A message is checked
 * against it before anything acts. docs/protocol.md describes every body. */
#ifndef RAMFERRY_ENGINE_WIRE_H
#define RAMFERRY_ENGINE_WIRE_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RF_WIRE_VERSION = 1,        /* what this program speaks */
	RF_WIRE_VERSION_LOWEST = 1, /* and still understands */
	RF_FRAME_HEAD_BYTES = 16,
	RF_FRAME_TAIL_BYTES = 16,
	RF_FRAME_BYTES = RF_FRAME_HEAD_BYTES + RF_FRAME_TAIL_BYTES,
	RF_MESSAGE_BYTES_MAX = 64 << 10, /* of a whole message, so that every fabric can carry it */
	RF_BODY_BYTES_MAX = RF_MESSAGE_BYTES_MAX - RF_FRAME_BYTES,
};

enum rf_message_type {
	RF_MSG_HELLO = 1,
	/* 2 is kept for AUTH */
	RF_MSG_BLOCKS = 3,
	RF_MSG_BLOCKS_OK = 4,
	RF_MSG_REFUSED = 5,
	RF_MSG_REGISTER = 6,
	RF_MSG_KEYS = 7,
	RF_MSG_RELEASE = 8,
	RF_MSG_RELEASED = 9,
	RF_MSG_ZERO = 10,
	RF_MSG_ROUND_END = 11,
	RF_MSG_ROUND_OK = 12,
	RF_MSG_STATE = 13,
	RF_MSG_LOAD = 14,
	RF_MSG_DIGEST = 15,
	RF_MSG_DIGEST_OK = 16,
	RF_MSG_READY = 17,
	RF_MSG_COMMIT = 18,
	RF_MSG_RUNNING = 19,
	RF_MSG_DISCARDED = 20,
	/* 21 is kept for ASK */
	RF_MSG_ABORT = 22,
	RF_MSG_PING = 23,
	RF_MSG_PONG = 24,
	RF_MSG_PROBE = 25,
	RF_MSG_EARLY = 26,
	RF_MSG_TYPES = 27, /* one more than the last */
};

/* What the receiver is doing. A message is welcome in the phases of its row only. */
enum rf_wire_phase {
	RF_WIRE_HELLO,     /* nothing said yet */
	RF_WIRE_SETUP,     /* versions and options are known */
	RF_WIRE_COPY,      /* blocks agreed: registrations, rounds, state, digests */
	RF_WIRE_LOADING,   /* memory complete: the destination loads the state */
	RF_WIRE_LOADED,    /* READY said: waiting for COMMIT */
	RF_WIRE_COMMITTED, /* COMMIT said */
	RF_WIRE_PROBE,     /* no move: the way here is measured (probe.c) */
};

struct rf_message {
	enum rf_message_type type;
	const uint8_t *body;
	size_t length;
};

struct rf_message_rule {
	const char *name; /* NULL: no such type */
	bool from_source, from_destination;
	bool data_lane;  /* may come on lanes 1 and up */
	unsigned phases; /* bit per rf_wire_phase of the receiver */
	uint32_t body_min, body_max;
};

extern const struct rf_message_rule rf_message_table[RF_MSG_TYPES];

/* ---- writing ---- */

struct rf_out {
	enum rf_message_type type;
	size_t length; /* so far, the frame's head included */
	uint8_t bytes[RF_MESSAGE_BYTES_MAX];
};

void rf_out_begin(struct rf_out *o, enum rf_message_type type);
void rf_put_u8(struct rf_out *o, uint8_t v);
void rf_put_u16(struct rf_out *o, uint16_t v);
void rf_put_u32(struct rf_out *o, uint32_t v);
void rf_put_u64(struct rf_out *o, uint64_t v);
void rf_put_bytes(struct rf_out *o, const void *data, size_t length);
void rf_put_text(struct rf_out *o, const char *text); /* u16 length, bytes; cut off to what fits */
size_t rf_out_room(const struct rf_out *o);           /* bytes of body that still fit */
void rf_out_end(struct rf_out *o, uint64_t sequence); /* fills in head and tail; length is then the whole message */

/* ---- reading ---- */

/* Check the frame: length, CRC, type, sequence. -1 with a sentence. */
int rf_message_parse(const void *data, size_t length, uint64_t sequence, struct rf_message *m, struct rf_error *e);

/* Check it against its rule. */
int rf_message_allowed(const struct rf_message *m, bool from_source, unsigned lane, enum rf_wire_phase phase,
		       struct rf_error *e);

/* A cursor over a body. Reading past the end gives zeros and sets `bad`. */
struct rf_in {
	const uint8_t *at, *end;
	bool bad;
};

struct rf_in rf_in_body(const struct rf_message *m);
uint8_t rf_get_u8(struct rf_in *in);
uint16_t rf_get_u16(struct rf_in *in);
uint32_t rf_get_u32(struct rf_in *in);
uint64_t rf_get_u64(struct rf_in *in);
const void *rf_get_bytes(struct rf_in *in, size_t length);   /* NULL when bad */
void rf_get_text(struct rf_in *in, char *text, size_t size); /* too long or with control characters is bad */
bool rf_in_more(const struct rf_in *in);

/* All read, and nothing bad? -1 with a sentence that names the message. */
int rf_in_end(const struct rf_in *in, const struct rf_message *m, struct rf_error *e);

uint32_t rf_crc32c(const void *data, size_t length);

#endif
