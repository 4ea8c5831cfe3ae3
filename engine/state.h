// SPDX-License-Identifier: LGPL-2.1-or-later
/* The device state: bytes that the source's guest saves and the destination's loads, held whole on both sides until the
 * memory is complete. */
#ifndef RAMFERRY_ENGINE_STATE_H
#define RAMFERRY_ENGINE_STATE_H

#include "engine/peer.h"

enum { RF_STATE_BYTES_MAX = 1 << 30 };

struct rf_state {
	uint8_t *bytes;
	size_t length, room;
};

void rf_state_free(struct rf_state *s);
int rf_state_append(struct rf_state *s, const void *data, size_t length, struct rf_error *e);

/* Source: everything as STATE messages, then LOAD. */
int rf_state_send(const struct rf_state *s, struct rf_peer *p, struct rf_error *e);
int rf_state_say_load(const struct rf_state *s, struct rf_peer *p, bool run, struct rf_error *e);

/* Destination: LOAD fits what has come. */
int rf_state_take_load(const struct rf_state *s, const struct rf_message *m, bool *run, struct rf_error *e);

#endif
