// SPDX-License-Identifier: LGPL-2.1-or-later
/* Numbers and sentences for people. Each returns `buffer`. */
#ifndef RAMFERRY_CLI_TEXT_H
#define RAMFERRY_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { RF_CLI_NUMBER = 32 }; /* room for any of the numbers */

const char *rf_cli_bytes(uint64_t bytes, char buffer[RF_CLI_NUMBER]);     /* "1.50 GiB" */
const char *rf_cli_rate(uint64_t per_second, char buffer[RF_CLI_NUMBER]); /* "420 MiB/s" */
const char *rf_cli_time(uint64_t ns, char buffer[RF_CLI_NUMBER]);         /* "12.3 ms" */

/* What came from elsewhere (a peer, a QEMU, a file name) must neither move the cursor nor break lines or JSON:
 * control characters become '?', and so does every byte of what is no UTF-8. In place. */
char *rf_cli_clean(char *text);

#endif
