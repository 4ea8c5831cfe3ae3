// SPDX-License-Identifier: LGPL-2.1-or-later
/* The thread pool: see workers.h.
 *
 * One lock, one list, one condition. Jobs last from microseconds (a slice of a scan) to half a minute (a QEMU that
 * loads its state), so the pool never counts on a job ending soon: a thread is started for every job that no idle
 * thread waits for, until there are `threads` of them. */
#include "common/workers.h"

#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

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
		if (!rf_thread_start(&w->threads[w->started], "worker", thread_main, w))
			w->started++;
		else if (!w->started) { /* one thread runs every job in the end; without any, this one would stay */
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
