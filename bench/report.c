// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/report.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void report_add(struct report_series *s, double value)
{
	if (s->count < REPORT_MAX_RUNS)
		s->values[s->count++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The values in order, in `sorted`. */
static int sort(const struct report_series *s, double *sorted)
{
	memcpy(sorted, s->values, sizeof(*sorted) * (size_t)s->count);
	qsort(sorted, (size_t)s->count, sizeof(*sorted), compare);
	return s->count;
}

double report_median(const struct report_series *s)
{
	double sorted[REPORT_MAX_RUNS];
	int n = sort(s, sorted);

	if (n == 0)
		return 0;
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double report_minimum(const struct report_series *s)
{
	double sorted[REPORT_MAX_RUNS];

	return sort(s, sorted) ? sorted[0] : 0;
}

double report_maximum(const struct report_series *s)
{
	double sorted[REPORT_MAX_RUNS];
	int n = sort(s, sorted);

	return n ? sorted[n - 1] : 0;
}

json_t *report_series_json(const struct report_series *s)
{
	json_t *runs = json_array();

	for (int i = 0; i < s->count; i++)
		json_array_append_new(runs, json_real(s->values[i]));
	return json_pack("{s:f, s:f, s:f, s:o}", "median", report_median(s), "minimum", report_minimum(s), "maximum",
			 report_maximum(s), "runs", runs);
}

/* The processor's name as the kernel gives it; not every architecture has one. */
static void cpu_name(char *name, size_t length)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];

	snprintf(name, length, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, length, "%s", colon);
		break;
	}
	if (f)
		fclose(f);
}

static int cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

json_t *report_open(const char *name)
{
	struct utsname u = {0};
	char cpu[200];

	uname(&u);
	cpu_name(cpu, sizeof(cpu));
	return json_pack("{s:s, s:s, s:s, s:i, s:s, s:I}", "bench", name, "kernel", u.release, "machine", u.machine,
			 "cpus", cpus(), "cpu", cpu, "memory_bytes",
			 (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE));
}

int report_close(json_t *report)
{
	bool bad = !report || json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) < 0;

	if (puts("") < 0 || fflush(stdout) < 0)
		bad = true;
	json_decref(report);
	return bad ? 1 : 0;
}

const char *report_where(char *buffer, size_t length)
{
	struct utsname u = {0};
	char cpu[200];

	uname(&u);
	cpu_name(cpu, sizeof(cpu));
	snprintf(buffer, length, "%d CPUs (%s), Linux %s %s", cpus(), cpu, u.release, u.machine);
	return buffer;
}

bool report_wants_json(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--json") == 0)
		return true;
	if (argc == 1)
		return false;
	fprintf(stderr, "usage: %s [--json]\n", argv[0]);
	exit(2);
}

int64_t report_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
