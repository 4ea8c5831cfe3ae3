// SPDX-License-Identifier: LGPL-2.1-or-later
/* Measures all points of a plan, run by run, and shows on a terminal how far it is. */
#include "cli/bench.h"
#include "cli/signals.h"
#include "cli/text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A receiver at another host that has got one guest needs a moment until it waits for the next. */
enum { AGAIN = 100, AGAIN_MS = 100 };

struct measuring {
	struct rf_cli_bench *b;
	const struct rf_cli_point *point;
	uint64_t run;
	bool shows, shown;
};

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	const struct measuring *m = arg;
	char line[1200];

	if (severity != RF_WARNING && !m->b->arguments.verbose)
		return;
	snprintf(line, sizeof(line), "%s%s", severity == RF_WARNING ? "warning: " : "", sentence);
	fprintf(stderr, "%s%s\n", m->shown ? "\r\033[K" : "", rf_cli_clean(line));
}

static void on_progress(void *arg, const rf_progress *p)
{
	struct measuring *m = arg;
	char left[RF_CLI_NUMBER];

	if (!m->shows)
		return;
	m->shown = true;
	fprintf(stderr, "\r\033[Krun %" PRIu64 " of %" PRIu64 ", %s%s%.30s: round %" PRIu64 ", %s left", m->run + 1,
		m->b->runs, m->point->presets ? m->point->presets : "", m->point->presets ? " " : "", m->point->label,
		p->round, rf_cli_bytes(p->left_bytes, left));
	fflush(stderr);
}

static rf_result apply(const struct rf_cli_bench *b, const struct rf_cli_point *p, rf_migration *m)
{
	/* A guest that writes too fast shall end its experiment, too. */
	rf_result result = rf_set(m, "on-stall", "force");

	for (size_t i = 0; i < p->nsettings && result == RF_OK; i++)
		result = rf_set(m, p->settings[i].name, p->settings[i].value);
	return result == RF_OK ? rf_cli_apply(&b->arguments, m) : result;
}

/* One move. */
static rf_result move(struct measuring *x, struct rf_cli_sample *sample)
{
	struct rf_cli_bench *b = x->b;
	rf_bench_guest guest = x->point->guest;
	rf_migration *m = rf_migration_new(NULL);
	rf_result result = RF_FAILED;

	guest.seed += x->run;
	*sample = (struct rf_cli_sample){.seed = guest.seed};
	if (!m) {
		snprintf(b->sentence, sizeof(b->sentence), "no memory");
		return RF_FAILED;
	}
	rf_on_log(m, on_log, x);
	rf_on_progress(m, on_progress, x);
	rf_cli_signals_aim(m);
	result = apply(b, x->point, m);
	if (result == RF_OK)
		result = (b->to ? rf_bench_send : rf_bench_move)(m, &guest, b->uri, &sample->outcome);
	rf_cli_signals_aim(NULL);
	if (result != RF_OK)
		snprintf(b->sentence, sizeof(b->sentence), "%s", rf_error(m));
	else if (rf_cli_sample_take(sample, m)) {
		result = RF_FAILED;
		snprintf(b->sentence, sizeof(b->sentence), "no memory");
	}
	rf_migration_free(m);
	return result;
}

static rf_result measure_point(struct rf_cli_bench *b, struct rf_cli_point *p, uint64_t run, bool first)
{
	struct measuring x = {.b = b, .point = p, .run = run, .shows = !b->arguments.quiet && isatty(STDERR_FILENO)};
	rf_result result = move(&x, &p->samples[p->nsamples]);

	for (int i = 0; i < AGAIN && result == RF_REFUSED && b->to && !first && !rf_cli_signals_came(); i++) {
		nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000}, NULL);
		result = move(&x, &p->samples[p->nsamples]);
	}
	if (x.shown)
		fputs("\r\033[K", stderr);
	if (result == RF_OK) {
		p->nsamples++;
	} else {
		char why[RF_CLI_WHY];

		snprintf(why, sizeof(why), "%s", b->sentence);
		snprintf(b->sentence, sizeof(b->sentence), "%s%s%s, run %" PRIu64 ": %.500s",
			 p->presets ? p->presets : "", p->presets ? " " : "", p->label, run + 1, why);
	}
	return result;
}

rf_result rf_cli_bench_measure(struct rf_cli_bench *b)
{
	rf_result result = RF_OK;
	bool first = true;

	for (uint64_t run = 0; run < b->runs; run++)
		for (size_t i = 0; i < b->npoints; i++) {
			result = measure_point(b, &b->points[i], run, first);
			if (result != RF_OK)
				return result;
			if (first && b->rates_wanted &&
			    rf_cli_bench_plan_rates(
				b, rf_cli_sample_round_stat(&b->points[0].samples[0], 0, "bytes_per_second")))
				return RF_FAILED;
			first = false;
		}
	return result;
}
