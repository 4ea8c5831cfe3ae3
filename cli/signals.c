// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};

/* A handler gets no argument, so this is the one place of the command with state of its own. */
static _Atomic(rf_migration *) target;
static atomic_bool came;

static void handle(int signal_number)
{
	(void)signal_number;
	atomic_store(&came, true);
	rf_cancel(atomic_load(&target));
}

static void set_handler(int signal_number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigemptyset(&action.sa_mask);
	sigaction(signal_number, &action, NULL);
}

void rf_cli_signals_catch(void)
{
	struct sigaction before;

	set_handler(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		/* nohup(1) stays in force. */
		if (caught[i] == SIGHUP && !sigaction(SIGHUP, NULL, &before) && before.sa_handler == SIG_IGN)
			continue;
		set_handler(caught[i], handle);
	}
}

void rf_cli_signals_aim(rf_migration *m)
{
	atomic_store(&target, m);
	if (m && atomic_load(&came))
		rf_cancel(m);
}

bool rf_cli_signals_came(void)
{
	return atomic_load(&came);
}

void rf_cli_signals_release(void)
{
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
		if (caught[i] != SIGHUP)
			set_handler(caught[i], SIG_DFL);
}
