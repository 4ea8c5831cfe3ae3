// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry bench receive: the other host of an experiment. One guest after the other comes, until a signal does. */
#include "cli/bench.h"
#include "cli/signals.h"
#include "cli/text.h"

#include <string.h>

struct waiting {
	const struct rf_cli_bench *b;
	bool listened;
};

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	struct waiting *w = arg;
	char line[1200];

	w->listened |= !strncmp(sentence, "listening at ", 13);
	if (severity == RF_DEBUG ? !w->b->arguments.verbose : severity == RF_INFO && w->b->arguments.quiet)
		return;
	snprintf(line, sizeof(line), "%s%s", severity == RF_WARNING ? "warning: " : "", sentence);
	fprintf(stderr, "%s\n", rf_cli_clean(line));
}

static rf_result receive_one(struct rf_cli_bench *b, struct waiting *w)
{
	rf_migration *m = rf_migration_new(NULL);
	rf_result result = RF_FAILED;

	snprintf(b->sentence, sizeof(b->sentence), "no memory");
	if (!m)
		return result;
	rf_on_log(m, on_log, w);
	rf_cli_signals_aim(m);
	result = rf_cli_apply(&b->arguments, m);
	if (result == RF_OK)
		result = rf_bench_receive(m, &b->guest, b->uri, NULL);
	rf_cli_signals_aim(NULL);
	snprintf(b->sentence, sizeof(b->sentence), "%s", rf_error(m));
	rf_migration_free(m);
	return result;
}

rf_result rf_cli_bench_receive(struct rf_cli_bench *b)
{
	rf_result result = RF_OK;

	for (uint64_t n = 0; !b->runs || n < b->runs; n++) {
		struct waiting w = {.b = b};

		result = receive_one(b, &w);
		if (rf_cli_signals_came())
			return RF_OK; /* that is how it ends */
		/* A move that failed is told at the other side, too, and another may come; but somebody has to listen. */
		if (result != RF_OK && !w.listened)
			return result;
		if (result != RF_OK && (!b->runs || n + 1 < b->runs))
			fprintf(stderr, "ramferry bench: %s\n", rf_cli_clean(b->sentence));
	}
	return result;
}
