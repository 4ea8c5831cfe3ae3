// SPDX-License-Identifier: LGPL-2.1-or-later
/* What cannot be moved, found before anything is touched. Every refusal is RF_E_REFUSED and names the culprit. */
#ifndef RAMFERRY_QEMU_CHECK_H
#define RAMFERRY_QEMU_CHECK_H

#include "memory/guest.h"
#include "qemu/qmp.h"

#include <sys/types.h>

/* The states of the machine and of QEMU's own migration, and what QEMU itself knows to be in the way. */
int rf_check_source_state(struct rf_qmp *q, struct rf_error *e);
int rf_check_destination_state(struct rf_qmp *q, pid_t pid, struct rf_error *e);

/* Source: whoever writes into guest RAM without QEMU's page tables knowing (writers.c). Notes in `g` what gives it back and
 * what writes there by direct I/O. */
int rf_check_writers(struct rf_qmp *q, pid_t pid, struct rf_guest *g, struct rf_error *e);

/* "running", "paused", … as query-status says. */
int rf_query_status(struct rf_qmp *q, char *status, size_t length, bool *running, struct rf_error *e);

/* The status of query-migrate ("none" if it has none); `why` (may be NULL) gets error-desc or "". */
int rf_query_migrate(struct rf_qmp *q, char *status, size_t length, char *why, size_t why_length, struct rf_error *e);

/* Does QEMU's migration stand in one of the states that only end by themselves or by migrate_cancel? */
bool rf_migrate_is_busy(const char *status);

#endif
