// SPDX-License-Identifier: LGPL-2.1-or-later
/* --verify: while the guest stands still, both sides digest all of its memory, slice by slice, and compare. A difference
 * ends the migration before COMMIT. Holes and zero pages are the same. */
#ifndef RAMFERRY_ENGINE_VERIFY_H
#define RAMFERRY_ENGINE_VERIFY_H

#include "engine/peer.h"
#include "engine/scan.h"

/* Source: send the digests of every slice, and wait until the destination has agreed to all. */
struct rf_verify_source {
	struct rf_peer *peer;
	uint64_t said, agreed; /* slices */
};

int rf_verify_all(struct rf_verify_source *v, const struct rf_scan *layout, struct rf_error *e);
int rf_verify_ok(struct rf_verify_source *v, const struct rf_message *m, struct rf_error *e); /* DIGEST_OK */

/* Destination. */
struct rf_verify_destination {
	struct rf_peer *peer;
	uint64_t asked, agreed, told; /* digests */
	struct rf_error failed;
};

int rf_verify_digest(struct rf_verify_destination *v, const struct rf_message *m, struct rf_error *e); /* DIGEST */
/* After each batch of events: say DIGEST_OK. -1: memory differs. */
int rf_verify_answer(struct rf_verify_destination *v, struct rf_error *e);

#endif
