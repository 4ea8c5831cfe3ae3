// SPDX-License-Identifier: LGPL-2.1-or-later
/* Measuring the way to a receiver that waits for a guest, without a guest: `ramferry doctor --to`.
 *
 * Behind HELLO the prober says PROBE instead of BLOCKS. The destination registers a few MiB of scratch memory of its own
 * and gives the key; the prober writes there as a move would, in passes that end as rounds do, and the last one is
 * marked final. The destination's guest is not touched: the phase lets nothing through that could. It takes ten seconds at
 * most, whatever the prober does, and then the destination waits for a source again (lib/ listens anew). */
#ifndef RAMFERRY_ENGINE_PROBE_H
#define RAMFERRY_ENGINE_PROBE_H

#include "engine/destination.h"

enum { RF_PROBE_BYTES = 4 << 20 }; /* of scratch memory, on both sides */

/* ---- destination ---- */

/* PROBE has come. From here on d->probe is not NULL. */
int rf_probe_take(struct rf_destination *d, struct rf_error *e);
int rf_probe_round_end(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e);

/* Answer until it is over. No move follows, so -1 in any case; e->code is RF_E_NONE when the prober was content. */
int rf_probe_serve(struct rf_destination *d, struct rf_error *e);

/* Part with the prober, whatever *e says of it. -1 in any case; engine->probed unless it was cancelled. */
int rf_probe_end(struct rf_destination *d, struct rf_error *e);

void rf_probe_free(struct rf_destination *d);

/* ---- the prober ---- */

struct rf_probe_result {
	int64_t connect_ns, register_ns; /* to be connected; from PROBE to KEYS */
	int64_t round_trip_ns;           /* median of PING to PONG */
	uint64_t bytes_per_second;       /* of writes of 1 MiB, over all lanes */
	unsigned lanes;
};

/* engine->fabric is open, engine->guest not needed; rf_engine_free() as after a move. */
int rf_probe_run(struct rf_engine *engine, struct rf_probe_result *result, struct rf_error *e);

#endif
