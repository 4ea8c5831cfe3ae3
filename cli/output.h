// SPDX-License-Identifier: LGPL-2.1-or-later
/* Lines to standard output and standard error, by a thread of their own: a reader that is slow, stopped (Ctrl-S) or gone
 * must never hold up a migration, least of all while the guest stands still. */
#ifndef RAMFERRY_CLI_OUTPUT_H
#define RAMFERRY_CLI_OUTPUT_H

#include <stdbool.h>

struct rf_cli_output;

enum rf_cli_line {
	RF_CLI_LINE,  /* always written, whole */
	RF_CLI_LIVE,  /* overwrites the live line on a terminal; the latest is good enough */
	RF_CLI_FRESH, /* a line that may be left out when the reader cannot follow */
};

struct rf_cli_output *rf_cli_output_open(void); /* NULL: no memory */

/* Write `text`, without newline, to `fd` (1 or 2). From any thread. */
void rf_cli_output_put(struct rf_cli_output *o, int fd, enum rf_cli_line kind, const char *text);

/* Write what is left, and free. */
void rf_cli_output_close(struct rf_cli_output *o);

/* Columns of the terminal at standard output; 0: it is none. */
int rf_cli_output_columns(void);

#endif
