// SPDX-License-Identifier: LGPL-2.1-or-later
/* The migration itself, for lib/: one call per side, which returns when the move has ended. */
#ifndef RAMFERRY_ENGINE_ENGINE_H
#define RAMFERRY_ENGINE_ENGINE_H

#include "common/error.h"
#include "common/log.h"
#include "common/options.h"
#include "engine/stats.h"
#include "fabric/fabric.h"
#include "memory/guest.h"
#include "memory/tracker.h"

#include <stdatomic.h>
#include <stdint.h>

enum rf_engine_phase { /* lib/ pins them to the public RF_PHASE_* */
		       RF_ENGINE_LISTENING,
		       RF_ENGINE_SETUP,
		       RF_ENGINE_ROUNDS,
		       RF_ENGINE_SWITCHOVER,
		       RF_ENGINE_RUNNING,
		       RF_ENGINE_UNDOING,
};

struct rf_engine_progress {
	enum rf_engine_phase phase;
	bool round_ended;
	uint64_t round, sent_bytes, left_bytes, dirty_bytes, bytes_per_second, dirty_bytes_per_second;
	uint64_t predicted_downtime_ns, elapsed_ns;
};

struct rf_engine {
	/* given by lib/ */
	struct rf_fabric *fabric; /* source: open, the engine connects it; destination: listening */
	struct rf_uri uri;        /* source: where to connect to */
	struct rf_guest *guest;
	struct rf_options *options; /* destination: those on the wire are overwritten by the source's */
	const struct rf_log *log;
	struct rf_stats *stats;
	uint8_t id[16]; /* source: random, never used before; destination: the peer's, once known */
	void (*progress)(void *arg, const struct rf_engine_progress *p); /* may be NULL */
	void *progress_arg;
	const atomic_bool *cancelled; /* set before fabric->wake() */
	const char *name;             /* of this host or process, for the peer's log */

	/* Set by an rf_destination_run() that fails: no source came but a prober (probe.h), nothing was touched, and a
	 * source may still come: listen again, and run again with a new engine. */
	bool probed;

	/* the engine's own */
	void *side;
	void (*free_side)(void *side);
};

/* Both return 0, or -1 with a sentence whose code is the exit status (RF_E_CANCELLED, RF_E_REFUSED, RF_E_UNKNOWN, …).
 * Before they return, the guest was undone or discarded where that is due. They call the guest's check() first. */
int rf_source_run(struct rf_engine *engine, struct rf_error *e);
int rf_destination_run(struct rf_engine *engine, struct rf_error *e);

/* After the fabric was closed, for up to then it may use what the engine gave it. */
void rf_engine_free(struct rf_engine *engine);

#endif
