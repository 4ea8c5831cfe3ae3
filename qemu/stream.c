// SPDX-License-Identifier: LGPL-2.1-or-later
/* QEMU migrates to and from a descriptor that we hand it over its monitor (getfd, then fd:NAME): no socket file that
 * somebody else could connect to, and no question of who may open it.
 *
 * Waiting is driven by QEMU's MIGRATION events; when none has come for a moment we ask, because events are lost with
 * nothing but a hint in QEMU's log when its queue is full. */
#include "qemu/guest.h"

#include "qemu/check.h"
#include "qemu/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUIET_MS = 20 };

int rf_qemu_stream_open(struct rf_qemu *g, struct rf_error *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot make a socket pair");
	int r = rf_qmp_call_with_fd(g->qmp, "getfd", json_pack("{s:s}", "fdname", RF_QEMU_STREAM), pair[1], e);
	close(pair[1]);
	if (r != 0) {
		close(pair[0]);
		return -1;
	}
	g->stream = pair[0];
	return 0;
}

void rf_qemu_stream_close(struct rf_qemu *g)
{
	if (g->stream >= 0)
		close(g->stream);
	g->stream = -1;
}

int rf_qemu_catch_up(struct rf_qemu *g, struct rf_error *e)
{
	return rf_qmp_take_events(g->qmp, 0, e);
}

int rf_qemu_wait(struct rf_qemu *g, short events, bool *ready, struct rf_error *e)
{
	struct pollfd p[2] = {{rf_qmp_fd(g->qmp), POLLIN, 0}, {g->stream, events, 0}};
	int n = poll(p, events && g->stream >= 0 ? 2 : 1, QUIET_MS);
	*ready = n > 0 && p[1].revents;
	if (n == 0)
		return rf_query_migrate(g->qmp, g->status, sizeof(g->status), NULL, 0, e);
	return n > 0 && p[0].revents ? rf_qemu_catch_up(g, e) : 0;
}

/* Read and forget. At its end the stream is closed, so that nobody polls it in vain. */
static void drain(struct rf_qemu *g)
{
	char bytes[16384];
	ssize_t n = recv(g->stream, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		rf_qemu_stream_close(g);
}

int rf_qemu_settle(struct rf_qemu *g, int patience_ms, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(patience_ms);
	if (rf_qemu_catch_up(g, e) != 0)
		return -1;
	while (rf_migrate_is_busy(g->status)) {
		bool ready;
		if (!rf_deadline_left_ms(deadline))
			return rf_fail(e, RF_E_FAILED, "QEMU's migration is still \"%s\" after %d s", g->status,
				       patience_ms / 1000);
		if (rf_qemu_wait(g, POLLIN, &ready, e) != 0)
			return -1;
		if (ready)
			drain(g);
	}
	return 0;
}

int rf_qemu_explain(struct rf_qemu *g, const char *what, struct rf_error *e)
{
	char why[256];
	if (rf_query_migrate(g->qmp, g->status, sizeof(g->status), why, sizeof(why), e) != 0)
		return rf_wrap(e, "%s", what);
	return rf_fail(e, RF_E_FAILED, "%s: QEMU's migration is \"%s\"%s%s", what, g->status, *why ? ": " : "", why);
}

int rf_qemu_run(struct rf_qemu *g, int patience_ms, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(patience_ms);
	g->resumed = false;
	while (rf_qmp_call(g->qmp, "cont", NULL, NULL, e) != 0) {
		g->may_have_run |= rf_qmp_unanswered(g->qmp);
		if (!rf_deadline_left_ms(deadline) || rf_process_ended(&g->process, 1))
			return -1;
	}
	g->may_have_run = true;
	if (g->resumed) /* its event came before the answer, and spares us asking */
		return 0;
	deadline = rf_deadline_ms(RF_QEMU_PATIENCE_MS);
	char status[32];
	bool running;
	for (;;) {
		if (rf_query_status(g->qmp, status, sizeof(status), &running, e) != 0)
			return -1;
		if (running)
			return 0;
		if (!rf_deadline_left_ms(deadline))
			return rf_fail(e, RF_E_FAILED, "QEMU took `cont`, but the guest is %s", status);
		rf_sleep_us(1000);
	}
}
