// SPDX-License-Identifier: LGPL-2.1-or-later
/* The memory that a peer may write to, for fabrics whose receiver is a thread of ours and not a card.
 *
 * A key is a slot number and the slot's serial number, so that a key that was released never fits a later region. A
 * region in use by a write outlives rf_regions_remove(): its removal completes when the last user lets go. */
#ifndef RAMFERRY_FABRIC_REGIONS_H
#define RAMFERRY_FABRIC_REGIONS_H

#include "fabric/events.h"
#include "fabric/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rf_region;
struct rf_regions;

/* Removals are told to `events`. NULL: no memory. */
struct rf_regions *rf_regions_open(struct rf_events *events);
void rf_regions_close(struct rf_regions *r); /* no region is in use any more. NULL is fine */

/* -1: no memory. */
int rf_regions_add(struct rf_regions *r, void *address, uint64_t length, struct rf_key *key);

/* The key opens nothing from now on; posts `released` when no write uses the region. false: no such region; `released`
 * still belongs to the caller. */
bool rf_regions_remove(struct rf_regions *r, struct rf_key key, struct rf_event_node *released);

struct rf_target {
	uint64_t address;
	uint64_t key; /* rf_key.value[0] */
	uint64_t length;
};

/* May the peer write to all of targets? Then each of their regions is in held[] (which has room for `count`; once for
 * neighbours in one region) and stays until rf_regions_let_go(). false: none is held, and *bad is the first target that
 * it may not write to. */
bool rf_regions_hold(struct rf_regions *r, const struct rf_target *targets, unsigned count, struct rf_region **held,
		     unsigned *held_count, unsigned *bad);
void rf_regions_let_go(struct rf_regions *r, struct rf_region *const *held, unsigned held_count);

#endif
