// SPDX-License-Identifier: LGPL-2.1-or-later
/* How a thread is made to do a system call without noticing:
 *
 *   PTRACE_SEIZE, PTRACE_INTERRUPT    it stops, a sleeping system call of it is interrupted
 *   all signals blocked               no handler of the process runs on borrowed registers
 *   rip at a `syscall` instruction, PTRACE_SYSCALL to the entry of the call and again to its exit
 *   PTRACE_INTERRUPT once more, registers and signals put back, PTRACE_DETACH
 *
 * The last interrupt is what makes the interrupted system call start again: the kernel decides that, from the registers,
 * on its way out of a signal stop, and the exit of a system call is none. Stops at entry and exit need no SIGTRAP, unlike
 * a single step: a SIGTRAP that is left over after our own death would kill the process, and one that meets a blocked or
 * ignored SIGTRAP makes the kernel throw the process's own handler away.
 *
 * Whether the thread stands is asked with PTRACE_GETSIGINFO, not waitpid() alone: a program that embeds us may reap all
 * its children in a thread of its own, and that takes the reports of tracees too. */
#include "qemu/tracee.h"

#include "qemu/clock.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { STOP_TIMEOUT_MS = 2000, YIELDS_BEFORE_SLEEP = 200, SLEEP_US = 50 };

static bool stands(pid_t tid, siginfo_t *info)
{
	return ptrace(PTRACE_GETSIGINFO, tid, NULL, info) == 0;
}

/* Wait for any ptrace stop. */
static int wait_stop(const struct rf_tracee *t, siginfo_t *info, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(STOP_TIMEOUT_MS);
	for (int tries = 0;; tries++) {
		int status;
		pid_t r = waitpid(t->tid, &status, __WALL | __WNOTHREAD | WNOHANG);
		if (r == t->tid && (WIFEXITED(status) || WIFSIGNALED(status)))
			return rf_fail(e, RF_E_REFUSED, "QEMU's thread %d ended", (int)t->tid);
		if (stands(t->tid, info))
			return 0;
		if (!rf_deadline_left_ms(deadline))
			return rf_fail(e, RF_E_REFUSED, "QEMU's thread %d does not stop within %d s", (int)t->tid,
				       STOP_TIMEOUT_MS / 1000);
		if (tries < YIELDS_BEFORE_SLEEP)
			sched_yield();
		else
			rf_sleep_us(SLEEP_US);
	}
}

static bool is_trap_stop(const siginfo_t *info)
{
	return info->si_code >> 8 == PTRACE_EVENT_STOP;
}

/* Let it run until the stop that PTRACE_INTERRUPT asked for; signals that come first are delivered as ever. */
static int wait_trap_stop(struct rf_tracee *t, struct rf_error *e)
{
	siginfo_t info;
	while (wait_stop(t, &info, e) == 0) {
		t->trap_stop = is_trap_stop(&info);
		if (t->trap_stop)
			return 0;
		int signal = info.si_code == (SIGTRAP | 0x80) ? 0 : info.si_signo;
		if (ptrace(PTRACE_CONT, t->tid, NULL, (void *)(long)signal) != 0)
			return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot go on with QEMU's thread %d", (int)t->tid);
	}
	return -1;
}

int rf_tracee_stop(struct rf_tracee *t, pid_t tid, struct rf_error *e)
{
	t->tid = tid;
	t->forbidden = t->borrowed = t->trap_stop = false;
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
		t->forbidden = errno == EPERM;
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot trace QEMU's thread %d", (int)tid);
	}
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot interrupt QEMU's thread %d", (int)tid);
	if (wait_trap_stop(t, e) != 0)
		return -1;
	if (ptrace(PTRACE_GETREGS, tid, NULL, &t->registers) != 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, sizeof(t->signal_mask), &t->signal_mask) != 0) {
		rf_fail_errno(e, RF_E_REFUSED, errno, "cannot read the registers of QEMU's thread %d", (int)tid);
		rf_tracee_release(t, NULL);
		return -1;
	}
	return 0;
}

