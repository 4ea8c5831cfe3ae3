// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cli/run.h"
#include "cli/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int rf_cli_status(rf_result result)
{
	return result == RF_CANCELLED ? RF_FAILED : (int)result;
}

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	struct rf_cli_run *run = arg;

	run->report.voice->log(&run->report, severity, sentence);
}

/* Before anything is said: what becomes of a child from this moment on, should we be killed. */
static void on_progress(void *arg, const rf_progress *p)
{
	struct rf_cli_run *run = arg;

	if (run->child && p->phase == RF_PHASE_RUNNING)
		rf_cli_child_keep(run->child);
	run->phase = (int)p->phase;
	run->report.voice->progress(&run->report, p);
}

/* The child has ended. If the move has failed already, it was told to. From the watcher's thread. */
static void on_death(void *arg)
{
	struct rf_cli_run *run = arg;

	if (run->phase != RF_PHASE_UNDOING)
		rf_cancel(run->m);
}

/* Options and URI, by a migration without a guest. */
static rf_result check_with_library(struct rf_cli_run *run)
{
	const struct rf_cli_arguments *a = &run->arguments;
	rf_migration *m = rf_migration_new(NULL);
	rf_result result = RF_FAILED;

	if (!m) {
		snprintf(run->sentence, sizeof(run->sentence), "no memory");
		return result;
	}
	result = rf_cli_apply(a, m);
	if (result == RF_OK)
		result = a->side == RF_CLI_SEND ? rf_send(m, a->uri) : rf_receive(m, a->uri);
	if (result != RF_REFUSED) /* there is no guest: all else was right */
		snprintf(run->sentence, sizeof(run->sentence), "%s; see ramferry %s --help", rf_error(m),
			 rf_cli_name(a->side));
	rf_migration_free(m);
	return result == RF_REFUSED ? RF_OK : result;
}

rf_result rf_cli_begin(struct rf_cli_run *run, enum rf_cli_side side, int argc, char **argv, int *status)
{
	struct rf_cli_arguments *a = &run->arguments;
	char why[RF_CLI_WHY] = "";
	int failed = rf_cli_parse(side, argc, argv, a, why);

	if (!failed && a->help) {
		rf_cli_help(stdout, side);
		*status = fflush(stdout) ? RF_FAILED : RF_OK;
		return RF_USAGE;
	}
	rf_cli_signals_catch();
	run->phase = -1;
	run->report = (struct rf_cli_report){
	    .voice = a->json ? &rf_cli_for_programs : &rf_cli_for_people,
	    .output = rf_cli_output_open(),
	    .side = side,
	    .quiet = a->quiet,
	    .verbose = a->verbose,
	    .columns = rf_cli_output_columns(),
	};
	if (!run->report.output) {
		*status = RF_FAILED;
		return RF_FAILED;
	}

	rf_result result = RF_USAGE;

	if (failed)
		snprintf(run->sentence, sizeof(run->sentence), "%s; see ramferry %s --help", why, rf_cli_name(side));
	else
		result = check_with_library(run);
	if (result != RF_OK)
		*status = rf_cli_end(run, result);
	return result;
}

rf_result rf_cli_move(struct rf_cli_run *run, const char *socket, int pid)
{
	const struct rf_cli_arguments *a = &run->arguments;
	char why[RF_CLI_WHY] = "";
	rf_result result = rf_guest_open_qemu(&run->guest, socket, pid, why, sizeof(why));

	if (result != RF_OK) {
		snprintf(run->sentence, sizeof(run->sentence), "%s", why);
		return result;
	}
	run->m = rf_migration_new(run->guest);
	if (!run->m) {
		snprintf(run->sentence, sizeof(run->sentence), "no memory");
		return RF_FAILED;
	}
	run->report.m = run->m;
	rf_on_log(run->m, on_log, run);
	rf_on_progress(run->m, on_progress, run);
	rf_cli_signals_aim(run->m);
	if (run->child)
		rf_cli_child_watch(run->child, on_death, run);
	result = rf_cli_apply(a, run->m);
	if (result == RF_OK)
		result = a->side == RF_CLI_SEND ? rf_send(run->m, a->uri) : rf_receive(run->m, a->uri);
	snprintf(run->sentence, sizeof(run->sentence), "%s", rf_error(run->m));
	return result;
}

int rf_cli_end(struct rf_cli_run *run, rf_result result)
{
	rf_cli_signals_aim(NULL);
	rf_cli_signals_release();
	if (run->m && (result == RF_OK || result == RF_UNKNOWN))
		run->report.voice->summary(&run->report);
	run->report.voice->result(&run->report, result, run->sentence);
	rf_cli_output_close(run->report.output);
	rf_migration_free(run->m);
	rf_guest_free(run->guest);
	return rf_cli_status(result);
}
