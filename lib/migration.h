// SPDX-License-Identifier: LGPL-2.1-or-later
/* What stands behind the public rf_migration. */
#ifndef RAMFERRY_LIB_MIGRATION_H
#define RAMFERRY_LIB_MIGRATION_H

#include "common/error.h"
#include "common/log.h"
#include "common/options.h"
#include "engine/engine.h"
#include "engine/stats.h"
#include "fabric/fabric.h"
#include "memory/guest.h"
#include "ramferry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct rf_migration {
	rf_guest *guest; /* NULL: only options and URIs can be checked */
	struct rf_options options;
	struct rf_stats stats;
	struct rf_error error; /* of the last call that failed */
	bool used;             /* rf_send() or rf_receive() has begun */

	struct rf_log log; /* what the parts below log to; ends in log_fn */
	pthread_mutex_t log_lock;
	void (*log_fn)(void *arg, rf_log_severity severity, const char *sentence);
	void *log_arg;

	void (*progress_fn)(void *arg, const rf_progress *progress);
	void *progress_arg;

	/* For those who have both sides in one process: where the receiver listens. From rf_receive()'s thread. */
	void (*listening_fn)(void *arg, const char *address);
	void *listening_arg;

	/* rf_cancel() comes from any thread and from signal handlers, so only atomics are shared with it. `cancelling`
	 * counts the calls that may hold the fabric's pointer: it is not freed before they are through. */
	atomic_bool cancelled;
	_Atomic(struct rf_fabric *) fabric;
	atomic_uint cancelling;
};

/* From here on rf_cancel() wakes `fabric`, or no more (and then no call is still doing so). */
void rf_migration_publish(rf_migration *m, struct rf_fabric *fabric);
void rf_migration_withdraw(rf_migration *m);

/* A fabric with the migration's options, published; -1 also when it was cancelled before. */
int rf_migration_open_fabric(rf_migration *m, const struct rf_fabric_ops *ops, struct rf_fabric **out,
			     struct rf_error *e);
void rf_migration_close_fabric(rf_migration *m, struct rf_fabric *fabric);

/* Can a guest be sent to (source) or awaited at (destination) that URI? -1 with RF_E_USAGE. */
int rf_migration_check_uri(const char *text, enum rf_role role, struct rf_uri *uri, const struct rf_fabric_ops **ops,
			   struct rf_error *e);

int rf_draw_id(uint8_t id[16], struct rf_error *e);
void rf_name_us(char *name, size_t length); /* for the peer's log */

/* An engine's progress to rf_on_progress(); `arg` is the migration. */
void rf_migration_tell_progress(void *arg, const struct rf_engine_progress *p);

/* Keep the sentence in m and return its code as a result. */
rf_result rf_migration_failed(rf_migration *m, const struct rf_error *e);

#endif
