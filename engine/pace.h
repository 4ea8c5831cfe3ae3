// SPDX-License-Identifier: LGPL-2.1-or-later
/* max-bandwidth: a token bucket that holds 10 ms, so that no second sees more than 1 % above the limit. */
#ifndef RAMFERRY_ENGINE_PACE_H
#define RAMFERRY_ENGINE_PACE_H

#include <stdint.h>

struct rf_pace {
	uint64_t bytes_per_second; /* 0: no limit */
	int64_t full_ns;           /* when the bucket is full again; tokens are (full_ns - now) short of full */
};

void rf_pace_init(struct rf_pace *p, uint64_t bytes_per_second);

/* May a write go now? 0, or the nanoseconds until it may. A write may overdraw the bucket; the next then waits longer. */
int64_t rf_pace_wait(const struct rf_pace *p, int64_t now_ns);
void rf_pace_took(struct rf_pace *p, int64_t now_ns, uint64_t bytes);

#endif
