// SPDX-License-Identifier: LGPL-2.1-or-later
/* The arguments become points. All that can be wrong with them is found here, before anything is measured. */
#include "cli/bench.h"
#include "cli/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { DEFAULT_PRESETS = 1, HISTORICAL = 2 };

/* Published runs had 8 GiB with four writers of 1 GiB, and an idle guest of 128 GiB; a simulation has room for that. */
static const struct {
	const char *name;
	uint64_t memory_bytes, simulated_bytes;
	unsigned writers;
	const char *axis; /* the option that varies, and so cannot be set */
} experiments[] = {
    [RF_CLI_CHUNK_SIZE] = {"chunk-size", GIB, 8 * GIB, 4, "chunk-size"},
    [RF_CLI_IN_FLIGHT] = {"in-flight", GIB, 128 * GIB, 0, "register"},
    [RF_CLI_CONVERGE] = {"converge", GIB, 8 * GIB, 4, "rate"},
    [RF_CLI_ROUNDS] = {"rounds", GIB, 8 * GIB, 4, NULL},
    [RF_CLI_BENCH_RECEIVE] = {"receive", GIB, GIB, 0, NULL},
};

static int complain(struct rf_cli_bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(struct rf_cli_bench *b, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(b->sentence, sizeof(b->sentence), format, args);
	va_end(args);
	return -1;
}

const char *rf_cli_experiment_name(enum rf_cli_experiment experiment)
{
	return experiments[experiment].name;
}

bool rf_cli_bench_is_sim(const struct rf_cli_bench *b)
{
	return !strncmp(b->uri, "sim:", 4);
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static int parse(struct rf_cli_bench *b, const char *option, const char *kind, const char *text, uint64_t *value)
{
	char why[300] = "";

	if (!text || rf_parse_value(kind, text, value, why, sizeof(why)) == RF_OK)
		return 0;
	return complain(b, "--%s: %s", option, why);
}

/* One part of a list at a time, from *list on; NULL past the end. */
static char *next_part(char **list)
{
	return strsep(list, ",");
}

static int parse_rate(struct rf_cli_bench *b, const char *option, const char *text, uint64_t *value)
{
	if (text && !strcmp(text, "max")) {
		*value = RF_BENCH_NO_LIMIT;
		return 0;
	}
	if (text && !strcmp(text, "0")) {
		*value = 0;
		return 0;
	}
	return parse(b, option, "rate", text, value);
}

static int parse_pattern(struct rf_cli_bench *b)
{
	const char *text = b->arguments.pattern;

	if (!text || !strcmp(text, "random"))
		b->guest.pattern = RF_BENCH_RANDOM;
	else if (!strcmp(text, "sweep"))
		b->guest.pattern = RF_BENCH_SWEEP;
	else
		return complain(b, "--pattern must be random or sweep: \"%.60s\" is neither", text);
	return 0;
}

static int plan_guest(struct rf_cli_bench *b)
{
	const struct rf_cli_arguments *a = &b->arguments;
	rf_bench_guest *g = &b->guest;
	uint64_t writers = experiments[b->experiment].writers;

	*g = (rf_bench_guest){
	    .size = sizeof(*g),
	    .memory_bytes = rf_cli_bench_is_sim(b) ? experiments[b->experiment].simulated_bytes
						   : experiments[b->experiment].memory_bytes,
	    .bytes_per_second = 64 * MIB,
	    .seed = 1,
	};
	if (parse(b, "memory", "size", a->memory, &g->memory_bytes) || parse(b, "seed", "count", a->seed, &g->seed) ||
	    parse(b, "writers", "count", a->writers, &writers) || parse_pattern(b) ||
	    parse_rate(b, "rate", a->rate, &g->bytes_per_second))
		return -1;
	g->working_bytes = g->memory_bytes / 8 & ~UINT64_C(4095);
	if (writers > 8)
		g->working_bytes = g->memory_bytes / writers & ~UINT64_C(4095);
	if (parse(b, "working-set", "size", a->working_set, &g->working_bytes))
		return -1;
	if (!g->memory_bytes || g->memory_bytes % 4096)
		return complain(b, "--memory must be a multiple of 4 KiB: \"%.60s\" is not", a->memory);
	if (writers > 1024)
		return complain(b, "--writers must be at most 1024: \"%.60s\" is not", a->writers);
	g->writers = (unsigned)writers;
	if (writers && (!g->working_bytes || g->working_bytes % 4096 || g->working_bytes > g->memory_bytes / writers))
		return complain(b,
				"--working-set must be a multiple of 4 KiB, and that of %u writers must fit into "
				"the guest's memory",
				g->writers);
	return 0;
}

/* ---- points ------------------------------------------------------------------------------------------------------- */

static struct rf_cli_point *add_point(struct rf_cli_bench *b)
{
	if (b->npoints == RF_CLI_POINTS) {
		complain(b, "%d rows are the most", RF_CLI_POINTS);
		return NULL;
	}
	struct rf_cli_point *p = &b->points[b->npoints++];

	*p = (struct rf_cli_point){.guest = b->guest, .samples = calloc(b->runs, sizeof(*p->samples))};
	if (!p->samples) {
		complain(b, "no memory");
		return NULL;
	}
	return p;
}

static void set(struct rf_cli_point *p, const char *name, const char *value)
{
	p->settings[p->nsettings++] = (struct rf_cli_setting){name, value};
}

/* What QEMU does, as far as options say it. */
static void set_presets(struct rf_cli_point *p, unsigned presets)
{
	p->presets = presets == HISTORICAL ? "historical" : "default";
	if (presets != HISTORICAL)
		return;
	set(p, "writes-per-chunk", "1");
	set(p, "register-ahead", "0");
	set(p, "max-write", "2M");
	set(p, "switchover", "threshold");
}

static int plan_chunk_sizes(struct rf_cli_bench *b, unsigned presets)
{
	char list[200], *rest = list, *part;

	snprintf(list, sizeof(list), "%s", b->arguments.chunk_sizes ? b->arguments.chunk_sizes : "1M,32M,64M,128M,1G");
	while ((part = next_part(&rest))) {
		uint64_t bytes = 0;
		struct rf_cli_point *p;

		if (parse(b, "chunk-sizes", "size", part, &bytes) || !(p = add_point(b)))
			return -1;
		if (bytes % MIB)
			return complain(b, "--chunk-sizes: \"%.60s\" is no whole number of MiB", part);
		set_presets(p, presets);
		snprintf(p->value, sizeof(p->value), "%lluM", (unsigned long long)(bytes / MIB));
		set(p, "chunk-size", p->value);
		p->x = (double)bytes / MIB;

		if (bytes % GIB)
			snprintf(p->label, sizeof(p->label), "%llu MiB", (unsigned long long)(bytes / MIB));
		else
			snprintf(p->label, sizeof(p->label), "%llu GiB", (unsigned long long)(bytes / GIB));
	}
	return 0;
}

static int plan_in_flight(struct rf_cli_bench *b, unsigned presets)
{
	static const char *const modes[] = {"pin-all", "on-demand"};

	for (size_t i = 0; i < 2; i++) {
		struct rf_cli_point *p = add_point(b);

		if (!p)
			return -1;
		set_presets(p, presets);
		/* So that the final pass is what the published one was. */
		if (presets != HISTORICAL)
			set(p, "switchover", "threshold");
		set(p, "register", modes[i]);
		set(p, "chunk-size", "32M");
		p->x = (double)i + 1;
		snprintf(p->label, sizeof(p->label), "%s", modes[i]);
	}
	return 0;
}

static int plan_presets(struct rf_cli_bench *b, int (*plan)(struct rf_cli_bench *b, unsigned presets))
{
	const char *text = b->arguments.presets ? b->arguments.presets : "both";
	bool both = !strcmp(text, "both");

	if (!both && strcmp(text, "default") && strcmp(text, "historical"))
		return complain(b, "--settings must be default, historical or both: \"%.60s\" is neither", text);
	if ((both || !strcmp(text, "historical")) && plan(b, HISTORICAL))
		return -1;
	return both || !strcmp(text, "default") ? plan(b, DEFAULT_PRESETS) : 0;
}

static int add_rate(struct rf_cli_bench *b, uint64_t bytes_per_second)
{
	struct rf_cli_point *p = add_point(b);

	if (!p)
		return -1;
	p->guest.bytes_per_second = bytes_per_second;
	p->x = (double)bytes_per_second / MIB;
	if (bytes_per_second == RF_BENCH_NO_LIMIT)
		snprintf(p->label, sizeof(p->label), "max");
	else if (!bytes_per_second)
		snprintf(p->label, sizeof(p->label), "idle");
	else
		rf_cli_rate(bytes_per_second, p->label);
	return 0;
}

int rf_cli_bench_plan_rates(struct rf_cli_bench *b, uint64_t bytes_per_second)
{
	static const unsigned percent[] = {5, 10, 20, 40, 60, 80, 100};

	for (size_t i = 0; i < sizeof(percent) / sizeof(percent[0]); i++) {
		uint64_t rate = bytes_per_second / 100 * percent[i];

		if (add_rate(b, rate < MIB ? MIB : rate / MIB * MIB))
			return -1;
	}
	return 0;
}

static int plan_converge(struct rf_cli_bench *b)
{
	char list[400], *rest = list, *part;

	if (!b->guest.writers)
		return complain(b, "converge is about a guest that writes: --writers must not be 0");
	b->rates_wanted = !b->arguments.rates;
	snprintf(list, sizeof(list), "%s", b->rates_wanted ? "0" : b->arguments.rates);
	while ((part = next_part(&rest))) {
		uint64_t rate = 0;

		if (parse_rate(b, "rates", part, &rate) || add_rate(b, rate))
			return -1;
	}
	return 0;
}

static int plan_points(struct rf_cli_bench *b)
{
	struct rf_cli_point *p;

	switch (b->experiment) {
	case RF_CLI_CHUNK_SIZE:
		return plan_presets(b, plan_chunk_sizes);
	case RF_CLI_IN_FLIGHT:
		return plan_presets(b, plan_in_flight);
	case RF_CLI_CONVERGE:
		return plan_converge(b);
	default:
		p = add_point(b);
		if (!p)
			return -1;
		snprintf(p->label, sizeof(p->label), "%s", b->uri);
		return 0;
	}
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

/* An option that has no meaning in this experiment is a misunderstanding. */
static int check_options(struct rf_cli_bench *b)
{
	const struct rf_cli_arguments *a = &b->arguments;
	const char *axis = experiments[b->experiment].axis;
	bool two = b->experiment == RF_CLI_CHUNK_SIZE || b->experiment == RF_CLI_IN_FLIGHT;

	if (a->presets && !two)
		return complain(b, "--settings goes with chunk-size and in-flight only");
	if (a->chunk_sizes && b->experiment != RF_CLI_CHUNK_SIZE)
		return complain(b, "--chunk-sizes goes with chunk-size only");
	if (a->rates && b->experiment != RF_CLI_CONVERGE)
		return complain(b, "--rates goes with converge only");
	if (a->rate && b->experiment == RF_CLI_CONVERGE)
		return complain(b, "the rate is what varies: --rates chooses which are tried");
	for (size_t i = 0; axis && i < a->nsettings; i++)
		if (!strcmp(a->settings[i].name, axis))
			return complain(b, "--%s is what varies%s", axis,
					b->experiment == RF_CLI_CHUNK_SIZE ? ": --chunk-sizes chooses what is tried"
									   : " in this experiment");
	if (b->experiment != RF_CLI_BENCH_RECEIVE)
		return 0;
	if (a->json || a->csv || a->plot)
		return complain(b, "the sending side tells what was measured: leave out --%s",
				a->json  ? "json"
				: a->csv ? "csv"
					 : "plot");
	return b->to ? complain(b, "receive waits at a URI: leave out --to") : 0;
}

/* What the library says to the settings of each point and to the URI, by a migration without a guest. */
static int check_with_library(struct rf_cli_bench *b)
{
	bool receives = !b->to;
	rf_result result = RF_OK;

	for (size_t i = 0; i < b->npoints && result == RF_OK; i++) {
		const struct rf_cli_point *p = &b->points[i];
		rf_migration *m = rf_migration_new(NULL);

		for (size_t j = 0; m && j < p->nsettings && result == RF_OK; j++)
			result = rf_set(m, p->settings[j].name, p->settings[j].value);
		if (m && result == RF_OK)
			result = rf_cli_apply(&b->arguments, m);
		if (m && result == RF_OK && !rf_cli_bench_is_sim(b))
			result = receives ? rf_receive(m, b->uri) : rf_send(m, b->uri);
		if (result == RF_REFUSED) /* there is no guest: all else was right */
			result = RF_OK;
		if (result != RF_OK)
			complain(b, "%s", rf_error(m));
		rf_migration_free(m);
		if (!m)
			return complain(b, "no memory");
	}
	return result == RF_OK ? 0 : -1;
}

int rf_cli_bench_plan(struct rf_cli_bench *b)
{
	const struct rf_cli_arguments *a = &b->arguments;

	b->uri = a->to ? a->to : a->uri;
	b->to = a->to != NULL;
	while (b->experiment < RF_CLI_EXPERIMENTS && strcmp(experiments[b->experiment].name, a->experiment))
		b->experiment++;
	if (b->experiment == RF_CLI_EXPERIMENTS)
		return complain(
		    b, "there is no experiment \"%.60s\": chunk-size, in-flight, converge and rounds are, and receive",
		    a->experiment);
	b->runs = b->experiment == RF_CLI_BENCH_RECEIVE ? 0 : 1;
	if (parse(b, "runs", "count", a->runs, &b->runs))
		return -1;
	if ((a->runs && !b->runs) || b->runs > RF_CLI_RUNS_MAX)
		return complain(b, "--runs must be 1 to %d: \"%.60s\" is not", RF_CLI_RUNS_MAX, a->runs);
	b->points = calloc(RF_CLI_POINTS, sizeof(*b->points));
	if (!b->points)
		return complain(b, "no memory");
	if (check_options(b) || plan_guest(b) || (b->experiment != RF_CLI_BENCH_RECEIVE && plan_points(b)))
		return -1;
	return check_with_library(b);
}

void rf_cli_bench_free(struct rf_cli_bench *b)
{
	for (size_t i = 0; i < b->npoints; i++) {
		for (size_t run = 0; run < b->points[i].nsamples; run++)
			rf_cli_sample_free(&b->points[i].samples[run]);
		free(b->points[i].samples);
	}
	free(b->points);
}
