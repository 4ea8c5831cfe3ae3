// SPDX-License-Identifier: LGPL-2.1-or-later
/* `ramferry receive URI -- qemu-system-x86_64 …`: a QEMU that is started to receive a guest.
 *
 * Until the guest is here, that QEMU is nothing without ramferry and ends with it, however ramferry ends. Once the guest
 * is here it is the other way round: the QEMU must live, whatever happens to ramferry. In between, while the switchover
 * goes on, the guest may begin to run before we are told. A ramferry that is killed in that moment leaves the QEMU alone: a
 * stopped QEMU too many is a nuisance, an ended guest is a loss. */
#ifndef RAMFERRY_CLI_CHILD_H
#define RAMFERRY_CLI_CHILD_H

#include "cli/options.h"

#include <ramferry.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RF_CLI_SOCKET = 100 };

struct rf_cli_child {
	const char *program;
	pid_t minder, qemu;
	int control; /* to the minder */
	int pidfd;   /* of the QEMU */
	char directory[RF_CLI_SOCKET];
	char socket[RF_CLI_SOCKET + 8]; /* the QMP monitor for ramferry */
	bool kept;

	pthread_t watcher;
	bool watching;
	void (*on_death)(void *arg);
	void *on_death_arg;
	atomic_bool dead; /* it ended although nobody wanted it to; how, stands in `end` */
	char end[80];
};

/* Start it and wait until its monitor answers. Its standard output becomes standard error if `output_is_ours`.
 * RF_REFUSED or RF_CANCELLED with a sentence; then nothing is left of it. */
rf_result rf_cli_child_start(struct rf_cli_child *c, char **argv, bool output_is_ours, char why[RF_CLI_WHY]);

/* Call `fn` once, from another thread, when it ends before rf_cli_child_settle(). */
void rf_cli_child_watch(struct rf_cli_child *c, void (*fn)(void *arg), void *arg);

/* The guest is its own from now on: it lives on, whatever becomes of us. */
void rf_cli_child_keep(struct rf_cli_child *c);

/* The move is over: end it, unless it is kept. */
void rf_cli_child_settle(struct rf_cli_child *c);

/* cli/minder.c: what the minder tells about the QEMU. */
enum rf_cli_news { RF_CLI_STARTED, RF_CLI_NOT_STARTED, RF_CLI_ENDED };

/* What the minder is told, one byte each: the fate of the QEMU when nothing more comes. At first it is RF_CLI_END_IT. */
enum rf_cli_fate { RF_CLI_END_IT = 'e', RF_CLI_LEAVE_IT = 'l' };

struct rf_cli_minder_message {
	enum rf_cli_news news;
	int value;     /* STARTED: its pid. NOT_STARTED: an errno value. ENDED: status or signal, with */
	int by_signal; /* whether it was a signal */
};

struct rf_cli_minder {
	int control;
	char **argv;
	bool output_is_ours;
	const char *directory, *socket; /* removed at the end */
};

/* The life of the minder's process, behind fork(). */
_Noreturn void rf_cli_mind(const struct rf_cli_minder *m);

#endif
