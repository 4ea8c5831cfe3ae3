// SPDX-License-Identifier: LGPL-2.1-or-later
/* What people see while it runs. On a terminal one line lives until its round ends; elsewhere there is one line a
 * round. No percentage: a guest that writes makes it run backwards. */
#include "cli/report.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 1200 };

static void put(struct rf_cli_report *r, int fd, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void put(struct rf_cli_report *r, int fd, const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	rf_cli_output_put(r->output, fd, RF_CLI_LINE, rf_cli_clean(line));
}

static void log_sentence(struct rf_cli_report *r, rf_log_severity severity, const char *sentence)
{
	if (severity == RF_WARNING)
		put(r, STDERR_FILENO, "warning: %s", sentence);
	else if (severity == RF_INFO ? !r->quiet : r->verbose)
		put(r, STDERR_FILENO, "%s", sentence);
}

const char *rf_cli_phase(rf_phase phase)
{
	switch (phase) {
	case RF_PHASE_LISTENING:
		return "listening";
	case RF_PHASE_SETUP:
		return "setup";
	case RF_PHASE_ROUNDS:
		return "rounds";
	case RF_PHASE_SWITCHOVER:
		return "switchover";
	case RF_PHASE_RUNNING:
		return "running";
	case RF_PHASE_UNDOING:
		return "undoing";
	}
	return "unknown";
}

/* Fits into 80 columns. */
static void describe_round(const rf_progress *p, char *line, size_t length)
{
	char left[RF_CLI_NUMBER], rate[RF_CLI_NUMBER], dirty[RF_CLI_NUMBER], downtime[RF_CLI_NUMBER];

	if (!p->left_bytes && !p->bytes_per_second) {
		snprintf(line, length, "round %" PRIu64 " begins", p->round);
		return;
	}

	int n = snprintf(line, length, "round %" PRIu64 ": %s left, %s, guest writes %s", p->round,
			 rf_cli_bytes(p->left_bytes, left), rf_cli_rate(p->bytes_per_second, rate),
			 rf_cli_rate(p->dirty_bytes_per_second, dirty));

	if (p->predicted_downtime_ns && n > 0 && (size_t)n < length)
		snprintf(line + n, length - (size_t)n, ", downtime %s",
			 rf_cli_time(p->predicted_downtime_ns, downtime));
}

static void describe(const struct rf_cli_report *r, const rf_progress *p, char *line, size_t length)
{
	switch (p->phase) {
	case RF_PHASE_LISTENING:
		snprintf(line, length, "waiting for a guest");
		break;
	case RF_PHASE_SETUP:
		snprintf(line, length, "connected, comparing both sides");
		break;
	case RF_PHASE_ROUNDS:
		describe_round(p, line, length);
		break;
	case RF_PHASE_SWITCHOVER:
		snprintf(line, length, "switchover: the guest stands still");
		break;
	case RF_PHASE_RUNNING:
		snprintf(line, length, r->side == RF_CLI_SEND ? "the guest is at the other side" : "the guest is here");
		break;
	case RF_PHASE_UNDOING:
		snprintf(line, length, r->side == RF_CLI_SEND ? "putting the guest back" : "discarding what has come");
		break;
	}
}

static void end_round(struct rf_cli_report *r, const rf_progress *p)
{
	char sent[RF_CLI_NUMBER], rate[RF_CLI_NUMBER], elapsed[RF_CLI_NUMBER], name[40] = "final pass";
	uint64_t bytes = 0;

	/* A round that was left empty, on the way to the switchover, is not told: the number would seem to skip one. */
	if (p->phase == RF_PHASE_ROUNDS)
		snprintf(name, sizeof(name), "round %" PRIu64, p->round);
	if (p->round < rf_round_count(r->m))
		rf_round_stat(r->m, (size_t)p->round, "bytes", &bytes);
	put(r, STDOUT_FILENO, "%s: %s sent at %s; %s so far", name, rf_cli_bytes(bytes, sent),
	    rf_cli_rate(p->bytes_per_second, rate), rf_cli_time(p->elapsed_ns, elapsed));
}

static void progress(struct rf_cli_report *r, const rf_progress *p)
{
	bool news = !r->progress_told || r->last_phase != p->phase;
	char line[LINE];

	r->progress_told = true;
	r->last_phase = p->phase;
	if (r->quiet)
		return;
	if (p->round_ended) {
		end_round(r, p);
		return;
	}
	describe(r, p, line, sizeof(line));
	if (r->columns) {
		/* One column stays free: a line as wide as the terminal would wrap and not be overwritten. */
		if (strlen(line) >= (size_t)r->columns)
			line[r->columns - 1] = '\0';
		rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LIVE, rf_cli_clean(line));
	} else if (news && p->phase != RF_PHASE_ROUNDS && p->phase != RF_PHASE_RUNNING) {
		put(r, STDOUT_FILENO, "%s", line);
	}
}

static void result(struct rf_cli_report *r, rf_result result, const char *sentence)
{
	if (result != RF_OK)
		put(r, STDERR_FILENO, "ramferry %s: %s", rf_cli_name(r->side), sentence);
	else if (!r->quiet)
		put(r, STDOUT_FILENO, "%s", sentence);
}

const struct rf_cli_voice rf_cli_for_people = {
    .log = log_sentence,
    .progress = progress,
    .summary = rf_cli_summary,
    .result = result,
};
