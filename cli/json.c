// SPDX-License-Identifier: LGPL-2.1-or-later
/* What programs read: one JSON object a line, each with "event". The names are those of ramferry.h. */
#include "cli/report.h"
#include "cli/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes `event`. */
static void put(struct rf_cli_report *r, enum rf_cli_line kind, json_t *event)
{
	char *line = event ? json_dumps(event, JSON_COMPACT) : NULL;

	if (line)
		rf_cli_output_put(r->output, STDOUT_FILENO, kind, line);
	free(line);
	json_decref(event);
}

/* A sentence may quote anything; a JSON string holds UTF-8 only. */
static json_t *sentence_of(const char *sentence)
{
	char *copy = strdup(sentence);
	json_t *string = copy ? json_string(rf_cli_clean(copy)) : NULL;

	free(copy);
	return string;
}

static void log_sentence(struct rf_cli_report *r, rf_log_severity severity, const char *sentence)
{
	static const char *const names[] = {[RF_DEBUG] = "debug", [RF_INFO] = "info", [RF_WARNING] = "warning"};

	if (severity == RF_DEBUG && !r->verbose)
		return;
	put(r, RF_CLI_LINE,
	    json_pack("{s:s, s:s, s:o}", "event", "log", "severity", names[severity], "message",
		      sentence_of(sentence)));
}

static json_t *all_stats(const rf_migration *m)
{
	json_t *stats = json_object();
	const char *name;
	uint64_t value;

	for (size_t i = 0; (name = rf_stat_name(i)); i++)
		if (!rf_stat(m, name, &value))
			json_object_set_new(stats, name, json_integer((json_int_t)value));
	return stats;
}

static json_t *round_stats(const rf_migration *m, size_t round)
{
	json_t *stats = json_object();
	const char *name;
	uint64_t value;

	json_object_set_new(stats, "round", json_integer((json_int_t)round));
	for (size_t i = 0; (name = rf_round_stat_name(i)); i++)
		if (!rf_round_stat(m, round, name, &value))
			json_object_set_new(stats, name, json_integer((json_int_t)value));
	return stats;
}

static json_t *progress_event(const rf_progress *p)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "progress", "phase",
			 rf_cli_phase(p->phase), "round", (json_int_t)p->round, "sent_bytes", (json_int_t)p->sent_bytes,
			 "left_bytes", (json_int_t)p->left_bytes, "dirty_bytes", (json_int_t)p->dirty_bytes,
			 "bytes_per_second", (json_int_t)p->bytes_per_second, "dirty_bytes_per_second",
			 (json_int_t)p->dirty_bytes_per_second, "predicted_downtime_ns",
			 (json_int_t)p->predicted_downtime_ns, "elapsed_ns", (json_int_t)p->elapsed_ns);
}

/* Every change of phase is told; what lies between two of them may be left out. */
static void progress(struct rf_cli_report *r, const rf_progress *p)
{
	bool news = !r->progress_told || r->last_phase != p->phase;

	r->progress_told = true;
	r->last_phase = p->phase;
	if (news || !r->quiet)
		put(r, news ? RF_CLI_LINE : RF_CLI_FRESH, progress_event(p));
	if (p->round_ended && p->round < rf_round_count(r->m)) {
		json_t *event = round_stats(r->m, (size_t)p->round);

		json_object_set_new(event, "event", json_string("round"));
		put(r, RF_CLI_LINE, event);
	}
}

static void summary(struct rf_cli_report *r)
{
	json_t *rounds = json_array();

	for (size_t i = 0; i < rf_round_count(r->m); i++)
		json_array_append_new(rounds, round_stats(r->m, i));
	put(r, RF_CLI_LINE,
	    json_pack("{s:s, s:o, s:o}", "event", "summary", "stats", all_stats(r->m), "rounds", rounds));
}

static void result(struct rf_cli_report *r, rf_result result, const char *sentence)
{
	static const char *const names[] = {
	    [RF_OK] = "moved",        [RF_FAILED] = "failed",   [RF_USAGE] = "usage",
	    [RF_REFUSED] = "refused", [RF_UNKNOWN] = "unknown", [RF_CANCELLED] = "cancelled",
	};

	put(r, RF_CLI_LINE,
	    json_pack("{s:s, s:i, s:s, s:o, s:o}", "event", "result", "status", rf_cli_status(result), "result",
		      names[result], "message", result == RF_OK ? sentence_of(sentence) : json_null(), "error",
		      result == RF_OK ? json_null() : sentence_of(sentence)));
	/* A person who looks finds it, too. */
	if (result != RF_OK) {
		char line[1400];

		snprintf(line, sizeof(line), "ramferry %s: %s", rf_cli_name(r->side), sentence);
		rf_cli_output_put(r->output, STDERR_FILENO, RF_CLI_LINE, rf_cli_clean(line));
	}
}

const struct rf_cli_voice rf_cli_for_programs = {
    .log = log_sentence,
    .progress = progress,
    .summary = summary,
    .result = result,
};
