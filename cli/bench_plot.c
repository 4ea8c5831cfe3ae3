// SPDX-License-Identifier: LGPL-2.1-or-later
/* Drawings, by gnuplot, which gets its data and what to do with it by its standard input: two charts beside each other, one for
 * times and one for bytes. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length > wanted && !strcmp(text + length - wanted, end);
}

static bool have_gnuplot(void)
{
	const char *path = getenv("PATH");
	char program[4096];

	for (; path && *path; path += *path == ':') {
		size_t length = strcspn(path, ":");

		snprintf(program, sizeof(program), "%.*s/gnuplot", (int)length, path);
		if (length && !access(program, X_OK))
			return true;
		path += length;
	}
	return false;
}

int rf_cli_bench_plot_check(const char *file, char why[RF_CLI_WHY])
{
	if (!ends_in(file, ".svg") && !ends_in(file, ".png")) {
		snprintf(why, RF_CLI_WHY, "--plot needs a file that ends in .svg or .png: \"%.200s\" does not", file);
		return -1;
	}
	if (have_gnuplot())
		return 0;
	snprintf(why, RF_CLI_WHY, "--plot needs gnuplot, which is not installed (Debian: gnuplot-nox)");
	return -1;
}

/* A text of gnuplot's: in single quotes, which are doubled inside. */
static void put_text(const char *text, FILE *to)
{
	fputc('\'', to);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', to);
		fputc(*text == '\n' ? ' ' : *text, to);
	}
	fputc('\'', to);
}

static void put_head(const struct rf_cli_bench *b, FILE *to)
{
	char guest[200], title[700];

	rf_cli_bench_describe_guest(&b->guest, guest, sizeof(guest));
	if (b->experiment == RF_CLI_CONVERGE && strrchr(guest, ','))
		*strrchr(guest, ',') = '\0';
	snprintf(title, sizeof(title), "ramferry bench %s, %.300s: %s", rf_cli_experiment_name(b->experiment), b->uri,
		 guest);
	fprintf(to, "set terminal %s\nset output ",
		ends_in(b->arguments.plot, ".png") ? "pngcairo size 1100,540"
						   : "svg size 1100,540 dynamic background 'white'");
	put_text(b->arguments.plot, to);
	fputs("\nset multiplot layout 1,2 title ", to);
	put_text(title, to);
	fputs(" noenhanced\nset grid\nset key outside bottom center horizontal noenhanced\n"
	      "set offsets graph 0.04, graph 0.04, graph 0.04, 0\nset yrange [0:*]\n",
	      to);
}

/* ---- one line for each metric and preset over what varies --------------------------------------------------------- */

static void put_series(const struct rf_cli_bench *b, const char *presets, const struct rf_cli_metric *metric, FILE *to)
{
	for (size_t i = 0; i < b->npoints; i++) {
		const struct rf_cli_point *p = &b->points[i];
		struct rf_cli_spread s = rf_cli_point_spread(p, metric);

		if (!p->nsamples || (presets && strcmp(presets, p->presets)) ||
		    p->guest.bytes_per_second == RF_BENCH_NO_LIMIT)
			continue;
		fprintf(to, "%.9g %.9g %.9g %.9g ", p->x, s.median, s.minimum, s.maximum);
		/* Its label, where that is no number on the axis. */
		if (b->experiment == RF_CLI_CHUNK_SIZE)
			fprintf(to, "%.9g\n", p->x);
		else
			fprintf(to, "\"%s\"\n", p->label);
	}
	fputs("e\n", to);
}

static bool has_presets(const struct rf_cli_bench *b, const char *presets)
{
	for (size_t i = 0; i < b->npoints; i++)
		if (b->points[i].nsamples &&
		    (presets ? b->points[i].presets && !strcmp(presets, b->points[i].presets) : !b->points[i].presets))
			return true;
	return false;
}

