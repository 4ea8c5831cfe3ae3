// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry receive */
#include "cli/run.h"
#include "cli/signals.h"

#include <stdio.h>
#include <string.h>

static rf_result receive_into_child(struct rf_cli_run *run, struct rf_cli_child *child)
{
	char why[RF_CLI_WHY] = "";
	rf_result result = rf_cli_child_start(child, run->arguments.child, run->arguments.json, why);

	if (result != RF_OK) {
		snprintf(run->sentence, sizeof(run->sentence), "%s", why);
		return result;
	}
	run->child = child;
	result = rf_cli_move(run, child->socket, child->qemu);

	/* Never end a QEMU whose guest may run. */
	if (result == RF_OK || result == RF_UNKNOWN)
		rf_cli_child_keep(child);
	rf_cli_child_settle(child);
	if (result == RF_CANCELLED && child->dead && !rf_cli_signals_came()) {
		snprintf(run->sentence, sizeof(run->sentence), "%s %s before a guest had arrived", child->program,
			 child->end);
		result = RF_FAILED;
	}
	return result;
}

static void say(struct rf_cli_run *run, rf_result result)
{
	size_t length = strlen(run->sentence);

	if (result == RF_OK && run->child)
		snprintf(run->sentence, sizeof(run->sentence), "the guest is here now, in process %d",
			 (int)run->child->qemu);
	else if (result == RF_OK)
		snprintf(run->sentence, sizeof(run->sentence), "the guest is here now");
	else if (result == RF_UNKNOWN)
		snprintf(
		    run->sentence + length, sizeof(run->sentence) - length,
		    "; the guest may run here or at the source: ask both QEMUs (query-status) - if neither runs, quit "
		    "the one here, see that it has ended, and only then let the source's go on with the monitor's "
		    "command cont");
}

int rf_cli_receive(int argc, char **argv)
{
	struct rf_cli_run run = {0};
	struct rf_cli_child child;
	rf_result result;
	int status;

	if (rf_cli_begin(&run, RF_CLI_RECEIVE, argc, argv, &status) != RF_OK)
		return status;
	if (run.arguments.child)
		result = receive_into_child(&run, &child);
	else
		result = rf_cli_move(&run, run.arguments.qmp, run.arguments.pid);
	say(&run, result);
	return rf_cli_end(&run, result);
}
