// SPDX-License-Identifier: LGPL-2.1-or-later
/* The command line of each subcommand. */
#ifndef RAMFERRY_CLI_OPTIONS_H
#define RAMFERRY_CLI_OPTIONS_H

#include <ramferry.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum rf_cli_side { RF_CLI_SEND, RF_CLI_RECEIVE, RF_CLI_DOCTOR, RF_CLI_BENCH };

enum { RF_CLI_SETTINGS = 64, RF_CLI_WHY = 700 };

struct rf_cli_setting { /* of the library's option table */
	const char *name, *value;
};

struct rf_cli_arguments {
	enum rf_cli_side side;
	bool help, json, quiet, verbose;
	const char *uri; /* doctor: of --to */
	const char *qmp;
	int pid;      /* 0: not given */
	char **child; /* what stands behind "--"; NULL: nothing */

	/* bench: as they were written; NULL: not given */
	const char *experiment, *to, *memory, *writers, *working_set, *rate, *pattern, *seed, *runs;
	const char *chunk_sizes, *rates, *presets, *plot;
	bool csv;

	struct rf_cli_setting settings[RF_CLI_SETTINGS];
	size_t nsettings;
};

struct rf_cli_own_option;

/* Parse what stands behind the subcommand. -1 with a sentence. `json` is right in any case. */
int rf_cli_parse(enum rf_cli_side side, int argc, char **argv, struct rf_cli_arguments *a, char why[RF_CLI_WHY]);

/* Give the settings to a migration. */
rf_result rf_cli_apply(const struct rf_cli_arguments *a, rf_migration *m);

/* "send", "receive", "doctor", "bench" */
const char *rf_cli_name(enum rf_cli_side side);

/* Does the library's option mean something to that subcommand? A doctor asks about moves of either side. */
bool rf_cli_takes(enum rf_cli_side side, const rf_option_info *info);

bool rf_cli_owns(enum rf_cli_side side, const struct rf_cli_own_option *own);

/* cli/help.c */
void rf_cli_help(FILE *to, enum rf_cli_side side);
void rf_cli_overview(FILE *to);

/* The options that are the command's own, for parser and help. */
struct rf_cli_own_option {
	const char *name, *value; /* value NULL: a flag */
	const char *help;
	size_t offset;  /* of its field in struct rf_cli_arguments */
	unsigned sides; /* bits 1 << enum rf_cli_side: whose option it is */
};

extern const struct rf_cli_own_option rf_cli_own_options[]; /* ends with a NULL name */

#endif
