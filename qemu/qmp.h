// SPDX-License-Identifier: LGPL-2.1-or-later
/* A client of QEMU's machine protocol (QMP) on a unix socket. One thread at a time. */
#ifndef RAMFERRY_QEMU_QMP_H
#define RAMFERRY_QEMU_QMP_H

#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rf_qmp;

/* How long a command may take. QEMU answers within milliseconds unless its main loop is busy. */
enum { RF_QMP_TIMEOUT_MS = 30000 };

/* Called for every event that arrives while somebody reads. `data` is NULL if it has none. */
typedef void rf_qmp_event_fn(void *arg, const char *name, const json_t *data);

/* Connect only; the peer is known from then on. RF_E_REFUSED with a sentence. */
int rf_qmp_connect(const char *path, struct rf_qmp **out, struct rf_error *e);

/* The process that listens at the socket. 0: it lives in a process namespace that is not ours. */
pid_t rf_qmp_peer(const struct rf_qmp *q);

/* Take the greeting and enter command mode. RF_E_REFUSED: not a QMP monitor, or somebody else uses it. */
int rf_qmp_greet(struct rf_qmp *q, struct rf_error *e);

/* major * 10000 + minor * 100 + micro: 7.2.22 is 70222. */
int rf_qmp_version(const struct rf_qmp *q);

/* While an event is handed over: when QEMU sent it, in microseconds of CLOCK_REALTIME. 0: it does not say. */
int64_t rf_qmp_event_us(const struct rf_qmp *q);

void rf_qmp_on_event(struct rf_qmp *q, rf_qmp_event_fn *fn, void *arg);

/* Run a command and wait for its answer. Takes `arguments` (NULL: none). *answer, if wanted, is the caller's. -1 with
 * RF_E_FAILED: QEMU's own sentence, or the monitor is dead, or no answer within RF_QMP_TIMEOUT_MS. */
int rf_qmp_call(struct rf_qmp *q, const char *command, json_t *arguments, json_t **answer, struct rf_error *e);

/* Did the last command go out and get no answer? Then it may have been carried out. */
bool rf_qmp_unanswered(const struct rf_qmp *q);

/* As rf_qmp_call, and pass a descriptor along (for getfd). It stays the caller's. */
int rf_qmp_call_with_fd(struct rf_qmp *q, const char *command, json_t *arguments, int fd, struct rf_error *e);

/* A command of the human monitor. *text is the caller's to free. */
int rf_qmp_human(struct rf_qmp *q, const char *line, char **text, struct rf_error *e);

/* Send only, and never look at the answer. Takes `arguments`. What was posted is carried out before what is called later. */
int rf_qmp_post(struct rf_qmp *q, const char *command, json_t *arguments, struct rf_error *e);

/* Take events that have arrived; wait up to `timeout_ms` for the first. -1: the monitor is dead. */
int rf_qmp_take_events(struct rf_qmp *q, int timeout_ms, struct rf_error *e);

/* To poll together with others; readable: call rf_qmp_take_events(). */
int rf_qmp_fd(const struct rf_qmp *q);

void rf_qmp_close(struct rf_qmp *q); /* NULL is fine */

#endif
