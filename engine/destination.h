// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the files of the destination share: its whole state. */
#ifndef RAMFERRY_ENGINE_DESTINATION_H
#define RAMFERRY_ENGINE_DESTINATION_H

#include "engine/agree.h"
#include "engine/chunks.h"
#include "engine/handoff.h"
#include "engine/state.h"
#include "engine/verify.h"

struct rf_registration;
struct rf_probe;

struct rf_destination {
	struct rf_engine *engine;
	struct rf_guest *guest;
	struct rf_peer peer;
	enum rf_owner owner;
	enum rf_engine_phase phase;
	char facts[RF_FACTS_BYTES];

	/* destination_memory.c */
	struct rf_registration **by_id;
	uint32_t ids_room;
	struct rf_registration *ready, *released; /* to be told */
	uint64_t registered_bytes;
	bool lacked_memory; /* a registration failed for lack of it */
	uint64_t round;     /* the one that is being written */
	bool lane_ended[RF_LANES_MAX + 1];
	unsigned lanes_ended;
	uint64_t zero_runs, zero_jobs; /* of this round; under way */
	bool final;                    /* this round is the final pass */
	bool complete;                 /* the memory is what the source has */
	struct rf_error failed;

	struct rf_verify_destination verify;
	/* destination_state.c */
	struct rf_state state, early; /* all that is not loaded yet; of it, what a worker loads now */
	struct rf_task early_task;
	bool loading_early;
	int early_result;
	struct rf_error early_error;
	struct rf_probe *probe; /* probe_destination.c; NULL: this is a move */
	bool heard_hello, heard_blocks, heard_state, heard_load, heard_commit;
	bool run; /* what the source's guest did before its pause */
	int64_t connected_ns, reported_ns;
};

/* destination_memory.c: registrations, ZERO, the ends of rounds */
int rf_destination_register(struct rf_destination *d, const struct rf_message *m, struct rf_error *e);
int rf_destination_release(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e);
int rf_destination_zero(struct rf_destination *d, const struct rf_message *m, struct rf_error *e);
int rf_destination_round_end(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e);
int rf_destination_answer(struct rf_destination *d, struct rf_error *e); /* after each batch of events */
void rf_destination_free_memory(struct rf_destination *d);

/* destination_state.c: STATE and EARLY, LOAD, and from there to READY */
int rf_destination_take_state(struct rf_destination *d, const struct rf_message *m, struct rf_error *e);
int rf_destination_take_load(struct rf_destination *d, const struct rf_message *m, struct rf_error *e);
int rf_destination_load(struct rf_destination *d, struct rf_error *e);

/* destination.c */
void rf_destination_phase(struct rf_destination *d, enum rf_engine_phase phase, const char *activity);
int rf_destination_pump(struct rf_destination *d, int64_t timeout_ns, struct rf_error *e);

#endif
