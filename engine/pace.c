// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/pace.h"

static const int64_t BUCKET_NS = 10000000;

void rf_pace_init(struct rf_pace *p, uint64_t bytes_per_second)
{
	*p = (struct rf_pace){.bytes_per_second = bytes_per_second, .full_ns = INT64_MIN};
}

int64_t rf_pace_wait(const struct rf_pace *p, int64_t now_ns)
{
	/* full_ns lies this far ahead: more than a bucket means that it is overdrawn. */
	if (!p->bytes_per_second || p->full_ns <= now_ns || p->full_ns - now_ns <= BUCKET_NS)
		return 0;
	return p->full_ns - now_ns - BUCKET_NS;
}

void rf_pace_took(struct rf_pace *p, int64_t now_ns, uint64_t bytes)
{
	if (!p->bytes_per_second)
		return;
	if (p->full_ns < now_ns)
		p->full_ns = now_ns;
	p->full_ns += (int64_t)((double)bytes * 1e9 / (double)p->bytes_per_second);
}
