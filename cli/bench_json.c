// SPDX-License-Identifier: LGPL-2.1-or-later
/* All that was measured, and where, as one object. */
#include "cli/bench.h"
#include "cli/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* What a user wrote may hold anything; a JSON string holds UTF-8 only. */
static json_t *clean(const char *text)
{
	char *copy = strdup(text);
	json_t *string = copy ? json_string(rf_cli_clean(copy)) : NULL;

	free(copy);
	return string;
}

static json_t *environment(void)
{
	struct rf_cli_host host;

	rf_cli_host_look(&host);
	return json_pack("{s:s, s:o, s:s, s:I, s:o, s:o}", "ramferry", rf_version(), "kernel", clean(host.kernel),
			 "machine", host.machine, "cpus", (json_int_t)host.cpus, "cpu", clean(host.cpu), "memory_bytes",
			 integer(host.memory_bytes));
}

static json_t *guest(const rf_bench_guest *g)
{
	return json_pack("{s:o, s:i, s:o, s:o, s:s, s:o}", "memory_bytes", integer(g->memory_bytes), "writers",
			 (int)g->writers, "working_bytes", integer(g->working_bytes), "bytes_per_second",
			 g->bytes_per_second == RF_BENCH_NO_LIMIT ? json_null() : integer(g->bytes_per_second),
			 "pattern", g->pattern == RF_BENCH_SWEEP ? "sweep" : "random", "seed", integer(g->seed));
}

/* As the move had them: the user's count more. */
static json_t *options(const struct rf_cli_bench *b, const struct rf_cli_point *p)
{
	const struct rf_cli_arguments *a = &b->arguments;
	json_t *all = json_pack("{s:s}", "on-stall", "force");

	for (size_t i = 0; p && i < p->nsettings; i++)
		json_object_set_new(all, p->settings[i].name, clean(p->settings[i].value));
	for (size_t i = 0; i < a->nsettings; i++)
		json_object_set_new(all, a->settings[i].name, clean(a->settings[i].value));
	return all;
}

static json_t *metrics(const struct rf_cli_point *p)
{
	json_t *all = json_object();

	for (const struct rf_cli_metric *m = rf_cli_metrics; m->name; m++) {
		struct rf_cli_spread s = rf_cli_point_spread(p, m);

		json_object_set_new(
		    all, m->name,
		    json_pack("{s:f, s:f, s:f}", "median", s.median, "minimum", s.minimum, "maximum", s.maximum));
	}
	return all;
}

static json_t *sample(const struct rf_cli_sample *s)
{
	json_t *stats = json_object(), *rounds = json_array();

	for (size_t i = 0; rf_stat_name(i); i++)
		json_object_set_new(stats, rf_stat_name(i), integer(s->stats[i]));
	for (size_t round = 0; round < s->nrounds; round++) {
		json_t *one = json_object();

		for (size_t i = 0; rf_round_stat_name(i); i++)
			json_object_set_new(one, rf_round_stat_name(i),
					    integer(s->rounds[round * rf_cli_round_stats() + i]));
		json_array_append_new(rounds, one);
	}
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seed", integer(s->seed), "guest_written_bytes",
			 integer(s->outcome.written_bytes), "guest_ran_ns", integer(s->outcome.ran_ns), "real_ns",
			 integer(s->outcome.real_ns), "cpu_ns", integer(s->outcome.cpu_ns), "stats", stats, "rounds",
			 rounds);
}

static json_t *row(const struct rf_cli_bench *b, const struct rf_cli_point *p)
{
	json_t *runs = json_array();

	for (size_t i = 0; i < p->nsamples; i++)
		json_array_append_new(runs, sample(&p->samples[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "point", clean(p->label), "settings",
			 p->presets ? json_string(p->presets) : json_null(), "guest", guest(&p->guest), "options",
			 options(b, p), "metrics", metrics(p), "runs", runs);
}

static json_t *report(const struct rf_cli_bench *b, rf_result result)
{
	const char *name = b->arguments.experiment ? b->arguments.experiment : "";
	json_t *rows = json_array(), *all;
	char fabric[24];

	snprintf(fabric, sizeof(fabric), "%.*s", b->uri ? (int)strcspn(b->uri, ":") : 0, b->uri ? b->uri : "");
	for (size_t i = 0; i < b->npoints; i++)
		json_array_append_new(rows, row(b, &b->points[i]));
	all = json_pack("{s:o, s:i, s:o, s:o, s:o, s:o, s:b, s:b, s:I, s:o, s:o, s:o}", "bench", clean(name), "status",
			result == RF_CANCELLED ? RF_FAILED : (int)result, "error",
			result == RF_OK ? json_null() : clean(b->sentence), "environment", environment(), "fabric",
			clean(fabric), "uri", b->uri ? clean(b->uri) : json_null(), "virtual_time",
			b->uri && rf_cli_bench_is_sim(b), "two_hosts", b->to, "runs", (json_int_t)b->runs, "guest",
			guest(&b->guest), "options", options(b, NULL), "rows", rows);
	return all;
}

int rf_cli_bench_json(const struct rf_cli_bench *b, rf_result result, FILE *to)
{
	json_t *all = report(b, result);
	int failed = !all || json_dumpf(all, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) < 0;

	fputc('\n', to);
	json_decref(all);
	return failed || fflush(to) || ferror(to) ? -1 : 0;
}
