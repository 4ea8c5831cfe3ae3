// SPDX-License-Identifier: LGPL-2.1-or-later
/* SIGINT, SIGTERM and SIGHUP end the migration where that is safe; any number of them, nothing more. */
#ifndef RAMFERRY_CLI_SIGNALS_H
#define RAMFERRY_CLI_SIGNALS_H

#include <ramferry.h>

#include <stdbool.h>

/* Catch them from now on; SIGPIPE is ignored. */
void rf_cli_signals_catch(void);

/* What they cancel; one that came before cancels at once. NULL: nothing. */
void rf_cli_signals_aim(rf_migration *m);

bool rf_cli_signals_came(void);

/* The move is over: from now on they end the command as usual (its output may have no reader). */
void rf_cli_signals_release(void);

#endif
