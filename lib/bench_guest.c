// SPDX-License-Identifier: LGPL-2.1-or-later
/* Guests to measure with: do their numbers make sense, and is there room for them? */
#include "lib/bench.h"

#include "common/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { WRITERS_MAX = 1024 };

static const uint64_t MEMORY_MAX = UINT64_C(64) << 40;
static const uint64_t SPARE_BYTES = UINT64_C(128) << 20; /* for all that is not the guests */

int rf_bench_check_guest(const rf_bench_guest *guest, struct rf_error *e)
{
	if (!guest || guest->size < sizeof *guest)
		return rf_fail(e, RF_E_USAGE, "a guest to measure with is needed, with its size in `size`");
	if (!guest->memory_bytes || guest->memory_bytes % RF_PAGE_BYTES || guest->memory_bytes > MEMORY_MAX)
		return rf_fail(e, RF_E_USAGE, "the guest's memory must be a multiple of 4 KiB, and at most 64 TiB");
	if (guest->pattern != RF_BENCH_RANDOM && guest->pattern != RF_BENCH_SWEEP)
		return rf_fail(e, RF_E_USAGE, "there is no such pattern of writing");
	if (!guest->writers)
		return 0;
	if (guest->writers > WRITERS_MAX)
		return rf_fail(e, RF_E_USAGE, "%d writers are the most", WRITERS_MAX);
	if (!guest->working_bytes || guest->working_bytes % RF_PAGE_BYTES ||
	    guest->working_bytes > guest->memory_bytes / guest->writers)
		return rf_fail(e, RF_E_USAGE,
			       "the working set of a writer must be a multiple of 4 KiB, and no more than its share "
			       "of the guest's memory");
	return 0;
}

/* 0: nobody knows. */
static uint64_t available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

/* A host that runs out of memory kills somebody, and seldom the one who asked for too much. */
int rf_bench_check_memory(const rf_bench_guest *guest, unsigned guests, struct rf_error *e)
{
	uint64_t available = available_bytes(), needed = guest->memory_bytes * guests + SPARE_BYTES;
	char has[40], needs[40];

	if (!available || needed <= available)
		return 0;
	return rf_fail(e, RF_E_REFUSED, "%s are needed%s and only %s are free here: take a smaller guest",
		       rf_format_size(needed, needs, sizeof needs), guests > 1 ? " for both sides" : "",
		       rf_format_size(available, has, sizeof has));
}

int rf_bench_open_guest(const rf_bench_guest *guest, enum rf_role role, struct rf_synthetic **out, struct rf_error *e)
{
	struct rf_synthetic_spec spec = {
	    .role = role,
	    .memory_bytes = guest->memory_bytes,
	    .writers = guest->writers,
	    .working_bytes = guest->working_bytes,
	    .bytes_per_second =
		guest->bytes_per_second == RF_BENCH_NO_LIMIT ? RF_SYNTHETIC_NO_LIMIT : guest->bytes_per_second,
	    .sweep = guest->pattern == RF_BENCH_SWEEP,
	    .seed = guest->seed,
	};

	return rf_synthetic_open(&spec, out, e);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t rf_bench_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t rf_bench_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}