/* `names` end with NULL. */
static void put_chart(const struct rf_cli_bench *b, const char *label, const char *const *names, FILE *to)
{
	static const char *const all_presets[] = {"default", "historical", NULL};
	const char *before = "plot";

	fprintf(to, "set ylabel '%s'\n", label);
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; names[i]; i++)
			for (size_t k = 0; k < 3; k++) {
				const char *presets = all_presets[k];
				char title[100];

				if (!has_presets(b, presets))
					continue;
				if (pass) {
					put_series(b, presets, rf_cli_metric(names[i]), to);
					continue;
				}
				snprintf(title, sizeof(title), "%s%s%s", rf_cli_metric(names[i])->head[0],
					 presets ? ", " : "", presets ? presets : "");
				fprintf(to, "%s '-' using 1:2:3:4%s with yerrorlines pointtype 7 pointsize 0.6 title ",
					before, b->experiment == RF_CLI_CONVERGE ? "" : ":xticlabels(5)");
				put_text(title, to);
				before = ",";
			}
		fputc('\n', to);
	}
}

static void put_points(const struct rf_cli_bench *b, FILE *to)
{
	static const char *const times[] = {"total_ms", "downtime_ms", NULL}, *const bytes[] = {"sent_mib", NULL};
	static const char *const bandwidths[] = {"final_pass_mib_per_s", "first_round_mib_per_s", NULL};
	static const char *const downtimes[] = {"downtime_ms", NULL}, *const totals[] = {"total_ms", NULL};

	switch (b->experiment) {
	case RF_CLI_CHUNK_SIZE:
		fputs("set logscale x 2\nset xlabel 'chunk size, MiB'\n", to);
		put_chart(b, "ms", times, to);
		put_chart(b, "MiB sent", bytes, to);
		break;
	case RF_CLI_IN_FLIGHT:
		fputs("set xlabel 'registration'\nset offsets 0.3, 0.3, graph 0.04, 0\n", to);
		put_chart(b, "ms", downtimes, to);
		put_chart(b, "MiB/s", bandwidths, to);
		break;
	default:
		fputs("set xlabel 'guest writes, MiB/s'\n", to);
		put_chart(b, "downtime, ms", downtimes, to);
		put_chart(b, "total, ms", totals, to);
		break;
	}
}

/* ---- the rounds of one move ---------------------------------------------------------------------------------------- */

/* Each round as a box from its begin to its end. */
static void put_boxes(const struct rf_cli_sample *s, const char *name, FILE *to)
{
	double at_ms = (double)rf_cli_sample_stat(s, "setup_ns") / 1e6;

	for (size_t i = 0; i < s->nrounds; i++) {
		double took_ms = (double)rf_cli_sample_round_stat(s, i, "duration_ns") / 1e6;

		fprintf(to, "%.9g %.9g %.9g\n", at_ms + took_ms / 2, (double)rf_cli_sample_round_stat(s, i, name) / MIB,
			took_ms);
		at_ms += took_ms;
	}
	fputs("e\n", to);
}

static void put_rounds(const struct rf_cli_bench *b, FILE *to)
{
	static const char *const names[] = {"bytes", "bytes_per_second"}, *const labels[] = {"MiB sent", "MiB/s"};
	const struct rf_cli_sample *s = rf_cli_point_middle(&b->points[0]);

	for (size_t i = 0; s && i < 2; i++) {
		fprintf(to, "unset offsets\nset xrange [0:*]\nset xlabel 'ms'\nset ylabel '%s'\n", labels[i]);
		if (!i)
			fputs("set logscale y\nset yrange [*:*]\n", to);
		else
			fputs("unset logscale y\nset yrange [0:*]\n", to);
		fputs("set style fill solid 0.4 border\nplot '-' using 1:2:3 with boxes title 'rounds, the final pass "
		      "last'\n",
		      to);
		put_boxes(s, names[i], to);
	}
}

int rf_cli_bench_plot(const struct rf_cli_bench *b, char why[RF_CLI_WHY])
{
	FILE *to = popen("gnuplot", "w");

	if (to) {
		put_head(b, to);
		(b->experiment == RF_CLI_ROUNDS ? put_rounds : put_points)(b, to);
		fputs("unset multiplot\n", to);
	}
	if (!to || pclose(to)) {
		snprintf(why, RF_CLI_WHY, "gnuplot could not draw %.300s", b->arguments.plot);
		return -1;
	}
	return 0;
}
