// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry bench: plan, measure, tell. */
#include "cli/bench.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/text.h"

#include <string.h>

static bool has_samples(const struct rf_cli_bench *b)
{
	return b->npoints && b->points[0].nsamples;
}

/* What was measured before something failed is told, too. */
static int tell(const struct rf_cli_bench *b, rf_result result)
{
	if (b->arguments.json)
		return rf_cli_bench_json(b, result, stdout);
	if (!has_samples(b))
		return 0;
	return b->arguments.csv ? rf_cli_bench_csv(b, stdout) : rf_cli_bench_table(b, stdout);
}

static int end(struct rf_cli_bench *b, rf_result result)
{
	char why[RF_CLI_WHY];

	if (b->arguments.plot && has_samples(b) && rf_cli_bench_plot(b, why) && result == RF_OK) {
		result = RF_FAILED;
		snprintf(b->sentence, sizeof(b->sentence), "%s", why);
	}
	rf_cli_signals_release();
	if (tell(b, result) && result == RF_OK) {
		result = RF_FAILED;
		snprintf(b->sentence, sizeof(b->sentence), "standard output cannot be written to");
	}
	if (result != RF_OK)
		fprintf(stderr, "ramferry bench: %s\n", rf_cli_clean(b->sentence));
	rf_cli_bench_free(b);
	return rf_cli_status(result);
}

/* The sentence of a wrong use tells where the right one is told. */
static int end_usage(struct rf_cli_bench *b)
{
	char why[RF_CLI_WHY];

	snprintf(why, sizeof(why), "%s", b->sentence);
	snprintf(b->sentence, sizeof(b->sentence), "%.600s; see ramferry bench --help", why);
	return end(b, RF_USAGE);
}

int rf_cli_bench(int argc, char **argv)
{
	struct rf_cli_bench b = {.runs = 1};

	if (rf_cli_parse(RF_CLI_BENCH, argc, argv, &b.arguments, b.sentence))
		return end_usage(&b);
	if (b.arguments.help) {
		rf_cli_help(stdout, RF_CLI_BENCH);
		return fflush(stdout) ? RF_FAILED : RF_OK;
	}
	if (rf_cli_bench_plan(&b))
		return end_usage(&b);
	if (b.arguments.plot && rf_cli_bench_plot_check(b.arguments.plot, b.sentence))
		return end(&b, strstr(b.sentence, "not installed") ? RF_REFUSED : RF_USAGE);
	rf_cli_signals_catch();
	return end(&b, b.experiment == RF_CLI_BENCH_RECEIVE ? rf_cli_bench_receive(&b) : rf_cli_bench_measure(&b));
}
