// SPDX-License-Identifier: LGPL-2.1-or-later
/* What every program of bench/ needs: medians with their spread, and JSON that says where it was measured. */
#ifndef RAMFERRY_BENCH_REPORT_H
#define RAMFERRY_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { REPORT_MAX_RUNS = 100 };

/* Values of one thing over several runs. Start with {0}. */
struct report_series {
	double values[REPORT_MAX_RUNS];
	int count;
};

void report_add(struct report_series *s, double value); /* beyond REPORT_MAX_RUNS: left out */
double report_median(const struct report_series *s);    /* 0 for none */
double report_minimum(const struct report_series *s);
double report_maximum(const struct report_series *s);

/* {"median": , "minimum": , "maximum": , "runs": [ ]} */
json_t *report_series_json(const struct report_series *s);

/* {"bench": name, "kernel": , "machine": , "cpus": , "cpu": , "memory_bytes": }: a new object to add fields to. */
json_t *report_open(const char *name);

/* Print the object on standard output and release it. 0, or 1 (an exit status) when it could not be written. */
int report_close(json_t *report);

/* One line for the head of a table: "2 CPUs (Intel …), Linux 6.18.0 x86_64". Returns `buffer`. */
const char *report_where(char *buffer, size_t length);

/* Does the command line ask for JSON? Any other argument: prints the usage and exits with 2. */
bool report_wants_json(int argc, char **argv);

int64_t report_now_ns(void);

#endif
