// SPDX-License-Identifier: LGPL-2.1-or-later
/* The destination's side of the hand-off: a QEMU that waits with -incoming defer.
 *
 *   prepare  `migrate-incoming` already, on a stream that stays empty: QEMU waits for its first byte and reads no guest memory,
 *            and the round trips are not part of the downtime.
 *   load     The state is pushed into it, the early part of it as it comes: that fills memory that is not guest RAM, and waits
 *            for more. The guest stands still afterwards, its disks not yet activated.
 *   resume   `cont`; it takes the disks, and fails when somebody else holds them: then the guest has not run.
 *   discard  QEMU is told to quit and its end is seen, which is the only proof that it will not run the guest. A QEMU that
 *            was not touched yet holds no guest at all and is left to its owner. One that took `cont`, or may have, is ended
 *            too, but then that is no proof any more: the guest may have run, and written to its disks. */
#include "qemu/guest.h"

#include "qemu/check.h"
#include "qemu/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { QEMU_9_1 = 90100, QUIT_MS = 5000, KILL_MS = 10000 };

/* A QEMU that ends in the middle closes both stream and monitor; older ones end at every bad state. */
static int explain_end(struct rf_qemu *g, struct rf_error *e)
{
	rf_qemu_explain(g, "QEMU could not load the device state", e);
	if (rf_process_ended(&g->process, 100))
		return rf_fail(e, RF_E_FAILED,
			       "QEMU could not load the device state and ended; its own messages say why");
	return -1;
}

static int push(struct rf_qemu *g, const char *bytes, size_t length, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(RF_QEMU_LOAD_PATIENCE_MS);
	while (length) {
		bool ready;
		ssize_t n = send(g->stream, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			bytes += n;
			length -= n;
			deadline = rf_deadline_ms(RF_QEMU_LOAD_PATIENCE_MS);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return explain_end(g, e);
		if (!rf_deadline_left_ms(deadline))
			return rf_fail(e, RF_E_FAILED, "QEMU has not taken the device state for %d s",
				       RF_QEMU_LOAD_PATIENCE_MS / 1000);
		if (rf_qemu_wait(g, POLLOUT, &ready, e) != 0)
			return explain_end(g, e);
		if (strcmp(g->status, "failed") == 0)
			return explain_end(g, e);
	}
	return 0;
}

/* "completed" may come a moment before the machine leaves "inmigrate". */
static int wait_loaded(struct rf_qemu *g, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(RF_QEMU_PATIENCE_MS);
	char status[32];
	bool running;
	if (rf_qemu_settle(g, RF_QEMU_LOAD_PATIENCE_MS, e) != 0 || strcmp(g->status, "completed") != 0)
		return explain_end(g, e);
	do {
		if (rf_query_status(g->qmp, status, sizeof(status), &running, e) != 0)
			return explain_end(g, e);
		if (running)
			return rf_fail(e, RF_E_FAILED, "QEMU runs the guest before it was told to");
		if (strcmp(status, "inmigrate") != 0)
			return 0;
		rf_sleep_us(100);
	} while (rf_deadline_left_ms(deadline));
	return rf_fail(e, RF_E_FAILED, "QEMU has loaded the device state but still waits for a guest");
}

int rf_qemu_await_state(struct rf_qemu *g, struct rf_error *e)
{
	if (rf_qemu_stream_open(g, e) != 0)
		return -1;
	json_t *arguments = json_pack("{s:s}", "uri", "fd:" RF_QEMU_STREAM);
	if (arguments && rf_qmp_version(g->qmp) >= QEMU_9_1) /* so that its reason can be asked for */
		json_object_set_new(arguments, "exit-on-error", json_false());
	*g->status = 0;
	return rf_qmp_call(g->qmp, "migrate-incoming", arguments, NULL, e);
}

int rf_qemu_load_early(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	if (g->stream < 0)
		return rf_fail(e, RF_E_FAILED, "QEMU was not told to wait for a device state");
	g->pushed = true;
	return push(g, state, length, e);
}

int rf_qemu_load(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	if (rf_qemu_load_early(g, state, length, e) != 0)
		return -1;
	rf_qemu_stream_close(g);
	return wait_loaded(g, e);
}

int rf_qemu_resume(void *ctx, bool run, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	if (run && rf_qemu_run(g, 0, e) != 0)
		return -1;
	/* The source waits for us to say that the guest runs, so the rest is on its way but not waited for. */
	if (run)
		rf_qmp_post(g->qmp, "announce-self",
			    json_pack("{s:i,s:i,s:i,s:i}", "initial", 50, "max", 550, "rounds", 5, "step", 100), NULL);
	rf_settings_post(g->qmp, &g->settings);
	g->posted = true;
	g->touched = false;
	return 0;
}

/* See that the process ends. */
static int end_process(struct rf_qemu *g, struct rf_error *e)
{
	rf_qmp_post(g->qmp, "quit", NULL, NULL);
	if (rf_process_ended(&g->process, QUIT_MS))
		return 0;
	/* The descriptor names the process that mapped the guest's RAM where this monitor said: it is that QEMU. */
	if (syscall(SYS_pidfd_send_signal, g->process.pidfd, SIGKILL, NULL, 0) != 0 && errno != ESRCH)
		return rf_fail_errno(e, RF_E_FAILED, errno, "QEMU (process %d) does not quit and cannot be killed",
				     (int)g->process.pid);
	if (rf_process_ended(&g->process, KILL_MS))
		return 0;
	return rf_fail(e, RF_E_FAILED, "QEMU (process %d) was killed but has not ended: make sure that it does",
		       (int)g->process.pid);
}

int rf_qemu_discard(void *ctx, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	if (!g->touched)
		return 0;
	/* A stream that ends before its first byte is an error to QEMU; told to quit it ends without one. */
	if (g->pushed)
		rf_qemu_stream_close(g);
	int r = end_process(g, e);
	rf_qemu_stream_close(g);
	if (r != 0)
		return -1;
	return g->may_have_run ? rf_fail(e, RF_E_FAILED, "QEMU has ended, but the guest may have run in it before") : 0;
}
