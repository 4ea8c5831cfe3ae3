// SPDX-License-Identifier: LGPL-2.1-or-later
/* What people see: a table with one row for each point, and for `rounds` one for each round of the middle run. */
#include "cli/bench.h"
#include "cli/text.h"

#include <inttypes.h>
#include <string.h>

enum { CELL = 120 };

#define MIB (1024.0 * 1024.0)

static void whole_size(uint64_t bytes, char text[RF_CLI_NUMBER])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	for (; bytes && bytes % 1024 == 0 && unit < 4; unit++)
		bytes /= 1024;
	snprintf(text, RF_CLI_NUMBER, "%" PRIu64 " %s", bytes, units[unit]);
}

void rf_cli_bench_describe_guest(const rf_bench_guest *g, char *text, size_t length)
{
	char memory[RF_CLI_NUMBER], set[RF_CLI_NUMBER], rate[RF_CLI_NUMBER];

	whole_size(g->memory_bytes, memory);
	whole_size(g->working_bytes, set);
	if (!g->writers || !g->bytes_per_second)
		snprintf(text, length, "%s, idle", memory);
	else
		snprintf(text, length, "%s, %u writer%s of %s%s, %s%s", memory, g->writers, g->writers == 1 ? "" : "s",
			 set, g->writers == 1 ? "" : " each",
			 g->bytes_per_second == RF_BENCH_NO_LIMIT ? "as fast as they can"
								  : rf_cli_rate(g->bytes_per_second, rate),
			 g->pattern == RF_BENCH_SWEEP ? ", sweeping" : "");
}

static void print_heading(const struct rf_cli_bench *b, FILE *to)
{
	rf_bench_guest g = b->guest;
	struct rf_cli_host host;
	char guest[200], *rate;

	rf_cli_host_look(&host);
	rf_cli_bench_describe_guest(&g, guest, sizeof(guest));
	/* There it is the rate that varies. */
	if (b->experiment == RF_CLI_CONVERGE && (rate = strrchr(guest, ',')))
		*rate = '\0';
	fprintf(to, "%s by %s; guest of %s; %" PRIu64 " run%s%s\n", rf_cli_experiment_name(b->experiment), b->uri,
		guest, b->runs, b->runs == 1 ? "" : "s", b->runs == 1 ? "" : ", medians (minimum-maximum)");
	if (rf_cli_bench_is_sim(b))
		fprintf(to, "times are those of the model, not of this host\n\n");
	else
		fprintf(to, "%ld CPUs (%s), Linux %s %s, ramferry %s\n\n", host.cpus, host.cpu, host.kernel,
			host.machine, rf_version());
}

static bool is_shown(const struct rf_cli_bench *b, const struct rf_cli_metric *metric)
{
	return metric->experiments >> b->experiment & 1;
}

static void format_cell(const struct rf_cli_bench *b, const struct rf_cli_point *p, const struct rf_cli_metric *m,
			char cell[CELL])
{
	struct rf_cli_spread s = rf_cli_point_spread(p, m);

	if (!p->nsamples)
		snprintf(cell, CELL, "-");
	else if (b->runs == 1)
		snprintf(cell, CELL, "%.*f", m->decimals, s.median);
	else
		snprintf(cell, CELL, "%.*f (%.*f-%.*f)", m->decimals, s.median, m->decimals, s.minimum, m->decimals,
			 s.maximum);
}

static void format_label(const struct rf_cli_point *p, char cell[CELL])
{
	snprintf(cell, CELL, "%s%s%.60s", p->presets ? p->presets : "", p->presets ? ", " : "", p->label);
}

/* As wide as it has to be: the heads, and what stands below. */
static int column_width(const struct rf_cli_bench *b, const struct rf_cli_metric *m)
{
	size_t width = m ? strlen(m->head[0]) : 0;
	char cell[CELL];

	if (m && strlen(m->head[1]) > width)
		width = strlen(m->head[1]);
	for (size_t i = 0; i < b->npoints; i++) {
		if (m)
			format_cell(b, &b->points[i], m, cell);
		else
			format_label(&b->points[i], cell);
		if (strlen(cell) > width)
			width = strlen(cell);
	}
	return (int)width;
}

