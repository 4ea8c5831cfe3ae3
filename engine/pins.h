// SPDX-License-Identifier: LGPL-2.1-or-later
/* What may be registered at all: asked on both sides before anything is touched, for a move that stops in the middle for want
 * of a limit is worse than one that never began. All refuse with RF_E_REFUSED and what to do instead. */
#ifndef RAMFERRY_ENGINE_PINS_H
#define RAMFERRY_ENGINE_PINS_H

#include "common/options.h"
#include "fabric/fabric.h"
#include "memory/guest.h"

/* The bytes that the guest's blocks hold: what a source will register, and a destination after it. */
int rf_pins_data(const struct rf_guest *g, uint64_t *bytes, struct rf_error *e);

/* May this side register these bytes, as far as the options have them all registered at once? */
int rf_pins_check(struct rf_fabric *f, const struct rf_options *o, uint64_t bytes, struct rf_error *e);

/* `side` ("source") cannot do what --register odp asks for. */
int rf_pins_check_on_demand(const struct rf_fabric *f, const struct rf_options *o, const char *side,
			    struct rf_error *e);

/* Source. A registration that pins keeps the page that it found: when the guest gives that back and takes another, the old
 * one is sent for ever. At the destination nothing need be asked: its guest runs, and loads its devices, only when all
 * is written. */
int rf_pins_check_guest(const struct rf_fabric *f, const struct rf_guest *g, const struct rf_options *o, bool staged,
			struct rf_error *e);

#endif
