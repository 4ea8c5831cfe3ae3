// SPDX-License-Identifier: LGPL-2.1-or-later
/* One line for each move: what it was, the metrics, and all statistics. */
#include "cli/bench.h"

#include <inttypes.h>
#include <string.h>

/* A value that holds what separates values is quoted. */
static void print_text(const char *text, FILE *to)
{
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, to);
		return;
	}
	fputc('"', to);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', to);
		fputc(*text, to);
	}
	fputc('"', to);
}

static void print_header(FILE *to)
{
	fputs("bench,uri,settings,point,run,seed,guest_memory_bytes,guest_writers,guest_working_bytes,"
	      "guest_bytes_per_second",
	      to);
	for (const struct rf_cli_metric *m = rf_cli_metrics; m->name; m++)
		fprintf(to, ",%s", m->name);
	for (size_t i = 0; rf_stat_name(i); i++)
		fprintf(to, ",%s", rf_stat_name(i));
	fputs("\n", to);
}

static void print_sample(const struct rf_cli_bench *b, const struct rf_cli_point *p, size_t run, FILE *to)
{
	const struct rf_cli_sample *s = &p->samples[run];
	const rf_bench_guest *g = &p->guest;

	fprintf(to, "%s,", rf_cli_experiment_name(b->experiment));
	print_text(b->uri, to);
	fprintf(to, ",%s,", p->presets ? p->presets : "");
	print_text(p->label, to);
	fprintf(to, ",%zu,%" PRIu64 ",%" PRIu64 ",%u,%" PRIu64 ",", run + 1, s->seed, g->memory_bytes, g->writers,
		g->working_bytes);
	if (g->bytes_per_second == RF_BENCH_NO_LIMIT)
		fputs("max", to);
	else
		fprintf(to, "%" PRIu64, g->bytes_per_second);
	for (const struct rf_cli_metric *m = rf_cli_metrics; m->name; m++)
		fprintf(to, ",%.6g", m->of(s));
	for (size_t i = 0; rf_stat_name(i); i++)
		fprintf(to, ",%" PRIu64, s->stats[i]);
	fputs("\n", to);
}

int rf_cli_bench_csv(const struct rf_cli_bench *b, FILE *to)
{
	print_header(to);
	for (size_t i = 0; i < b->npoints; i++)
		for (size_t run = 0; run < b->points[i].nsamples; run++)
			print_sample(b, &b->points[i], run, to);
	return fflush(to) || ferror(to) ? -1 : 0;
}
