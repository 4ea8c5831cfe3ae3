// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the user is told: one of two voices, for people and for programs. */
#ifndef RAMFERRY_CLI_REPORT_H
#define RAMFERRY_CLI_REPORT_H

#include "cli/options.h"
#include "cli/output.h"

#include <ramferry.h>

#include <stdbool.h>

struct rf_cli_report;

/* log and progress come as rf_on_log() and rf_on_progress() say. */
struct rf_cli_voice {
	void (*log)(struct rf_cli_report *r, rf_log_severity severity, const char *sentence);
	void (*progress)(struct rf_cli_report *r, const rf_progress *p);
	void (*summary)(struct rf_cli_report *r);
	/* The last word. `result` RF_OK: `sentence` says what was done, otherwise what went wrong. */
	void (*result)(struct rf_cli_report *r, rf_result result, const char *sentence);
};

struct rf_cli_report {
	const struct rf_cli_voice *voice;
	struct rf_cli_output *output;
	enum rf_cli_side side;
	bool quiet, verbose;
	int columns;           /* of the terminal; 0: none */
	const rf_migration *m; /* for statistics; NULL: it has not begun */
	bool progress_told;    /* something was said about last_phase */
	rf_phase last_phase;
};

extern const struct rf_cli_voice rf_cli_for_people;   /* progress.c, summary.c */
extern const struct rf_cli_voice rf_cli_for_programs; /* json.c */

void rf_cli_summary(struct rf_cli_report *r);
const char *rf_cli_phase(rf_phase phase); /* one word */
int rf_cli_status(rf_result result);      /* the exit status */

#endif
