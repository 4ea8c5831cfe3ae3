// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry send */
#include "cli/run.h"

#include <stdio.h>
#include <string.h>

static void say(struct rf_cli_run *run, rf_result result)
{
	size_t length = strlen(run->sentence);

	if (result == RF_OK)
		snprintf(run->sentence, sizeof(run->sentence), "the guest is at %s now", run->arguments.uri);
	else if (result == RF_UNKNOWN &&
		 run->phase != RF_PHASE_UNDOING) /* then it runs nowhere else, and that was said */
		snprintf(
		    run->sentence + length, sizeof(run->sentence) - length,
		    " (what does the QEMU at %s say to query-status, and what did ramferry receive say? - if the "
		    "guest runs there or still might, quit the QEMU here; only when that QEMU has ended for certain, "
		    "let the guest go on here with the monitor's command cont)",
		    run->arguments.uri);
}

int rf_cli_send(int argc, char **argv)
{
	struct rf_cli_run run = {0};
	int status;

	if (rf_cli_begin(&run, RF_CLI_SEND, argc, argv, &status) != RF_OK)
		return status;

	rf_result result = rf_cli_move(&run, run.arguments.qmp, run.arguments.pid);

	say(&run, result);
	return rf_cli_end(&run, result);
}
