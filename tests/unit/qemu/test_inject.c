// SPDX-License-Identifier: LGPL-2.1-or-later
/* Injection into children of this test that are caught in all sorts of situations. Each child watches itself: what it
 * notices is counted in memory that it shares with us. */
#include "lives.h"

#include "qemu/clock.h"
#include "qemu/inject.h"

#include "memory/uffd.h"
#include "memory/wp.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 256, AGAIN = 20 };

struct child {
	pid_t pid;
	int pidfd;
	struct shared *s;
	char *memory; /* PAGES, shared, at the same address over there */
};

static void start(struct child *c, child_life *life)
{
	c->s = mmap(NULL, sizeof(*c->s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->memory = mmap(NULL, PAGES * RF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(c->s != MAP_FAILED && c->memory != MAP_FAILED);
	atomic_store(&c->s->page_to_write, -1);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		life(c->s, c->memory);
		_exit(0);
	}
	c->pidfd = syscall(SYS_pidfd_open, c->pid, 0);
	while (!atomic_load(&c->s->ready))
		sched_yield();
}

/* It must still be alive and have noticed nothing. */
static void end(struct child *c)
{
	int status;
	assert_int_equal(waitpid(c->pid, &status, WNOHANG), 0);
	assert_int_equal(atomic_load(&c->s->wrong), 0);
	kill(c->pid, SIGKILL);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	munmap(c->s, sizeof(*c->s));
	munmap(c->memory, PAGES * RF_PAGE_BYTES);
	close(c->pidfd);
}

static int inject(const struct child *c)
{
	struct rf_error e = {0};
	int fd = -1;
	if (rf_inject_userfaultfd(c->pid, c->pidfd, &fd, &e) != 0)
		fail_msg("%s", e.text);
	assert_true(fd >= 0);
	return fd;
}

/* Open descriptors of a process. */
static int descriptors(pid_t pid)
{
	int n = 0;
	char path[64];
	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		n += access(path, F_OK) == 0 || readlink(path, (char[8]){0}, 8) >= 0;
	}
	return n;
}

static void inject_again_and_again(const struct child *c)
{
	int before = descriptors(c->pid);
	int64_t then = rf_clock_ns();
	for (int i = 0; i < AGAIN; i++)
		close(inject(c));
	print_message("one injection takes %.3f ms\n", (rf_clock_ns() - then) / 1e6 / AGAIN);
	assert_int_equal(descriptors(c->pid), before);
}

/* Time goes on over there. */
static void expect_ticking(const struct child *c)
{
	int before = atomic_load(&c->s->ticks);
	int64_t deadline = rf_deadline_ms(10000);
	while (atomic_load(&c->s->ticks) == before)
		assert_true(rf_deadline_left_ms(deadline) > 0);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------------ */

static void notices_nothing(child_life *life)
{
	struct child c;
	start(&c, life);
	inject_again_and_again(&c);
	expect_ticking(&c);
	expect_ticking(&c);
	end(&c);
}

static void a_busy_process(void **state)
{
	notices_nothing(busy);
}

static void a_process_in_ppoll(void **state)
{
	notices_nothing(sleeping);
}

static void a_process_in_nanosleep(void **state)
{
	notices_nothing(napping);
}

static void a_process_of_many_threads(void **state)
{
	notices_nothing(threaded);
}

static void a_process_under_signals(void **state)
{
	struct child c;
	start(&c, signalled);
	inject_again_and_again(&c);
	expect_ticking(&c);
	int before = atomic_load(&c.s->signals);
	while (atomic_load(&c.s->signals) == before)
		expect_ticking(&c);
	end(&c);
}

static char state_of(pid_t pid)
{
	char path[32], state = '?';
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state;
}

static void a_stopped_process_stays_stopped(void **state)
{
	struct child c;
	int status;
	start(&c, busy);
	kill(c.pid, SIGSTOP);
	assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
	close(inject(&c));
	int64_t deadline = rf_deadline_ms(5000);
	while (state_of(c.pid) != 'T')
		assert_true(rf_deadline_left_ms(deadline) > 0);
	int before = atomic_load(&c.s->ticks);
	rf_sleep_us(20000); /* long enough for a tick, if it ran */
	assert_int_equal(atomic_load(&c.s->ticks), before);
	kill(c.pid, SIGCONT);
	expect_ticking(&c);
	end(&c);
}

static atomic_bool reaping;

static void *reap_all(void *arg)
{
	while (atomic_load(&reaping)) {
		waitpid(-1, NULL, WNOHANG | __WALL);
		sched_yield();
	}
	return NULL;
}

static void somebody_else_takes_our_reports(void **state)
{
	struct child c;
	pthread_t reaper;
	start(&c, sleeping);
	atomic_store(&reaping, true);
	assert_int_equal(pthread_create(&reaper, NULL, reap_all, NULL), 0);
	inject_again_and_again(&c);
	atomic_store(&reaping, false);
	pthread_join(reaper, NULL);
	expect_ticking(&c);
	end(&c);
}

static void expect_written(struct child *c, int pagemap, int page)
{
	struct rf_pages set;
	struct rf_error e = {0};
	struct rf_run all = {0, PAGES};
	if (page >= 0) {
		atomic_store(&c->s->page_to_write, page);
		while (atomic_load(&c->s->page_to_write) >= 0)
			sched_yield();
	}
	assert_int_equal(rf_pages_init(&set, PAGES, &e), 0);
	if (rf_wp_collect(pagemap, (uint64_t)c->memory, all, &set, &e) != 0)
		fail_msg("%s", e.text);
	assert_int_equal(rf_pages_count(&set, 0, PAGES), page >= 0);
	assert_true(page < 0 || rf_pages_has(&set, page));
	rf_pages_free(&set);
}

static void its_writes_are_seen(void **state)
{
	struct child c;
	struct rf_error e = {0};
	char path[32];
	if (rf_wp_self_test(&e) != 0) {
		print_message("%s\n", e.text);
		skip();
	}
	start(&c, sleeping);
	int fd = inject(&c);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)c.pid);
	int pagemap = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(pagemap >= 0);
	assert_int_equal(rf_wp_handshake(fd, &e), 0);
	assert_int_equal(rf_wp_register(fd, (uint64_t)c.memory, PAGES * RF_PAGE_BYTES, &e), 0);
	assert_int_equal(rf_wp_collect(pagemap, (uint64_t)c.memory, (struct rf_run){0, PAGES}, NULL, &e), 0);
	expect_written(&c, pagemap, -1);
	expect_written(&c, pagemap, 7);
	expect_written(&c, pagemap, 7);
	expect_written(&c, pagemap, PAGES - 1);
	expect_written(&c, pagemap, -1);
	rf_wp_unregister(fd, (uint64_t)c.memory, PAGES * RF_PAGE_BYTES);
	close(pagemap);
	close(fd);
	end(&c);
}

