// SPDX-License-Identifier: LGPL-2.1-or-later
/* What do scattered pages cost? Random 4 KiB runs through fabric/tcp against one plain socket that streams the same
 * buffer from its beginning to its end in 1 MiB writes.
 *
 * Both move 512 MiB between two processes, from a shared mapping that is full of data and far larger than the caches, to
 * a shared mapping that nobody has touched (a new one each run): the time has the first touch of every page in it, also
 * the registrations of the fabric. Runs take turns, so that a busy neighbour hits all. `ratio` is the median scattered
 * throughput over the median sequential one, with as many lanes as the fabric chooses here; `ratio_one_lane` is told
 * beside it. With a `ratio` below 0.8 the batching has lost its point, and the program exits with 1. */
#include "bench/scatter.h"
#include "bench/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RUNS = 7 };
#define AIM 0.8

static void shuffle(uint32_t *order, uint64_t *state)
{
	for (uint32_t i = 0; i < SCATTER_PAGES; i++)
		order[i] = i;
	for (size_t i = SCATTER_PAGES - 1; i > 0; i--) {
		size_t j = scatter_random(state) % (i + 1);
		uint32_t swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

struct table {
	struct report_series sequential, scattered, one_lane, registering;
	unsigned lanes;
	double ratio, ratio_one_lane;
};

static void measure(struct table *t)
{
	uint32_t *order = malloc(SCATTER_PAGES * sizeof(*order));
	unsigned char *memory = scatter_map();
	uint64_t state = 0x853c49e6748fea9b;

	scatter_need(order != NULL, "malloc");
	for (size_t i = 0; i < SCATTER_BYTES; i += sizeof(uint64_t)) {
		uint64_t word = scatter_random(&state);

		memcpy(memory + i, &word, sizeof(word));
	}
	for (unsigned run = 0; run < RUNS; run++) {
		scatter_stamp(memory, run);
		shuffle(order, &state);
		report_add(&t->sequential, scatter_run_stream(memory, run));
		struct scatter_result r = scatter_run_fabric(memory, order, 0, run);

		report_add(&t->scattered, r.mib_per_second);
		report_add(&t->registering, r.register_seconds);
		t->lanes = r.lanes;
		report_add(&t->one_lane, scatter_run_fabric(memory, order, 1, run).mib_per_second);
	}
	t->ratio = report_median(&t->scattered) / report_median(&t->sequential);
	t->ratio_one_lane = report_median(&t->one_lane) / report_median(&t->sequential);
	free(order);
	munmap(memory, SCATTER_BYTES);
}

static void print_json(const struct table *t)
{
	json_t *o = report_open("scatter");

	json_object_set_new(o, "bytes", json_integer((json_int_t)SCATTER_BYTES));
	json_object_set_new(o, "lanes", json_integer(t->lanes));
	json_object_set_new(o, "sequential_mib_per_second", report_series_json(&t->sequential));
	json_object_set_new(o, "scattered_mib_per_second", report_series_json(&t->scattered));
	json_object_set_new(o, "scattered_one_lane_mib_per_second", report_series_json(&t->one_lane));
	json_object_set_new(o, "register_seconds", report_series_json(&t->registering));
	json_object_set_new(o, "ratio", json_real(t->ratio));
	json_object_set_new(o, "ratio_one_lane", json_real(t->ratio_one_lane));
	if (report_close(o))
		scatter_die("cannot write the result");
}

static void print_row(const char *what, const struct report_series *s, const char *unit)
{
	printf("%-44s %8.4g %8.4g %8.4g  %s\n", what, report_median(s), report_minimum(s), report_maximum(s), unit);
}

static void print_table(const struct table *t)
{
	char where[300], name[80];

	printf("%d runs of %zu MiB each, in turns; %s\n\n", RUNS, SCATTER_BYTES >> 20,
	       report_where(where, sizeof(where)));
	printf("%-44s %8s %8s %8s\n", "", "median", "min", "max");
	print_row("one plain stream, 1 MiB writes, in order", &t->sequential, "MiB/s");
	snprintf(name, sizeof(name), "fabric/tcp, random 4 KiB, %u lane(s)", t->lanes);
	print_row(name, &t->scattered, "MiB/s");
	print_row("  of that time, registering 64 MiB chunks", &t->registering, "s");
	print_row("fabric/tcp, random 4 KiB, 1 lane", &t->one_lane, "MiB/s");
	printf("\nratio %.2f (at least %.1f), with one lane %.2f\n", t->ratio, AIM, t->ratio_one_lane);
}

int main(int argc, char **argv)
{
	bool json = report_wants_json(argc, argv);
	struct table t = {0};

	measure(&t);
	if (json)
		print_json(&t);
	else
		print_table(&t);
	return t.ratio >= AIM ? 0 : 1;
}