static void print_points(const struct rf_cli_bench *b, FILE *to)
{
	static const char *const whats[] = {"chunk size", "register", "guest writes", "way"};
	int first = column_width(b, NULL);
	char cell[CELL];

	if ((int)strlen(whats[b->experiment]) > first)
		first = (int)strlen(whats[b->experiment]);
	for (int line = 0; line < 2; line++) {
		fprintf(to, "%-*s", first, line ? "" : whats[b->experiment]);
		for (const struct rf_cli_metric *m = rf_cli_metrics; m->name; m++)
			if (is_shown(b, m))
				fprintf(to, "  %*s", column_width(b, m), m->head[line]);
		fputc('\n', to);
	}
	for (size_t i = 0; i < b->npoints; i++) {
		format_label(&b->points[i], cell);
		fprintf(to, "%-*s", first, cell);
		for (const struct rf_cli_metric *m = rf_cli_metrics; m->name; m++) {
			if (!is_shown(b, m))
				continue;
			format_cell(b, &b->points[i], m, cell);
			fprintf(to, "  %*s", column_width(b, m), cell);
		}
		fputc('\n', to);
	}
}

/* ---- what a guest stood still for, and round by round ------------------------------------------------------------- */

static void print_downtime(const struct rf_cli_sample *s, FILE *to)
{
	static const char begins[] = "downtime_", ends[] = "_ns";
	const char *name, *between = ": ";

	fprintf(to, "downtime %.1f ms", (double)rf_cli_sample_stat(s, "downtime_ns") / 1e6);
	for (size_t i = 0; (name = rf_stat_name(i)); i++) {
		size_t length = strlen(name);
		double part = (double)rf_cli_sample_stat(s, name) / 1e6;

		/* "downtime_final_pass_ns", but not the whole. */
		if (strncmp(name, begins, sizeof(begins) - 1) || length < sizeof(begins) + sizeof(ends) - 1 ||
		    part <= 0)
			continue;
		fputs(between, to);
		for (const char *c = name + sizeof(begins) - 1; c < name + length - (sizeof(ends) - 1); c++)
			fputc(*c == '_' ? ' ' : *c, to);
		fprintf(to, " %.2f", part);
		between = ", ";
	}
	fputc('\n', to);
}

/* Of the run with the median total, for each row. */
static void print_downtimes(const struct rf_cli_bench *b, FILE *to)
{
	int first = column_width(b, NULL);
	char cell[CELL];

	fputc('\n', to);
	for (size_t i = 0; i < b->npoints; i++) {
		const struct rf_cli_sample *s = rf_cli_point_middle(&b->points[i]);

		format_label(&b->points[i], cell);
		fprintf(to, "%-*s  ", first, cell);
		if (s)
			print_downtime(s, to);
		else
			fputs("-\n", to);
	}
}

static void print_rounds(const struct rf_cli_sample *s, FILE *to)
{
	uint64_t began_ns = rf_cli_sample_stat(s, "setup_ns");

	fprintf(to, "%-10s%10s%10s%10s%10s%10s%13s\n", "round", "begins", "takes", "sent", "rate", "writes",
		"guest wrote");
	fprintf(to, "%-10s%10s%10s%10s%10s%10s%13s\n", "", "ms", "ms", "MiB", "MiB/s", "", "MiB/s");
	for (size_t i = 0; i < s->nrounds; i++) {
		uint64_t took_ns = rf_cli_sample_round_stat(s, i, "duration_ns");
		char name[24];

		snprintf(name, sizeof(name), i + 1 < s->nrounds ? "%zu" : "final pass", i);
		fprintf(to, "%-10s%10.1f%10.1f%10.2f%10.1f%10" PRIu64 "%13.1f\n", name, (double)began_ns / 1e6,
			(double)took_ns / 1e6, (double)rf_cli_sample_round_stat(s, i, "bytes") / MIB,
			(double)rf_cli_sample_round_stat(s, i, "bytes_per_second") / MIB,
			rf_cli_sample_round_stat(s, i, "writes"),
			(double)rf_cli_sample_round_stat(s, i, "dirty_bytes_per_second") / MIB);
		began_ns += took_ns;
	}
}

int rf_cli_bench_table(const struct rf_cli_bench *b, FILE *to)
{
	const struct rf_cli_sample *middle;

	print_heading(b, to);
	print_points(b, to);
	if (b->experiment == RF_CLI_IN_FLIGHT)
		print_downtimes(b, to);
	middle = b->experiment == RF_CLI_ROUNDS ? rf_cli_point_middle(&b->points[0]) : NULL;
	if (middle) {
		fputs(b->runs > 1 ? "\nThe run with the median total:\n" : "\n", to);
		print_rounds(middle, to);
		fputc('\n', to);
		print_downtime(middle, to);
	}
	return fflush(to) || ferror(to) ? -1 : 0;
}
