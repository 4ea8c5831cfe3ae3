// SPDX-License-Identifier: LGPL-2.1-or-later
/* The thread pool: see workers.h.
 *
 * One lock, one list, one condition. Jobs last from microseconds (a slice of a scan) to half a minute (a QEMU that
 * loads its state), so the pool never counts on a job ending soon: a thread is started for every job that no idle
 * thread waits for, until there are `threads` of them. */
#include "common/workers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

/* Jobs keep their data elsewhere, and hosts run hundreds of these threads. */
enum { STACK_BYTES = 256 << 10 };

struct queued {
	struct rf_job job;
	struct queued *next;
};

struct rf_workers {
	pthread_mutex_t lock;
	pthread_cond_t work; /* there is a job, or `closing` */
	struct queued *first, **last;
	unsigned queued; /* jobs in the list */
	unsigned idle;   /* threads that wait on `work` */
	unsigned started, limit;
	bool closing;
	pthread_t threads[];
};

/* The next job, or NULL when there will be none. */
static struct queued *take(struct rf_workers *w)
{
	pthread_mutex_lock(&w->lock);
	while (!w->first && !w->closing) {
		w->idle++;
		pthread_cond_wait(&w->work, &w->lock);
		w->idle--;
	}
	struct queued *q = w->first;
	if (q) {
		w->first = q->next;
		if (!w->first)
			w->last = &w->first;
		w->queued--;
	}
	pthread_mutex_unlock(&w->lock);
	return q;
}

static void *thread_main(void *arg)
{
	struct queued *q;

	while ((q = take(arg))) {
		struct rf_job job = q->job;
		free(q);
		job.run(job.arg);
		if (job.done)
			job.done(job.owner, job.cookie);
	}
	return NULL;
}

/* Threads inherit the mask of their creator: it is changed only here and only for a moment. Signals that a thread
 * brings on itself stay as they are, so that a program's own handlers (and the sanitizers') work in jobs too. */
static int start_thread(struct rf_workers *w)
{
	static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	pthread_attr_t attributes;
	sigset_t blocked, before;

	int err = pthread_attr_init(&attributes);
	if (err)
		return err;
	err = pthread_attr_setstacksize(&attributes, STACK_BYTES);
	assert(!err);

	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
		sigdelset(&blocked, own_faults[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	err = pthread_create(&w->threads[w->started], &attributes, thread_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		w->started++;
	pthread_attr_destroy(&attributes);
	return err;
}

int rf_workers_open(struct rf_workers **out, unsigned threads, struct rf_error *e)
{
	assert(threads >= 1);

	struct rf_workers *w = calloc(1, sizeof(*w) + threads * sizeof(w->threads[0]));
	if (!w)
		return rf_fail(e, RF_E_FAILED, "no memory for a pool of %u threads", threads);
	/* With default attributes neither can fail on Linux. */
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	w->last = &w->first;
	w->limit = threads;
	*out = w;
	return 0;
}

int rf_workers_submit(struct rf_workers *w, const struct rf_job *job)
{
	struct queued *q = malloc(sizeof(*q));

	if (!q)
		return -1;
	*q = (struct queued){.job = *job};
	pthread_mutex_lock(&w->lock);
	if (w->queued >= w->idle && w->started < w->limit) {
		/* One thread is enough for every job to be run in the end; without any, this one never would be. */
		if (start_thread(w) != 0 && !w->started) {
			pthread_mutex_unlock(&w->lock);
			free(q);
			return -1;
		}
	}
	*w->last = q;
	w->last = &q->next;
	w->queued++;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

void rf_workers_close(struct rf_workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->closing = true;
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);

	/* No job may submit another one once close has begun, so `started` is final. */
	for (unsigned i = 0; i < w->started; i++)
		pthread_join(w->threads[i], NULL);
	assert(!w->first);
	pthread_cond_destroy(&w->work);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

unsigned rf_cpu_count(void)
{
	/* The kernel refuses a mask that is smaller than its own, so grow until it fits. */
	for (int cpus = CPU_SETSIZE; cpus <= CPU_SETSIZE << 8; cpus <<= 1) {
		cpu_set_t *set = CPU_ALLOC((size_t)cpus);
		if (!set)
			return 1;
		size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
		int rc = sched_getaffinity(0, bytes, set);
		int err = errno;
		int count = rc == 0 ? CPU_COUNT_S(bytes, set) : 0;
		CPU_FREE(set);
		if (count >= 1)
			return (unsigned)count;
		if (err != EINVAL)
			return 1;
	}
	return 1;
}