bool rf_tracee_is_calm(const struct rf_tracee *t)
{
	if ((int64_t)t->registers.orig_rax >= 0)
		return true; /* in a system call */
	struct __ptrace_rseq_configuration rseq;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->tid, sizeof(rseq), &rseq) != sizeof(rseq) ||
	    !rseq.rseq_abi_pointer)
		return true;
	uint64_t sequence = 0; /* rseq_cs, the second word of struct rseq */
	struct iovec here = {&sequence, sizeof(sequence)};
	struct iovec there = {(void *)(rseq.rseq_abi_pointer + 8), sizeof(sequence)};
	return process_vm_readv(t->tid, &here, 1, &there, 1, 0) == sizeof(sequence) && !sequence;
}

/* Run to the next entry or exit of a system call and tell about it. */
static int to_syscall_stop(struct rf_tracee *t, struct __ptrace_syscall_info *what, struct rf_error *e)
{
	siginfo_t info = {0};
	long signal = 0;
	do {
		t->trap_stop = false;
		if (ptrace(PTRACE_SYSCALL, t->tid, NULL, (void *)signal) != 0)
			goto failed;
		if (wait_stop(t, &info, e) != 0)
			return -1;
		/* Only what cannot be blocked comes in between: somebody stops or continues the whole process. */
		signal = is_trap_stop(&info) ? 0 : info.si_signo;
	} while (info.si_code != (SIGTRAP | 0x80));
	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof(*what), what) <
	    (long)offsetof(struct __ptrace_syscall_info, exit) + 8)
		goto failed;
	return 0;

failed:
	return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a system call in QEMU's thread %d", (int)t->tid);
}

static int borrow(struct rf_tracee *t, struct rf_error *e)
{
	uint64_t all = ~UINT64_C(0);
	t->borrowed = true;
	if (ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(all), &all) != 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot block the signals of QEMU's thread %d",
				     (int)t->tid);
	return 0;
}

int rf_tracee_call(struct rf_tracee *t, long number, uint64_t argument, long *result, struct rf_error *e)
{
	if (!t->borrowed && borrow(t, e) != 0)
		return -1;
	struct user_regs_struct r = t->registers;
	r.rip = t->gadget;
	r.rax = number;
	r.rdi = argument;
	r.orig_rax = -1; /* nothing to start again */
	if (ptrace(PTRACE_SETREGS, t->tid, NULL, &r) != 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot set the registers of QEMU's thread %d",
				     (int)t->tid);

	struct __ptrace_syscall_info entry, exit;
	if (to_syscall_stop(t, &entry, e) != 0 || to_syscall_stop(t, &exit, e) != 0)
		return -1;
	if (entry.op != PTRACE_SYSCALL_INFO_ENTRY || entry.entry.nr != (uint64_t)number ||
	    exit.op != PTRACE_SYSCALL_INFO_EXIT)
		return rf_fail(e, RF_E_REFUSED, "QEMU's thread %d made another system call than it was told to",
			       (int)t->tid);
	*result = exit.exit.rval;
	return 0;
}

/* Bring it to a trap stop from wherever a failure has left it. */
static int back_to_trap_stop(struct rf_tracee *t, struct rf_error *e)
{
	siginfo_t info;
	if (ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) != 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot interrupt QEMU's thread %d", (int)t->tid);
	if (stands(t->tid, &info) && ptrace(PTRACE_CONT, t->tid, NULL, NULL) != 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot go on with QEMU's thread %d", (int)t->tid);
	return wait_trap_stop(t, e);
}

int rf_tracee_release(struct rf_tracee *t, struct rf_error *e)
{
	if (t->borrowed) {
		if (!t->trap_stop && back_to_trap_stop(t, e) != 0)
			return -1;
		if (ptrace(PTRACE_SETREGS, t->tid, NULL, &t->registers) != 0 ||
		    ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(t->signal_mask), &t->signal_mask) != 0)
			return rf_fail_errno(e, RF_E_FAILED, errno, "cannot put the registers of QEMU's thread %d back",
					     (int)t->tid);
		t->borrowed = false;
	}
	if (ptrace(PTRACE_DETACH, t->tid, NULL, NULL) != 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot let QEMU's thread %d go", (int)t->tid);
	return 0;
}
