// SPDX-License-Identifier: LGPL-2.1-or-later
/* One thread of another process, stopped for a moment to make system calls of our choice (x86-64). All calls come from
 * one thread of ours: ptrace knows tracers by thread. Waiting is bounded everywhere. */
#ifndef RAMFERRY_QEMU_TRACEE_H
#define RAMFERRY_QEMU_TRACEE_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct rf_tracee {
	pid_t tid;
	uint64_t gadget; /* address of a `syscall` instruction over there */
	bool forbidden;  /* rf_tracee_stop() failed for lack of rights */
	bool borrowed;   /* registers and signal mask are not its own at the moment */
	bool trap_stop;  /* it stands in a PTRACE_INTERRUPT stop, the one place where all can be put back */
	struct user_regs_struct registers; /* its own */
	uint64_t signal_mask;
};

/* Stop it. -1: not permitted, gone, or it does not stop; then it goes on. */
int rf_tracee_stop(struct rf_tracee *t, pid_t tid, struct rf_error *e);

/* Does it stand where its registers may be taken away for a while? Not inside a restartable sequence (rseq): the kernel
 * would forget that the sequence has to start again. */
bool rf_tracee_is_calm(const struct rf_tracee *t);

/* Make a system call; *result as the kernel gives it (-errno). -1: it could not be made. */
int rf_tracee_call(struct rf_tracee *t, long number, uint64_t argument, long *result, struct rf_error *e);

/* Put everything back and let it go. -1: that did not work; only a killed process explains it. */
int rf_tracee_release(struct rf_tracee *t, struct rf_error *e);

#endif
