// SPDX-License-Identifier: LGPL-2.1-or-later
/* One thread of QEMU is stopped and made to call userfaultfd(); the descriptor is duplicated to us with pidfd_getfd and
 * closed over there. The thread stands still for 0.2 to 0.5 ms.
 *
 *   - The `syscall` instruction is one in the process's vDSO: code is never written, because other threads run it.
 *   - UFFD_USER_MODE_ONLY makes it work for a QEMU without privileges; faults that the kernel takes on guest memory are
 *     resolved by write-protect-async mode itself and need no handler.
 *   - Everything runs in a thread of our own, made for this. If all else fails, its end detaches the tracee.
 *   - What it does not survive: a SIGKILL of this process within that time leaves the thread with borrowed registers.
 *
 * A thread that is inside a restartable sequence is let go and asked again a moment later. */
#include "qemu/inject.h"

#include "memory/uffd.h"
#include "qemu/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __x86_64__

#include "qemu/tracee.h"

enum { CALM_TRIES = 100, CALM_WAIT_US = 300, VDSO_MAX_BYTES = 64 << 10 };

struct injection {
	pid_t pid;
	int pidfd;
	int fd;
	int result;
	struct rf_error *e;
};

/* The number that follows `key` in a file of /proc, or -1. */
static long read_number(const char *name, const char *key)
{
	char line[256];
	long value = -1;
	FILE *f = fopen(name, "re");
	if (!f)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, 10);
	fclose(f);
	return value;
}

/* The kernel says no for several reasons; find the one that helps. */
static int explain_permission(pid_t pid, struct rf_error *e)
{
	char name[32];
	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	long tracer = read_number(name, "TracerPid:");
	if (tracer > 0)
		return rf_fail(e, RF_E_REFUSED, "QEMU (process %d) is being traced by process %ld already", (int)pid,
			       tracer);
	long yama = read_number("/proc/sys/kernel/yama/ptrace_scope", "");
	if (yama > 2)
		return rf_fail(e, RF_E_REFUSED,
			       "this host forbids to trace any process (kernel.yama.ptrace_scope is %ld)", yama);
	if (yama > 0)
		return rf_fail(e, RF_E_REFUSED,
			       "not permitted to trace QEMU (process %d): run as root or with CAP_SYS_PTRACE "
			       "(kernel.yama.ptrace_scope is %ld)",
			       (int)pid, yama);
	return rf_fail(e, RF_E_REFUSED,
		       "not permitted to trace QEMU (process %d): run as root, with CAP_SYS_PTRACE or as QEMU's user",
		       (int)pid);
}

static int find_vdso(pid_t pid, uint64_t *start, uint64_t *length, struct rf_error *e)
{
	char name[32], line[512];
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	FILE *f = fopen(name, "re");
	if (!f)
		return errno == EACCES ? explain_permission(pid, e)
				       : rf_fail_errno(e, RF_E_REFUSED, errno, "cannot read %s", name);
	uint64_t end = 0;
	while (!end && fgets(line, sizeof(line), f))
		if (!strstr(line, " r-xp ") || !strstr(line, "[vdso]") ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64, start, &end) != 2)
			end = 0;
	fclose(f);
	if (end <= *start || end - *start > VDSO_MAX_BYTES)
		return rf_fail(e, RF_E_REFUSED, "process %d has no vDSO to make system calls from", (int)pid);
	*length = end - *start;
	return 0;
}

/* Any 0f 05 will do, also one inside a longer instruction: the thread is taken back before it runs what follows. */
static int find_gadget(pid_t pid, uint64_t *gadget, struct rf_error *e)
{
	uint64_t start = 0, length = 0;
	if (find_vdso(pid, &start, &length, e) != 0)
		return -1;
	unsigned char *code = malloc(length);
	if (!code)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	struct iovec here = {code, length}, there = {(void *)start, length};
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	unsigned char *at = n > 0 ? memmem(code, n, "\x0f\x05", 2) : NULL;
	if (at)
		*gadget = start + (at - code);
	free(code);
	if (n < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot read the vDSO of process %d", (int)pid);
	return at ? 0 : rf_fail(e, RF_E_REFUSED, "the vDSO of process %d holds no system call", (int)pid);
}

static int explain_userfaultfd(long error, struct rf_error *e)
{
	if (error == EPERM)
		return rf_fail(e, RF_E_REFUSED,
			       "QEMU may not make a userfaultfd (is it confined by a seccomp filter?)");
	return rf_fail_errno(e, RF_E_REFUSED, (int)error, "QEMU cannot make a userfaultfd");
}

/* Stop a thread in a place where its registers may be borrowed. */
static int stop_calmly(struct rf_tracee *t, pid_t tid, struct rf_error *e)
{
	for (int i = 0; i < CALM_TRIES; i++) {
		if (rf_tracee_stop(t, tid, e) != 0)
			return t->forbidden ? explain_permission(tid, e) : -1;
		if (rf_tracee_is_calm(t))
			return 0;
		if (rf_tracee_release(t, e) != 0)
			return -1;
		rf_sleep_us(CALM_WAIT_US);
	}
	return rf_fail(e, RF_E_REFUSED, "QEMU's thread %d never leaves its restartable sequences", (int)tid);
}

/* With the thread stopped: make it, fetch it, close it. */
static int make_and_fetch(struct injection *i, struct rf_tracee *t)
{
	long there, closed;
	if (rf_tracee_call(t, SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY, &there, i->e) != 0)
		return -1;
	if (there < 0)
		return explain_userfaultfd(-there, i->e);
	i->fd = syscall(SYS_pidfd_getfd, i->pidfd, (int)there, 0);
	if (i->fd < 0)
		rf_fail_errno(i->e, RF_E_REFUSED, errno, "cannot take a descriptor out of QEMU (process %d)",
			      (int)i->pid);
	if (rf_tracee_call(t, SYS_close, there, &closed, i->fd < 0 ? NULL : i->e) != 0)
		return -1;
	return i->fd < 0 ? -1 : 0;
}

static void *injector(void *arg)
{
	struct injection *i = arg;
	struct rf_tracee t = {0};
	if (find_gadget(i->pid, &t.gadget, i->e) != 0 || stop_calmly(&t, i->pid, i->e) != 0)
		return NULL;
	i->result = make_and_fetch(i, &t);
	if (rf_tracee_release(&t, i->result == 0 ? i->e : NULL) != 0)
		i->result = -1;
	return NULL;
}

int rf_inject_userfaultfd(pid_t pid, int pidfd, int *fd, struct rf_error *e)
{
	struct rf_error unheard; /* so that nobody below has to care */
	struct injection i = {pid, pidfd, -1, -1, e ? e : &unheard};
	sigset_t all, before;
	pthread_t thread;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, NULL, injector, &i);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return rf_fail_errno(e, RF_E_FAILED, error, "cannot start a thread");
	pthread_join(thread, NULL);
	if (i.result != 0 && i.fd >= 0)
		close(i.fd);
	if (i.result == 0)
		*fd = i.fd;
	return i.result;
}

#else

int rf_inject_userfaultfd(pid_t pid, int pidfd, int *fd, struct rf_error *e)
{
	return rf_fail(e, RF_E_REFUSED, "write tracking in QEMU is not available on this kind of CPU");
}

#endif
