// SPDX-License-Identifier: LGPL-2.1-or-later
/* What `send` and `receive` have in common. */
#ifndef RAMFERRY_CLI_RUN_H
#define RAMFERRY_CLI_RUN_H

#include "cli/child.h"
#include "cli/options.h"
#include "cli/report.h"

enum { RF_CLI_SENTENCE = 1300 };

struct rf_cli_run {
	struct rf_cli_arguments arguments;
	struct rf_cli_report report;
	struct rf_cli_child *child; /* receive, behind "--" */
	rf_guest *guest;
	rf_migration *m;
	_Atomic int phase;              /* rf_phase, or -1 */
	char sentence[RF_CLI_SENTENCE]; /* the last word */
};

/* Each returns the exit status. argv is what stands behind the subcommand. */
int rf_cli_send(int argc, char **argv);
int rf_cli_receive(int argc, char **argv);
int rf_cli_doctor(int argc, char **argv);
int rf_cli_bench(int argc, char **argv);

/* Parse and check everything that can be checked without touching anything. RF_OK: go on. Otherwise *status is the
 * exit status, and everything was said. */
rf_result rf_cli_begin(struct rf_cli_run *run, enum rf_cli_side side, int argc, char **argv, int *status);

/* Take the QEMU at `socket` and move its guest. The sentence of a failure is in run->sentence. */
rf_result rf_cli_move(struct rf_cli_run *run, const char *socket, int pid);

/* Say the last word and free everything. Returns the exit status. */
int rf_cli_end(struct rf_cli_run *run, rf_result result);

#endif
