// SPDX-License-Identifier: LGPL-2.1-or-later
/* The device state: bytes that the source's guest saves and the destination's loads. What depends on nothing in guest RAM
 * travels early, before the memory is complete, and is loaded as it comes; the rest is held whole on both sides. */
#ifndef RAMFERRY_ENGINE_STATE_H
#define RAMFERRY_ENGINE_STATE_H

#include "engine/peer.h"

enum { RF_STATE_BYTES_MAX = 1 << 30 };

struct rf_state {
	uint8_t *bytes; /* what is held: not sent yet, or not loaded yet */
	size_t length, room;
	uint64_t told_bytes; /* all that has travelled */
	uint64_t hash;       /* of that */
};

void rf_state_free(struct rf_state *s);
int rf_state_append(struct rf_state *s, const void *data, size_t length, struct rf_error *e);

/* Source: what is held as messages of `type`, STATE or EARLY; it is not held any more then. LOAD comes behind all. */
int rf_state_send(struct rf_state *s, struct rf_peer *p, enum rf_message_type type, struct rf_error *e);
int rf_state_say_load(const struct rf_state *s, struct rf_peer *p, bool run, struct rf_error *e);

/* Destination: a STATE or EARLY; LOAD fits what has come. */
int rf_state_take(struct rf_state *s, const struct rf_message *m, struct rf_error *e);
int rf_state_take_load(const struct rf_state *s, const struct rf_message *m, bool *run, struct rf_error *e);

/* What is held goes over to `to`, whose own bytes are freed. */
void rf_state_hand_over(struct rf_state *s, struct rf_state *to);

#endif
