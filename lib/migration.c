// SPDX-License-Identifier: LGPL-2.1-or-later
/* The migration as an object: its options, its one sentence, its callbacks and its cancellation. lib/run.c runs it. */
#include "lib/migration.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

static_assert((int)RF_OK == (int)RF_E_NONE && (int)RF_FAILED == (int)RF_E_FAILED && (int)RF_USAGE == (int)RF_E_USAGE &&
		  (int)RF_REFUSED == (int)RF_E_REFUSED && (int)RF_UNKNOWN == (int)RF_E_UNKNOWN &&
		  (int)RF_CANCELLED == (int)RF_E_CANCELLED,
	      "the codes inside are the public results");
static_assert((int)RF_DEBUG == (int)RF_LOG_DEBUG && (int)RF_INFO == (int)RF_LOG_INFO &&
		  (int)RF_WARNING == (int)RF_LOG_WARNING,
	      "the log's levels inside are the public severities");
static_assert(ATOMIC_BOOL_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
	      "rf_cancel() works in signal handlers");

/* One sentence at a time, whichever worker it comes from. */
static void write_log(void *arg, enum rf_log_level level, const char *sentence)
{
	rf_migration *m = arg;

	pthread_mutex_lock(&m->log_lock);
	if (m->log_fn)
		m->log_fn(m->log_arg, (rf_log_severity)level, sentence);
	pthread_mutex_unlock(&m->log_lock);
}

/* Recursive, so that a callback may call rf_on_log(). */
static int init_log(rf_migration *m)
{
	pthread_mutexattr_t attributes;

	if (pthread_mutexattr_init(&attributes))
		return -1;
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);

	int error = pthread_mutex_init(&m->log_lock, &attributes);

	pthread_mutexattr_destroy(&attributes);
	m->log = (struct rf_log){.write = write_log, .arg = m};
	return error ? -1 : 0;
}

RF_API rf_migration *rf_migration_new(rf_guest *guest)
{
	rf_migration *m = calloc(1, sizeof *m);

	if (!m)
		return NULL;
	if (init_log(m)) {
		free(m);
		return NULL;
	}
	m->guest = guest;
	rf_options_init(&m->options);
	return m;
}

RF_API void rf_migration_free(rf_migration *m)
{
	if (!m)
		return;
	rf_stats_free(&m->stats);
	pthread_mutex_destroy(&m->log_lock);
	free(m);
}

rf_result rf_migration_failed(rf_migration *m, const struct rf_error *e)
{
	m->error = *e;
	if (m->error.code == RF_E_NONE)
		m->error.code = RF_E_FAILED;
	return (rf_result)m->error.code;
}

RF_API const char *rf_error(const rf_migration *m)
{
	return m ? m->error.text : "there is no migration: the pointer is NULL";
}

RF_API rf_result rf_set(rf_migration *m, const char *name, const char *value)
{
	struct rf_error e = {0};

	if (!m)
		return RF_USAGE;
	if (!name || !value)
		rf_fail(&e, RF_E_USAGE, "an option needs a name and a value");
	else if (m->used)
		rf_fail(&e, RF_E_USAGE, "%s cannot be set any more: the migration has begun", name);
	else if (!rf_option_set(&m->options, name, value, &e))
		return RF_OK;
	return rf_migration_failed(m, &e);
}

RF_API void rf_on_log(rf_migration *m, void (*fn)(void *arg, rf_log_severity severity, const char *sentence), void *arg)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->log_lock);
	m->log_fn = fn;
	m->log_arg = arg;
	pthread_mutex_unlock(&m->log_lock);
}

RF_API void rf_on_progress(rf_migration *m, void (*fn)(void *arg, const rf_progress *progress), void *arg)
{
	if (!m)
		return;
	m->progress_fn = fn;
	m->progress_arg = arg;
}

/* Count first, then look: whoever withdraws the fabric afterwards sees the count and waits. A signal handler that
 * interrupts that wait runs to its end and so never holds it up. */
RF_API void rf_cancel(rf_migration *m)
{
	int saved_errno = errno;

	if (!m)
		return;
	atomic_store(&m->cancelled, true);
	atomic_fetch_add(&m->cancelling, 1);

	struct rf_fabric *fabric = atomic_load(&m->fabric);

	if (fabric)
		fabric->ops->wake(fabric);
	atomic_fetch_sub(&m->cancelling, 1);
	errno = saved_errno;
}

void rf_migration_publish(rf_migration *m, struct rf_fabric *fabric)
{
	atomic_store(&m->fabric, fabric);
}

void rf_migration_withdraw(rf_migration *m)
{
	atomic_store(&m->fabric, NULL);
	while (atomic_load(&m->cancelling))
		sched_yield();
}

RF_API const char *rf_version(void)
{
	return RAMFERRY_VERSION;
}
