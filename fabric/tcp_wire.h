// SPDX-License-Identifier: LGPL-2.1-or-later
/* What travels on a connection of the tcp fabric, little-endian.
 *
 * Each lane is one connection. The connecting side sends a preamble, the accepting side answers with its own; then both
 * send frames. A WRITES frame is followed by `count` vectors and then by the bytes of each, without gaps; a MESSAGE frame
 * by `bytes` bytes of message. */
#ifndef RAMFERRY_FABRIC_TCP_WIRE_H
#define RAMFERRY_FABRIC_TCP_WIRE_H

#include <stdint.h>

#define RF_TCP_MAGIC "ramferry" /* 8 bytes on the wire, without the zero */

enum {
	RF_TCP_VERSION = 1,
	RF_TCP_MAX_LANES = 64,
	RF_TCP_MAX_VECTORS = 1023, /* one sendmsg takes 1024 pieces: these and the frame's own bytes */
	RF_TCP_MAX_MESSAGE_BYTES = 4 << 20,
	RF_TCP_MIN_MESSAGE_BYTES = 64 << 10, /* every side takes at least this */
	RF_TCP_MAX_WRITE_BYTES = 1 << 30,
	RF_TCP_MAX_FRAME_BYTES = (1 << 30) + (8 << 20), /* one longest write behind a batch that was not yet full */
};

enum rf_tcp_status {
	RF_TCP_HELLO,   /* from the connecting side */
	RF_TCP_WELCOME, /* from the accepting side, as all below */
	RF_TCP_VERSION_DIFFERS,
	RF_TCP_BUSY, /* it is taken by another migration */
	RF_TCP_BAD,  /* the preamble makes no sense */
};

/* Its length, and the place of magic and version, stay the same in all versions. */
struct rf_tcp_preamble {
	char magic[8];
	uint32_t version;
	uint32_t status;   /* enum rf_tcp_status */
	uint8_t token[16]; /* random, of one connect(): lanes with the same token belong together */
	uint16_t lane;     /* 0: control */
	uint16_t lanes;    /* those for writes: the migration has lanes + 1 connections */
	uint32_t max_message_bytes;
	uint8_t zero[24];
};
_Static_assert(sizeof(struct rf_tcp_preamble) == 64, "layout on the wire");

enum rf_tcp_frame_kind { RF_TCP_WRITES = 1, RF_TCP_MESSAGE = 2 };

struct rf_tcp_frame {
	uint32_t kind;  /* enum rf_tcp_frame_kind */
	uint32_t count; /* WRITES: vectors, 1 to RF_TCP_MAX_VECTORS. MESSAGE: 0 */
	uint64_t bytes; /* WRITES: sum of the vectors' lengths. MESSAGE: its length, which may be 0 */
};
_Static_assert(sizeof(struct rf_tcp_frame) == 16, "layout on the wire");

struct rf_tcp_vector {
	uint64_t remote;
	uint64_t key;
	uint32_t length; /* 1 to RF_TCP_MAX_FRAME_BYTES */
	uint32_t zero;
};
_Static_assert(sizeof(struct rf_tcp_vector) == 24, "layout on the wire");

#endif
