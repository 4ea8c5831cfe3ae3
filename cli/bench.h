// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry bench. A plan is a list of points (one row each: a guest and settings of the move), made from the arguments before
 * anything is measured. Each run measures all points in turn, so that whatever else goes on in the host hits all of them alike. A
 * sample is what one move told. What is shown of it is one table of metrics, and table, CSV, JSON and plot walk it.
 *
 *   bench_plan.c      arguments to points
 *   bench_run.c       points to samples
 *   bench_sample.c    samples, the metrics, medians
 *   bench_table.c bench_csv.c bench_json.c bench_plot.c    what is said
 *   bench_receive.c   the other host */
#ifndef RAMFERRY_CLI_BENCH_H
#define RAMFERRY_CLI_BENCH_H

#include "cli/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum rf_cli_experiment {
	RF_CLI_CHUNK_SIZE,
	RF_CLI_IN_FLIGHT,
	RF_CLI_CONVERGE,
	RF_CLI_ROUNDS,
	RF_CLI_BENCH_RECEIVE,
	RF_CLI_EXPERIMENTS,
};

enum { RF_CLI_POINTS = 64, RF_CLI_POINT_SETTINGS = 8, RF_CLI_RUNS_MAX = 1000 };

/* All statistics of one move, in the order of rf_stat_name() and rf_round_stat_name(). */
struct rf_cli_sample {
	uint64_t seed;
	rf_bench_outcome outcome;
	uint64_t *stats;
	uint64_t *rounds; /* nrounds times rf_cli_round_stats() */
	size_t nrounds;
};

struct rf_cli_point {
	char label[48];      /* of what varies: "32 MiB" */
	const char *presets; /* "default", "historical", or NULL where there are no two */
	double x;            /* what varies, for the plot */
	rf_bench_guest guest;
	struct rf_cli_setting settings[RF_CLI_POINT_SETTINGS]; /* in front of the user's, which count more */
	size_t nsettings;
	char value[24]; /* of a setting that was made up */
	struct rf_cli_sample *samples;
	size_t nsamples;
};

struct rf_cli_bench {
	struct rf_cli_arguments arguments;
	enum rf_cli_experiment experiment;
	const char *uri; /* of this host's receiver, or the other's */
	bool to;         /* the other's */
	uint64_t runs;
	rf_bench_guest guest;
	bool rates_wanted; /* converge: the points are made once the bandwidth is known */
	struct rf_cli_point *points;
	size_t npoints;
	char sentence[RF_CLI_WHY]; /* what went wrong */
};

/* ---- bench_plan.c: each -1 or RF_USAGE with b->sentence ---- */
int rf_cli_bench_plan(struct rf_cli_bench *b);
int rf_cli_bench_plan_rates(struct rf_cli_bench *b, uint64_t bytes_per_second);
void rf_cli_bench_free(struct rf_cli_bench *b);
const char *rf_cli_experiment_name(enum rf_cli_experiment experiment);
bool rf_cli_bench_is_sim(const struct rf_cli_bench *b);

/* ---- bench_run.c: measure all points; b->sentence tells of a failure. Samples before it are kept. ---- */
rf_result rf_cli_bench_measure(struct rf_cli_bench *b);

/* ---- bench_receive.c: until a signal, or --runs moves, have come ---- */
rf_result rf_cli_bench_receive(struct rf_cli_bench *b);

/* ---- bench_sample.c ---- */
int rf_cli_sample_take(struct rf_cli_sample *s, const rf_migration *m); /* -1: no memory */
void rf_cli_sample_free(struct rf_cli_sample *s);
uint64_t rf_cli_sample_stat(const struct rf_cli_sample *s, const char *name);
uint64_t rf_cli_sample_round_stat(const struct rf_cli_sample *s, size_t round, const char *name);
size_t rf_cli_stats(void), rf_cli_round_stats(void); /* how many there are */

struct rf_cli_metric {
	const char *name;    /* in JSON and CSV, with its unit */
	const char *head[2]; /* two lines over a column */
	int decimals;
	unsigned experiments; /* bits 1 << enum rf_cli_experiment, in whose table it stands */
	double (*of)(const struct rf_cli_sample *s);
};
extern const struct rf_cli_metric rf_cli_metrics[]; /* ends with a NULL name */
const struct rf_cli_metric *rf_cli_metric(const char *name);

struct rf_cli_spread {
	double median, minimum, maximum;
};
struct rf_cli_spread rf_cli_point_spread(const struct rf_cli_point *p, const struct rf_cli_metric *metric);
/* The sample whose total time is the median (the lower of two); NULL: there is none. */
const struct rf_cli_sample *rf_cli_point_middle(const struct rf_cli_point *p);

/* ---- what is said; each 0, or -1 when it could not be written ---- */
int rf_cli_bench_table(const struct rf_cli_bench *b, FILE *to);
int rf_cli_bench_csv(const struct rf_cli_bench *b, FILE *to);
int rf_cli_bench_json(const struct rf_cli_bench *b, rf_result result, FILE *to);
/* Both -1 with a sentence. */
int rf_cli_bench_plot_check(const char *file, char why[RF_CLI_WHY]); /* can it be drawn? */
int rf_cli_bench_plot(const struct rf_cli_bench *b, char why[RF_CLI_WHY]);

/* "1 GiB, 4 writers of 128 MiB each, 64.0 MiB/s" */
void rf_cli_bench_describe_guest(const rf_bench_guest *g, char *text, size_t length);

/* Where it is measured. */
struct rf_cli_host {
	char kernel[80], machine[80], cpu[120];
	long cpus;
	uint64_t memory_bytes;
};
void rf_cli_host_look(struct rf_cli_host *host);

#endif
