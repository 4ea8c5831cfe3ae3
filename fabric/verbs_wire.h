// SPDX-License-Identifier: LGPL-2.1-or-later
/* What travels on a connection of the verbs fabric, little-endian, besides the writes.
 *
 * Each lane is one reliable connection. Both sides introduce themselves in the private data of the connection's making:
 * 56 bytes is what the connection manager leaves of its request. Whoever is sent away gets the same in the rejection.
 * Then each SEND is a frame: this head and `length` bytes behind it. */
#ifndef RAMFERRY_FABRIC_VERBS_WIRE_H
#define RAMFERRY_FABRIC_VERBS_WIRE_H

#include <stdint.h>

#define RF_VERBS_MAGIC "ramferry" /* 8 bytes on the wire, without the zero */

enum {
	RF_VERBS_VERSION = 1,
	RF_VERBS_MAX_LANES = 64,
	RF_VERBS_MAX_BUFFERS = 1024,
	RF_VERBS_MIN_BUFFERS = 2,
	RF_VERBS_MIN_MESSAGE_BYTES = 64 << 10, /* every side takes at least this */
	RF_VERBS_MAX_MESSAGE_BYTES = 4 << 20,
};

enum rf_verbs_status {
	RF_VERBS_HELLO,   /* from the connecting side */
	RF_VERBS_WELCOME, /* from the accepting side, as all below */
	RF_VERBS_VERSION_DIFFERS,
	RF_VERBS_BUSY, /* it is taken by another migration */
	RF_VERBS_BAD,  /* the private data makes no sense */
};

/* Its length, and the place of magic and version, stay the same in all versions. */
struct rf_verbs_hello {
	char magic[8];
	uint16_t version;
	uint16_t status;            /* enum rf_verbs_status */
	uint16_t lane;              /* 0: control */
	uint16_t lanes;             /* those for writes: the migration has lanes + 1 connections */
	uint8_t token[16];          /* random, of one connect(): lanes with the same token belong together */
	uint32_t buffers;           /* receives that are posted on this lane before anybody can send */
	uint32_t max_message_bytes; /* each has room for a frame's head and that much */
	uint8_t zero[16];
};
_Static_assert(sizeof(struct rf_verbs_hello) == 56, "layout on the wire, and all that a request carries");

enum rf_verbs_frame_kind {
	RF_VERBS_MESSAGE = 1, /* for the engine */
	RF_VERBS_CREDITS = 2, /* lane 0 only: a uint32_t for each lane, what `given_back` says of lane 0 */
};

struct rf_verbs_frame {
	uint32_t kind;   /* enum rf_verbs_frame_kind */
	uint32_t length; /* of what follows */
	uint32_t
	    given_back; /* lane 0: how many received frames' buffers were posted again since the start, modulo 2^32 */
	uint32_t zero;
};
_Static_assert(sizeof(struct rf_verbs_frame) == 16, "layout on the wire");

#endif
