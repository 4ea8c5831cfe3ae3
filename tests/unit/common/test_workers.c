// SPDX-License-Identifier: LGPL-2.1-or-later
/* The pool: every job runs, in order where one thread runs them, at once where several may, and undisturbed by signals. */
#include "common/workers.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static unsigned threads_now(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[200];
	unsigned threads = 0;

	assert_non_null(status);
	while (fgets(line, sizeof(line), status)) {
		if (sscanf(line, "Threads: %u", &threads) == 1)
			break;
	}
	fclose(status);
	return threads;
}

static void count_one(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void every_job_runs_before_close_returns(void **state)
{
	struct rf_workers *w;
	atomic_uint ran = 0;

	assert_int_equal(rf_workers_open(&w, 4, NULL), 0);
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(rf_workers_submit(w, &(struct rf_job){.run = count_one, .arg = &ran}), 0);
	rf_workers_close(w);
	assert_int_equal(ran, 10000);
}

static void an_idle_pool_has_no_threads(void **state)
{
	unsigned before = threads_now();
	struct rf_workers *w;

	assert_int_equal(rf_workers_open(&w, 64, NULL), 0);
	assert_int_equal(threads_now(), before);
	rf_workers_close(w);
	rf_workers_close(NULL);
}

struct order {
	unsigned ran, done;
	bool kept;
};

struct numbered {
	struct order *order;
	unsigned number;
};

static void note_run(void *arg)
{
	struct numbered *n = arg;

	n->order->kept = n->order->kept && n->order->ran == n->number && n->order->done == n->number;
	n->order->ran++;
}

static void note_done(void *owner, uint64_t cookie)
{
	struct order *order = owner;

	order->kept = order->kept && order->done == cookie && order->ran == cookie + 1;
	order->done++;
}

static void one_thread_keeps_the_order(void **state)
{
	enum { JOBS = 1000 };
	struct numbered numbers[JOBS];
	struct order order = {.kept = true};
	struct rf_workers *w;

	assert_int_equal(rf_workers_open(&w, 1, NULL), 0);
	for (unsigned i = 0; i < JOBS; i++) {
		numbers[i] = (struct numbered){&order, i};
		struct rf_job job = {note_run, &numbers[i], note_done, &order, i};
		assert_int_equal(rf_workers_submit(w, &job), 0);
	}
	rf_workers_close(w);
	assert_true(order.kept);
	assert_int_equal(order.done, JOBS);
}

static void wait_at_barrier(void *arg)
{
	pthread_barrier_wait(arg);
}

/* Would hang for ever if a job waited for another one to end. */
static void long_jobs_do_not_hold_up_others(void **state)
{
	pthread_barrier_t barrier;
	struct rf_workers *w;

	assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
	assert_int_equal(rf_workers_open(&w, 3, NULL), 0);
	for (unsigned round = 0; round < 100; round++) {
		for (unsigned i = 0; i < 3; i++) {
			struct rf_job job = {.run = wait_at_barrier, .arg = &barrier};
			assert_int_equal(rf_workers_submit(w, &job), 0);
		}
		pthread_barrier_wait(&barrier);
	}
	rf_workers_close(w);
	pthread_barrier_destroy(&barrier);
}

static void read_mask(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static void signals_go_to_the_program_not_to_workers(void **state)
{
	sigset_t before, inside, after;
	struct rf_workers *w;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(rf_workers_open(&w, 1, NULL), 0);
	assert_int_equal(rf_workers_submit(w, &(struct rf_job){.run = read_mask, .arg = &inside}), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	rf_workers_close(w);

	assert_true(sigismember(&inside, SIGINT));
	assert_true(sigismember(&inside, SIGTERM));
	assert_true(sigismember(&inside, SIGPIPE));
	assert_true(sigismember(&inside, SIGCHLD));
	assert_false(sigismember(&inside, SIGSEGV));
	for (int s = 1; s < 32; s++)
		assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

static void cpus_are_counted(void **state)
{
	cpu_set_t all, one;

	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(all), &all), 0);
	assert_int_equal(rf_cpu_count(), CPU_COUNT(&all));

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all) && !CPU_COUNT(&one))
			CPU_SET(cpu, &one);
	}
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	assert_int_equal(rf_cpu_count(), 1);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof(all), &all), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_job_runs_before_close_returns),
	    cmocka_unit_test(an_idle_pool_has_no_threads),
	    cmocka_unit_test(one_thread_keeps_the_order),
	    cmocka_unit_test(long_jobs_do_not_hold_up_others),
	    cmocka_unit_test(signals_go_to_the_program_not_to_workers),
	    cmocka_unit_test(cpus_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
