// SPDX-License-Identifier: LGPL-2.1-or-later
/* Numbers with units, as people write them. Sizes are powers of 1024 (64M, 64MiB, 1g); rates are bytes per second
 * (500M, 1GiB/s) unless the unit says bit (10Gbit, 400Mbit/s: powers of 1000, divided by 8); durations are
 * milliseconds unless the unit says ns, us, ms, s, min or h (300, 300ms, 1.5s). */
#ifndef RAMFERRY_COMMON_SIZES_H
#define RAMFERRY_COMMON_SIZES_H

#include "common/error.h"

#include <stddef.h>
#include <stdint.h>

/* Each: the whole of `text` is one number in range of uint64_t, or -1 with a sentence (RF_E_USAGE). */
int rf_parse_size(const char *text, uint64_t *bytes, struct rf_error *e);
int rf_parse_rate(const char *text, uint64_t *bytes_per_second, struct rf_error *e);
int rf_parse_duration(const char *text, uint64_t *ns, struct rf_error *e);
int rf_parse_count(const char *text, uint64_t *count, struct rf_error *e);

/* "64 MiB", "1.50 GiB", "300 ms", "1.20 s": three significant digits at most; the exact value where it is whole. */
const char *rf_format_size(uint64_t bytes, char *buffer, size_t length);
const char *rf_format_duration(uint64_t ns, char *buffer, size_t length);

#endif
