// SPDX-License-Identifier: LGPL-2.1-or-later
/* The first words of both sides: HELLO, BLOCKS, and what makes a destination refuse. */
#ifndef RAMFERRY_ENGINE_AGREE_H
#define RAMFERRY_ENGINE_AGREE_H

#include "engine/peer.h"

enum { RF_FACTS_BYTES = 4096 };

/* Send HELLO; the source's carries its options. `facts` is the guest's own text. */
int rf_agree_hello(struct rf_peer *p, const char *facts, struct rf_error *e);

/* Take the peer's HELLO. At the destination this overwrites engine->id and the options on the wire. -1 with RF_E_REFUSED:
 * another version, other facts. */
int rf_agree_take_hello(struct rf_peer *p, const char *facts, const struct rf_message *m, struct rf_error *e);

/* Source: tell the blocks. Destination: are they the same as ours? */
int rf_agree_blocks(struct rf_peer *p, struct rf_error *e);
int rf_agree_take_blocks(struct rf_peer *p, const struct rf_message *m, struct rf_error *e);

/* Destination: say REFUSED. */
void rf_agree_refuse(struct rf_peer *p, const struct rf_error *why);

#endif