static void expect_refusal(const struct child *c, const char *sentence)
{
	struct rf_error e = {0};
	int fd = -1, before = descriptors(c->pid);
	assert_int_equal(rf_inject_userfaultfd(c->pid, c->pidfd, &fd, &e), -1);
	assert_int_equal(fd, -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	if (!strstr(e.text, sentence))
		fail_msg("\"%s\" is not in \"%s\"", sentence, e.text);
	assert_int_equal(descriptors(c->pid), before);
}

static void a_confined_process_is_refused(void **state)
{
	struct child c;
	start(&c, confined);
	expect_refusal(&c, "QEMU may not make a userfaultfd (is it confined by a seccomp filter?)");
	expect_ticking(&c);
	end(&c);
}

static void a_process_in_restartable_sequences_is_left_alone(void **state)
{
	struct child c;
	if (!__rseq_size)
		skip();
	/* Now and then the kernel has just put it out of its sequence when it is stopped, and it may be taken. */
	start(&c, restartable);
	struct rf_error e = {0};
	int fd, attempts = 0;
	while (rf_inject_userfaultfd(c.pid, c.pidfd, &fd, &e) == 0) {
		close(fd);
		assert_true(++attempts < 50);
	}
	assert_non_null(strstr(e.text, "never leaves its restartable sequences"));
	expect_ticking(&c);
	end(&c);
}

static void a_traced_process_is_refused(void **state)
{
	struct child c;
	int status;
	char sentence[64];
	start(&c, busy);
	assert_int_equal(ptrace(PTRACE_SEIZE, c.pid, NULL, NULL), 0);
	snprintf(sentence, sizeof(sentence), "is being traced by process %d already", (int)getpid());
	expect_refusal(&c, sentence);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, c.pid, NULL, NULL), 0);
	assert_int_equal(waitpid(c.pid, &status, __WALL), c.pid);
	assert_int_equal(ptrace(PTRACE_DETACH, c.pid, NULL, NULL), 0);
	expect_ticking(&c);
	end(&c);
}

static void a_dead_process_is_refused(void **state)
{
	struct child c;
	start(&c, busy);
	kill(c.pid, SIGKILL);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, c.pid, &info, WEXITED | WNOWAIT), 0);
	expect_refusal(&c, "vDSO");
	assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
	struct rf_error e = {0};
	int fd;
	assert_int_equal(rf_inject_userfaultfd(c.pid, c.pidfd, &fd, &e), -1);
	close(c.pidfd);
	munmap(c.s, sizeof(*c.s));
	munmap(c.memory, PAGES * RF_PAGE_BYTES);
}

static void without_rights_it_is_refused(void **state)
{
	struct child c;
	int status;
	if (getuid() != 0)
		skip();
	start(&c, busy);
	pid_t tester = fork();
	if (tester == 0) {
		struct rf_error e = {0};
		int fd = -1;
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(2);
		bool good = rf_inject_userfaultfd(c.pid, c.pidfd, &fd, &e) == -1 && fd == -1 &&
			    e.code == RF_E_REFUSED && strstr(e.text, "not permitted to trace QEMU");
		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(tester, &status, 0), tester);
	assert_int_equal(status, 0);
	expect_ticking(&c);
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_busy_process),
	    cmocka_unit_test(a_process_in_ppoll),
	    cmocka_unit_test(a_process_in_nanosleep),
	    cmocka_unit_test(a_process_of_many_threads),
	    cmocka_unit_test(a_process_under_signals),
	    cmocka_unit_test(a_stopped_process_stays_stopped),
	    cmocka_unit_test(somebody_else_takes_our_reports),
	    cmocka_unit_test(its_writes_are_seen),
	    cmocka_unit_test(a_confined_process_is_refused),
	    cmocka_unit_test(a_process_in_restartable_sequences_is_left_alone),
	    cmocka_unit_test(a_traced_process_is_refused),
	    cmocka_unit_test(a_dead_process_is_refused),
	    cmocka_unit_test(without_rights_it_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
