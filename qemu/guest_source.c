// SPDX-License-Identifier: LGPL-2.1-or-later
/* The source's side of the hand-off.
 *
 *   drain   drain.c
 *   pause   `migrate`. QEMU sends what is not shared (ROMs, video memory) while the guest runs on, then stops it and waits
 *           in pre-switchover. What it sends by then is handed out early: it goes into memory that is not guest RAM.
 *   save    `migrate-continue`. The device state follows, then the end of the stream; QEMU is in postmigrate.
 *   undo    From anywhere: cancel what can be cancelled, complete what cannot, put the settings back, `cont` if the guest ran
 *           before. A guest that the operator had paused is left standing.
 *   finish  QEMU stays as it is, stopped in postmigrate; ending it is for whoever started it. */
#include "qemu/guest.h"

#include "qemu/check.h"
#include "qemu/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { READ_BYTES = 256 << 10, EARLY_READ_BYTES = 64 << 10, EARLY_BYTES = 1 << 20 };
enum { CONT_PATIENCE_MS = 5000, COMPLETE_PATIENCE_MS = 10000 };
enum { END_PATIENCE_MS = 500 }; /* between the end of a monitor and that of its process */

/* Hand over what has come, up to EARLY_BYTES. */
static int pass_early(struct rf_qemu *g, const struct rf_state_sink *early, struct rf_error *e)
{
	char bytes[EARLY_READ_BYTES];
	for (size_t passed = 0; passed < EARLY_BYTES;) {
		ssize_t n = recv(g->stream, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return rf_qemu_explain(g, "QEMU ended its stream before the guest was stopped", e);
		if (early->write(early->arg, bytes, n) != 0)
			return rf_fail(e, RF_E_FAILED, "the migration ended while QEMU stopped the guest");
		passed += n;
	}
	return 0;
}

static int begin_pause(struct rf_qemu *g, struct rf_error *e)
{
	char status[32];
	if (rf_query_status(g->qmp, status, sizeof(status), &g->was_running, e) != 0 || rf_qemu_stream_open(g, e) != 0)
		return -1;
	*g->status = 0;
	g->stopped = false;
	g->migrate_sent = true; /* also when the answer gets lost */
	g->pause_deadline = rf_deadline_ms(RF_QEMU_PATIENCE_MS);
	return rf_qmp_call(g->qmp, "migrate", json_pack("{s:s}", "uri", "fd:" RF_QEMU_STREAM), NULL, e);
}

/* Is it in pre-switchover, where everything stands still? */
static int end_pause(struct rf_qemu *g, struct rf_error *e)
{
	char status[32];
	bool running;
	if (g->stopped)
		return 0;
	if (rf_query_status(g->qmp, status, sizeof(status), &running, e) != 0)
		return -1;
	return running ? rf_fail(e, RF_E_FAILED, "QEMU says that the guest is stopped, and that it is running") : 0;
}

int rf_qemu_pause(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
		  struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	bool ready = false;
	if (!g->migrate_sent && begin_pause(g, e) != 0)
		return -1;
	*was_running = g->was_running;
	while (!ready && strcmp(g->status, "pre-switchover") != 0) {
		if (*g->status && !rf_migrate_is_busy(g->status))
			return rf_qemu_explain(g, "the guest could not be stopped", e);
		if (!rf_deadline_left_ms(g->pause_deadline))
			return rf_fail(e, RF_E_FAILED, "QEMU does not stop the guest within %d s",
				       RF_QEMU_PATIENCE_MS / 1000);
		if (rf_qemu_wait(g, POLLIN, &ready, e) != 0)
			return -1;
	}
	if (pass_early(g, early, e) != 0)
		return -1;
	if (strcmp(g->status, "pre-switchover") == 0) {
		*stand = RF_STAND_STILL;
		return end_pause(g, e);
	}
	*stand = g->stopped ? RF_STAND_STOPPING : RF_STAND_RUNS;
	return 0;
}

/* Pass the stream on to its end. */
static int pass_on(struct rf_qemu *g, const struct rf_state_sink *sink, char *bytes, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(RF_QEMU_PATIENCE_MS);
	for (;;) {
		bool ready;
		if (rf_qemu_wait(g, POLLIN, &ready, e) != 0)
			return -1;
		ssize_t n = ready ? recv(g->stream, bytes, READ_BYTES, MSG_DONTWAIT) : -1;
		if (n == 0)
			return 0;
		if (n > 0) {
			if (sink->write(sink->arg, bytes, n) != 0)
				return rf_fail(e, RF_E_FAILED, "the migration ended while QEMU saved its state");
			deadline = rf_deadline_ms(RF_QEMU_PATIENCE_MS);
		} else if (ready && errno != EAGAIN && errno != EINTR) {
			return rf_fail_errno(e, RF_E_FAILED, errno, "cannot read QEMU's stream");
		} else if (!rf_deadline_left_ms(deadline)) {
			return rf_fail(e, RF_E_FAILED, "QEMU's stream stands still since %d s",
				       RF_QEMU_PATIENCE_MS / 1000);
		}
	}
}

int rf_qemu_save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	g->continue_sent = true; /* also when the answer gets lost */
	if (rf_qmp_call(g->qmp, "migrate-continue", json_pack("{s:s}", "state", "pre-switchover"), NULL, e) != 0)
		return -1;
	char *bytes = malloc(READ_BYTES);
	int r = bytes ? pass_on(g, sink, bytes, e) : rf_fail(e, RF_E_FAILED, "out of memory");
	free(bytes);
	if (r != 0)
		return -1;
	rf_qemu_stream_close(g);
	if (rf_qemu_settle(g, RF_QEMU_PATIENCE_MS, e) != 0)
		return -1;
	return strcmp(g->status, "completed") == 0 ? 0 : rf_qemu_explain(g, "QEMU could not save its state", e);
}

