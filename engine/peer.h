// SPDX-License-Identifier: LGPL-2.1-or-later
/* The other side, and waiting: the part of the engine that source and destination share.
 *
 * Everything an engine waits for comes as an event of its fabric, and rf_peer_pump() is the only place that takes
 * events. It answers PING, notices a dead peer, a cancellation and ABORT, hands messages to the side's handler and
 * completions to their task. So a side can be written as a story, "do this, then pump until that is so", and still
 * answers and reports while a guest loads its state for half a minute. */
#ifndef RAMFERRY_ENGINE_PEER_H
#define RAMFERRY_ENGINE_PEER_H

#include "engine/engine.h"
#include "engine/wire.h"

enum { RF_LANE_CONTROL = 0, RF_LANES_MAX = 64 };

/* Something asked of the fabric that will complete: its address is the cookie. Embedded in what it is about. */
struct rf_task {
	void (*done)(struct rf_task *task, const struct rf_event *event);
	void *owner;
};

struct rf_outgoing; /* a message that waits for room in the fabric */

struct rf_peer {
	struct rf_fabric *fabric;
	struct rf_engine *engine;
	bool is_source;
	enum rf_wire_phase phase; /* what messages are welcome */
	const char *activity;     /* what this side is busy with: told in PONG */
	bool may_cancel;          /* a cancellation ends the pump */
	bool deaf;                /* the move has ended: only tasks are still waited for */

	/* The side's handlers. A message handler that returns -1 ends the migration. */
	int (*message)(void *side, unsigned lane, const struct rf_message *m, struct rf_error *e);
	void (*written)(void *side, unsigned lane, uint32_t count);
	void (*idle)(void *side); /* after every batch of events: progress, batched answers */
	void *side;

	unsigned tasks; /* given to run(), not done yet */
	uint64_t sequence_out[RF_LANES_MAX + 1], sequence_in[RF_LANES_MAX + 1];
	struct rf_outgoing *outbox, **outbox_end;
	int64_t heard_ns; /* when the peer last gave a sign of life */
	int64_t began_ns, pinged_ns;
	int64_t round_trip_ns;   /* shortest PING to PONG so far; 0: not known */
	uint64_t messages_bytes; /* sent */
	uint64_t data_bytes;     /* that the source's blocks hold, as HELLO tells it; 0: not known */
	bool keys_may_fail;      /* destination: the source understands RF_KEYS_NO_MEMORY */
	uint64_t pong_stamp;     /* of the PING that is to be answered, once nothing waits before it */
	bool pong_due;
	bool lost;             /* nothing can be sent any more */
	bool gone;             /* RF_EV_LOST came: nothing more will be heard either */
	bool aborted;          /* the peer said ABORT */
	struct rf_error ended; /* why, once lost or aborted */
	struct rf_out out;     /* scratch for rf_peer_begin */
};

void rf_peer_init(struct rf_peer *p, struct rf_engine *engine, bool is_source, void *side);
void rf_peer_free(struct rf_peer *p);

int64_t rf_peer_now(const struct rf_peer *p);

/* One message: begin, put, send. Only one at a time. rf_peer_send: -1 when the peer is lost. */
struct rf_out *rf_peer_begin(struct rf_peer *p, enum rf_message_type type);
int rf_peer_send(struct rf_peer *p, unsigned lane, struct rf_error *e);

/* A fabric that takes nothing any more: as rf_peer_send would have said it. Returns -1. */
int rf_peer_lost(struct rf_peer *p, struct rf_error *e);

/* A send that failed tells that the peer is lost, not why: perhaps it has said ABORT before. Hear what it still has to say,
 * for half a second at most, and if *e is about that loss, put the reason there. */
void rf_peer_last_words(struct rf_peer *p, struct rf_error *e);

/* Tell the peer why this migration ends. Best effort. */
void rf_peer_abort(struct rf_peer *p, const struct rf_error *why);

/* Take what events there are, waiting up to timeout_ns (< 0: as long as it takes) for the first; returns early to look
 * after the peer. 0, or -1: lost, aborted, cancelled, or a handler failed. */
int rf_peer_pump(struct rf_peer *p, int64_t timeout_ns, struct rf_error *e);

/* Run fn(arg) on a worker; task->done when it is over. */
int rf_peer_run(struct rf_peer *p, struct rf_task *task, void (*fn)(void *), void *arg, struct rf_error *e);

/* Run a guest operation on a worker and pump until it is over. A failure of the peer meanwhile is reported after
 * the operation has ended, for it cannot be taken back. */
int rf_peer_call(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e), void *arg, struct rf_error *e);

/* The same, with something to do on the engine's thread meanwhile, which may pump; it fails as the peer would. */
int rf_peer_call_meanwhile(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e),
			   int (*meanwhile)(void *arg, struct rf_error *e), void *arg, struct rf_error *e);

/* The same for what must be done whatever becomes of the peer, which is answered as long as it lives. */
int rf_peer_call_anyway(struct rf_peer *p, int (*fn)(void *arg, struct rf_error *e), void *arg, struct rf_error *e);

/* The move has ended: wait until no work is under way any more, whatever the peer does, and, for a second at most, until
 * the fabric has taken the last words. */
void rf_peer_quiesce(struct rf_peer *p);

#endif
