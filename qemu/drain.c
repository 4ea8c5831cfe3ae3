// SPDX-License-Identifier: LGPL-2.1-or-later
/* A drain point: `stop` comes back when the block layer has no request under way any more, with the guest's vCPUs standing
 * still from its beginning; then `cont`. That is all that QEMU's monitor offers to wait for direct I/O.
 *
 * The guest must not be run against its operator's will. QEMU does not count stops: it takes ours for his. So only a guest
 * that runs is stopped, and when it turns out by the time of QEMU's STOP event that he was quicker, it stays so. What he does
 * while it stands still for us, which is as long as its disks take, is lost on QEMU and on us.
 *
 * Whatever fails in between, drain_stopped tells undo() to run it again.
 *
 * The tracker soft-dirty wants the same stop, with time in between. Stopping the process would be quicker, but leaves the kernel's
 * own threads writing on its behalf: vhost, and I/O that was handed to them. */
#include "qemu/guest.h"

#include "qemu/check.h"

#include <string.h>
#include <time.h>

enum { CONT_PATIENCE_MS = 5000 };

static int64_t realtime_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

/* Only a guest that is "paused" waits for our `cont`: one that ran into an error or was shut down meanwhile is as it would be
 * without us, and one that runs has been told so by somebody else. */
static int run_on(struct rf_qemu *g, struct rf_error *e)
{
	char status[32];
	if (rf_query_status(g->qmp, status, sizeof(status), NULL, e) != 0)
		return -1;
	if (strcmp(status, "paused") == 0 && rf_qemu_run(g, CONT_PATIENCE_MS, e) != 0)
		return -1;
	g->drain_stopped = false;
	return 0;
}

static int stand_still(struct rf_qemu *g, struct rf_error *e)
{
	char status[32];
	bool running;
	if (rf_query_status(g->qmp, status, sizeof(status), &running, e) != 0)
		return -1;
	if (!running) /* all had ended when it was stopped */
		return 0;
	g->stopped = false;
	g->drain_stopped = true; /* also when the answer gets lost */
	int64_t given_us = realtime_us();
	if (rf_qmp_call(g->qmp, "stop", NULL, NULL, e) != 0) {
		if (rf_qmp_unanswered(
			g->qmp)) /* should its disks ever answer, it shall not wait for somebody to notice */
			rf_qmp_post(g->qmp, "cont", NULL, NULL);
		return -1;
	}
	if (g->stopped && g->stopped_us && g->stopped_us < given_us) {
		g->drain_stopped = false;
		rf_log(g->guest->log, RF_LOG_INFO, "somebody has paused the guest: it stays so");
		return 0;
	}
	return 0;
}

int rf_qemu_undo_drain(struct rf_qemu *g, struct rf_error *e)
{
	return g->drain_stopped ? run_on(g, e) : 0;
}

int rf_qemu_hold(void *ctx, bool still, struct rf_error *e)
{
	return still ? stand_still(ctx, e) : rf_qemu_undo_drain(ctx, e);
}

int rf_qemu_drain(void *ctx, struct rf_error *e)
{
	return rf_qemu_hold(ctx, true, e) || rf_qemu_hold(ctx, false, e) ? -1 : 0;
}