/* A guest that the operator had paused ends, before QEMU 8.2 or past save(), in QEMU's state "postmigrate". The only way out
 * of that is to run it, which nobody asked for. */
static void warn_postmigrate(struct rf_qemu *g)
{
	char status[32];
	if (rf_query_status(g->qmp, status, sizeof(status), NULL, NULL) == 0 && strcmp(status, "postmigrate") == 0)
		rf_log(g->guest->log, RF_LOG_WARNING,
		       "the guest is still paused, but QEMU calls it \"postmigrate\" now: "
		       "before it can be moved it has to run for a moment (cont, stop)");
}

/* End QEMU's migration. Before `migrate-continue` it is cancelled. After that never: QEMU 7.2, cancelled while it sends the
 * device state, lets the guest run on with its disks still inactive, and aborts at the next write or migration [tried]. So it
 * is left to complete, which needs nothing but somebody who reads its stream; should it stand still, the stream is closed,
 * and QEMU notices that as a failure and takes its disks back. */
static int end_migration(struct rf_qemu *g, struct rf_error *e)
{
	if (g->continue_sent) {
		if (rf_qemu_settle(g, COMPLETE_PATIENCE_MS, e) == 0)
			return 0;
		if (strcmp(g->status, "pre-switchover") == 0) /* QEMU has refused to continue */
			rf_qmp_call(g->qmp, "migrate_cancel", NULL, NULL, NULL);
		rf_qemu_stream_close(g);
		return rf_qemu_settle(g, RF_QEMU_PATIENCE_MS, e);
	}
	if (rf_query_migrate(g->qmp, g->status, sizeof(g->status), NULL, 0, e) != 0)
		return -1;
	if (rf_migrate_is_busy(g->status) && rf_qmp_call(g->qmp, "migrate_cancel", NULL, NULL, e) != 0)
		return -1;
	return rf_qemu_settle(g, RF_QEMU_PATIENCE_MS, e);
}

static int run_again(struct rf_qemu *g, struct rf_error *e)
{
	char status[32];
	bool running;
	if (!g->was_running) {
		warn_postmigrate(g);
		return 0;
	}
	if (rf_query_status(g->qmp, status, sizeof(status), &running, e) != 0)
		return -1;
	/* From QEMU 11 on a cancelled migration is settled a moment before `cont` is allowed. */
	return running ? 0 : rf_qemu_run(g, CONT_PATIENCE_MS, e);
}

static int undo(struct rf_qemu *g, struct rf_error *e)
{
	struct rf_error settings;
	if (rf_qemu_undo_drain(g, e) != 0)
		return rf_wrap(e, "it may stand still, look at it");
	if (g->migrate_sent && (end_migration(g, e) != 0 || run_again(g, e) != 0))
		return rf_wrap(e, "it may stand still, look at it");
	if (g->stream >= 0) /* also a name that QEMU holds and `migrate` never took */
		rf_qmp_call(g->qmp, "closefd", json_pack("{s:s}", "fdname", RF_QEMU_STREAM), NULL, NULL);
	rf_qemu_stream_close(g);
	g->migrate_sent = g->continue_sent = false;
	if (rf_settings_restore(g->qmp, &g->settings, &settings) != 0 &&
	    !rf_process_ended(&g->process, END_PATIENCE_MS))
		rf_log(g->guest->log, RF_LOG_WARNING,
		       "the guest is as it was, but QEMU's migration settings are not: %s", settings.text);
	return 0;
}

int rf_qemu_undo(void *ctx, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	struct rf_error why;
	if (!g->touched)
		return 0;
	int r = undo(g, &why);
	if (r != 0 && !rf_process_ended(&g->process, END_PATIENCE_MS)) {
		if (e)
			*e = why;
		return -1;
	}
	/* A guest that has ended stands nowhere, and needs nothing. */
	if (rf_process_ended(&g->process, 0))
		rf_log(g->guest->log, RF_LOG_WARNING, "QEMU (process %d) has ended, and its guest with it",
		       (int)g->process.pid);
	g->touched = false;
	return 0;
}

int rf_qemu_finish(void *ctx, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	char status[32] = "?";
	bool running = false;
	rf_qemu_stream_close(g);
	if (rf_query_status(g->qmp, status, sizeof(status), &running, NULL) == 0 && running)
		return rf_fail(e, RF_E_FAILED, "the guest runs at the other side, and somebody runs it here as well");
	rf_settings_restore(g->qmp, &g->settings, NULL);
	rf_log(g->guest->log, RF_LOG_INFO,
	       "QEMU (process %d) is left stopped (%s) and must not run its guest again: quit it", (int)g->process.pid,
	       status);
	return 0;
}
