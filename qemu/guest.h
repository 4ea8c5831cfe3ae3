// SPDX-License-Identifier: LGPL-2.1-or-later
/* QEMU as an rf_guest; shared by guest*.c and stream.c only. */
#ifndef RAMFERRY_QEMU_GUEST_H
#define RAMFERRY_QEMU_GUEST_H

#include "memory/guest.h"
#include "qemu/attach.h"
#include "qemu/qmp.h"
#include "qemu/settings.h"

enum { RF_QEMU_PATIENCE_MS = 30000, RF_QEMU_LOAD_PATIENCE_MS = 300000 };

struct rf_qemu {
	struct rf_guest *guest;
	struct rf_qmp *qmp;
	struct rf_process process;
	struct rf_settings settings;
	char status[32];       /* of QEMU's migration, by its last event or answer */
	bool stopped, resumed; /* by STOP and RESUME events since these were last set to false */
	bool posted;           /* commands whose answers nobody waited for */
	bool blocks_known;
	bool touched;       /* prepare() has changed something */
	bool migrate_sent;  /* source: `migrate` was given and not undone */
	bool continue_sent; /* source: `migrate-continue` was given: no cancelling any more */
	bool pushed;        /* destination: the stream has begun to carry the state */
	bool was_running;   /* source: before pause() */
	bool drain_stopped; /* source: `stop` was given for a drain point, and no `cont` since */
	int64_t stopped_us; /* when QEMU sent its last STOP event */
	bool may_have_run;  /* destination: `cont` was given and not refused */
	int stream;         /* our end of QEMU's migration stream, -1: none */
	int64_t pause_deadline; /* source */
};

/* What is behind the guest; NULL if that is not a QEMU. */
struct rf_qemu *rf_qemu_of(const struct rf_guest *guest);

/* ---- stream.c: QEMU's migration stream through a socket pair ---- */

/* Make the pair and give one end to QEMU, where it is called RF_QEMU_STREAM. */
int rf_qemu_stream_open(struct rf_qemu *g, struct rf_error *e);
void rf_qemu_stream_close(struct rf_qemu *g);
#define RF_QEMU_STREAM "ramferry"

/* Bring g->status up to date with the events that are there. */
int rf_qemu_catch_up(struct rf_qemu *g, struct rf_error *e);

/* Wait a moment for QEMU or, if `events` is not 0, the stream; ask QEMU when all is quiet. *ready: the stream. */
int rf_qemu_wait(struct rf_qemu *g, short events, bool *ready, struct rf_error *e);

/* Wait until QEMU's migration has settled one way or the other, throwing away what comes out of the stream. */
int rf_qemu_settle(struct rf_qemu *g, int patience_ms, struct rf_error *e);

/* A sentence about a migration that QEMU gave up, with its own reason. */
int rf_qemu_explain(struct rf_qemu *g, const char *what, struct rf_error *e);

/* `cont`, and see that the guest runs. A refusal is tried again for `patience_ms`. */
int rf_qemu_run(struct rf_qemu *g, int patience_ms, struct rf_error *e);

/* ---- Lifecycle operations ---- */

int rf_qemu_drain(void *ctx, struct rf_error *e);
int rf_qemu_undo_drain(struct rf_qemu *g, struct rf_error *e);
int rf_qemu_pause(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
		  struct rf_error *e);
int rf_qemu_save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e);
int rf_qemu_undo(void *ctx, struct rf_error *e);
int rf_qemu_finish(void *ctx, struct rf_error *e);

int rf_qemu_open_soft_dirty(void *ctx, int *pagemap, int *clear_refs, struct rf_error *e); /* soft_dirty.c */
int rf_qemu_hold(void *ctx, bool still, struct rf_error *e);

/* `migrate-incoming`, so that load() has only to push. */
int rf_qemu_await_state(struct rf_qemu *g, struct rf_error *e);
int rf_qemu_load_early(void *ctx, const void *state, size_t length, struct rf_error *e);
int rf_qemu_load(void *ctx, const void *state, size_t length, struct rf_error *e);
int rf_qemu_resume(void *ctx, bool run, struct rf_error *e);
int rf_qemu_discard(void *ctx, struct rf_error *e);

#endif
