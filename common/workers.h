// SPDX-License-Identifier: LGPL-2.1-or-later
/* A pool of threads for blocking work: registrations, scans, digests, guest operations. Signals are blocked in
 * its threads. Jobs start in the order given; none is dropped. */
#ifndef RAMFERRY_COMMON_WORKERS_H
#define RAMFERRY_COMMON_WORKERS_H

#include "common/error.h"

#include <stdint.h>

struct rf_workers;

struct rf_job {
	void (*run)(void *arg); /* the work */
	void *arg;
	void (*done)(void *owner, uint64_t cookie); /* called on the worker after run(); may be NULL */
	void *owner;
	uint64_t cookie;
};

/* `threads` of at least 1; threads are started as jobs come, so an idle pool costs nothing. */
int rf_workers_open(struct rf_workers **out, unsigned threads, struct rf_error *e);

/* Queue a copy of *job. -1 only for lack of memory. */
int rf_workers_submit(struct rf_workers *w, const struct rf_job *job);

/* Wait until every job given so far has ended, then end the threads. NULL is fine. */
void rf_workers_close(struct rf_workers *w);

/* CPUs this process may use. At least 1. */
unsigned rf_cpu_count(void);

#endif
