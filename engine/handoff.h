// SPDX-License-Identifier: LGPL-2.1-or-later
/* Who owns the guest: at every moment at most one side may run it.
 *
 * The states and steps of both sides are one table each; whoever runs, resumes or discards a guest asks it first. A step
 * that the table does not have is a bug and asserted. design.md section 6 is the theory. */
#ifndef RAMFERRY_ENGINE_HANDOFF_H
#define RAMFERRY_ENGINE_HANDOFF_H

#include "common/error.h"

#include <stdbool.h>

enum rf_owner {
	/* source */
	RF_SOURCE_RUNNING,     /* as the operator left it: running, or paused by him */
	RF_SOURCE_STOPPING,    /* pause() was called */
	RF_SOURCE_STOPPED,     /* it stands still; the source still owns it */
	RF_SOURCE_COMMITTED,   /* COMMIT was given to the fabric, or is about to be: never resume by itself */
	RF_SOURCE_HANDED_OVER, /* it runs at the destination */
	RF_SOURCE_UNDONE,      /* the move failed; put back */
	RF_SOURCE_UNKNOWN,     /* no answer to COMMIT: stays stopped */
	/* destination */
	RF_DEST_EMPTY,     /* nothing of it is here */
	RF_DEST_FILLING,   /* memory is being written */
	RF_DEST_LOADING,   /* load() was called */
	RF_DEST_LOADED,    /* complete, READY said; the source owns it */
	RF_DEST_OWNER,     /* COMMIT was received: ours */
	RF_DEST_RUNNING,   /* it runs here */
	RF_DEST_DISCARDED, /* can never run here */
	RF_DEST_STUCK,     /* could be neither run nor discarded */
	RF_OWNER_STATES,
};

enum rf_owner_step {
	RF_STEP_PAUSE,
	RF_STEP_PAUSED,
	RF_STEP_COMMIT,
	RF_STEP_CONFIRMED,
	RF_STEP_DISCARDED_THERE,
	RF_STEP_FAILED,
	RF_STEP_FILL,
	RF_STEP_LOAD,
	RF_STEP_LOADED,
	RF_STEP_RUN,
	RF_STEP_DISCARD,
	RF_STEP_DISCARD_FAILED,
	RF_OWNER_STEPS,
};

/* What is allowed in a state, beside the enum that names it. */
struct rf_owner_rule {
	const char *name;
	bool source_may_run;     /* the source's guest may run, now or after an undo() */
	bool dest_may_run;       /* resume() may be called, or has been */
	bool may_cancel;         /* a cancellation is obeyed */
	enum rf_code on_failure; /* what the side's call returns when it fails in this state */
};

const struct rf_owner_rule *rf_owner_rule(enum rf_owner state);

/* The state after the step; asserts that the table has it. */
enum rf_owner rf_owner_after(enum rf_owner state, enum rf_owner_step step);

#endif
