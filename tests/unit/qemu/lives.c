// SPDX-License-Identifier: LGPL-2.1-or-later
#include "lives.h"

#include "memory/pages.h"
#include "qemu/clock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void serve_writes(struct shared *s, char *memory)
{
	int page = atomic_load(&s->page_to_write);
	if (page >= 0) {
		memory[(size_t)page * RF_PAGE_BYTES]++;
		atomic_store(&s->page_to_write, -1);
	}
}

/* Computes something that takes every register, and knows the result. */
static uint64_t compute(void)
{
	uint64_t a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	for (int i = 0; i < 2000; i++)
		for (int j = 0; j < 12; j++)
			a[j] = (a[j] << 7 | a[j] >> 57) * 0x9e3779b97f4a7c15u + a[(j + 5) % 12] + (uint64_t)(i * 1.5);
	uint64_t sum = 0;
	for (int j = 0; j < 12; j++)
		sum ^= a[j];
	return sum;
}

void busy(struct shared *s, char *memory)
{
	uint64_t expected = compute();
	atomic_store(&s->ready, 1);
	for (;;) {
		serve_writes(s, memory);
		if (compute() != expected)
			atomic_fetch_add(&s->wrong, 1);
		atomic_fetch_add(&s->ticks, 1);
	}
}

static sigset_t usr2_only(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return set;
}

/* As QEMU's main loop: a sleep that must not end early, with another signal mask inside than outside. */
void sleeping(struct shared *s, char *memory)
{
	sigset_t outside = usr2_only(), inside, now;
	sigemptyset(&inside);
	sigprocmask(SIG_SETMASK, &outside, NULL);
	atomic_store(&s->ready, 1);
	for (;;) {
		struct timespec t = {0, 30000000};
		int64_t then = rf_clock_ns();
		if (ppoll(NULL, 0, &t, &inside) != 0 || rf_clock_ns() - then < 29000000)
			atomic_fetch_add(&s->wrong, 1);
		sigprocmask(SIG_SETMASK, NULL, &now);
		if (memcmp(&now, &outside, 8) != 0)
			atomic_fetch_add(&s->wrong, 1);
		serve_writes(s, memory);
		atomic_fetch_add(&s->ticks, 1);
	}
}

/* A sleep that the kernel restarts by way of its restart block. */
void napping(struct shared *s, char *memory)
{
	atomic_store(&s->ready, 1);
	for (;;) {
		int64_t then = rf_clock_ns();
		struct timespec t = {0, 20000000};
		if (nanosleep(&t, NULL) != 0 || rf_clock_ns() - then < 20000000)
			atomic_fetch_add(&s->wrong, 1);
		serve_writes(s, memory);
		atomic_fetch_add(&s->ticks, 1);
	}
}

static void *compute_beside(void *arg)
{
	struct shared *s = arg;
	uint64_t expected = compute();
	for (;;)
		if (compute() != expected)
			atomic_fetch_add(&s->wrong, 1);
	return NULL;
}

void threaded(struct shared *s, char *memory)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, compute_beside, s);
	sleeping(s, memory);
}

static struct shared *handled;

static void on_signal(int signal)
{
	atomic_fetch_add(&handled->signals, 1);
}

/* Signals all the time, and a SIGTRAP handler of its own with SIGTRAP blocked. */
void signalled(struct shared *s, char *memory)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, now;
	struct itimerval every = {{0, 200}, {0, 200}};
	sigset_t trap, is;
	handled = s;
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	sigprocmask(SIG_BLOCK, &trap, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	uint64_t expected = compute();
	atomic_store(&s->ready, 1);
	for (;;) {
		sigaction(SIGTRAP, NULL, &now);
		sigprocmask(SIG_SETMASK, NULL, &is);
		if (compute() != expected || now.sa_handler != on_signal || memcmp(&is, &trap, 8) != 0)
			atomic_fetch_add(&s->wrong, 1);
		atomic_fetch_add(&s->ticks, 1);
	}
}

void confined(struct shared *s, char *memory)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(1);
	sleeping(s, memory);
}

/* Looks like being in the middle of a restartable sequence whenever one looks. */
void restartable(struct shared *s, char *memory)
{
	static uint32_t before_abort[2] = {0x53053053, 0}; /* the signature that the C library registered */
	static struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} __attribute__((aligned(32))) sequence;
	sequence.start = (uint64_t)before_abort;
	sequence.length = 1;
	sequence.abort = (uint64_t)&before_abort[1];
	volatile uint64_t *slot = (uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset + 8);
	atomic_store(&s->ready, 1);
	for (;;) {
		for (int i = 0; i < 100000; i++)
			*slot = (uint64_t)&sequence;
		atomic_fetch_add(&s->ticks, 1);
	}
}
