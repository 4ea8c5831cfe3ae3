// SPDX-License-Identifier: LGPL-2.1-or-later
/* ramferry doctor: one line for each finding, as it is found. A line ends in "ok", or in what to do.
 *
 * Unlike a move it may be killed at any moment, so signals are left as they are. */
#include "cli/run.h"
#include "cli/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1600 };

struct doctor {
	struct rf_cli_arguments arguments;
	rf_guest *guest;
	rf_migration *m;
	bool guest_missing; /* it was asked about, and is not to be had */
	char sentence[RF_CLI_WHY];
};

/* ---- for people and for programs ---- */

static void print_line(const rf_finding *f)
{
	char line[LINE_BYTES];

	if (f->verdict == RF_VERDICT_OK)
		snprintf(line, sizeof(line), "%s %s: %s: ok", f->area, f->what, f->text);
	else if (f->advice[0])
		snprintf(line, sizeof(line), "%s %s: %s - %s: %s", f->area, f->what, f->text,
			 f->verdict == RF_VERDICT_NEEDED ? "needed" : "better", f->advice);
	else
		snprintf(line, sizeof(line), "%s %s: %s: %s", f->area, f->what,
			 f->verdict == RF_VERDICT_NEEDED ? "needed" : "better", f->text);
	puts(rf_cli_clean(line));
}

/* A JSON string holds UTF-8 only. */
static json_t *clean_string(const char *text)
{
	char copy[LINE_BYTES];

	snprintf(copy, sizeof(copy), "%s", text);
	return json_string(rf_cli_clean(copy));
}

/* Takes `event`. */
static void print_json(json_t *event)
{
	char *line = event ? json_dumps(event, JSON_COMPACT) : NULL;

	if (line)
		puts(line);
	free(line);
	json_decref(event);
}

static void print_event(const rf_finding *f)
{
	static const char *const verdicts[] = {
	    [RF_VERDICT_OK] = "ok", [RF_VERDICT_ADVICE] = "advice", [RF_VERDICT_NEEDED] = "needed"};
	json_t *event = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "event", "finding", "verdict", verdicts[f->verdict],
				  "area", f->area, "what", clean_string(f->what), "text", clean_string(f->text),
				  "advice", f->advice[0] ? clean_string(f->advice) : json_null());

	if (event && f->measure)
		json_object_set_new(event, f->measure, json_integer((json_int_t)f->value));
	print_json(event);
}

static void on_finding(void *arg, const rf_finding *f)
{
	const struct rf_cli_arguments *a = &((struct doctor *)arg)->arguments;

	if (a->json)
		print_event(f);
	else if (!a->quiet || f->verdict != RF_VERDICT_OK)
		print_line(f);
	fflush(stdout);
}

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof(line), "%s", sentence);
	fprintf(stderr, "%s\n", rf_cli_clean(line));
}

/* ---- the steps ---- */

/* Options and URI, by a migration without a guest, which rf_send() refuses when all else is right. */
static rf_result check_arguments(struct doctor *d)
{
	rf_migration *m = rf_migration_new(NULL);
	rf_result result = m ? rf_cli_apply(&d->arguments, m) : RF_FAILED;

	if (result == RF_OK && d->arguments.uri)
		result = rf_send(m, d->arguments.uri);
	if (result != RF_OK && result != RF_REFUSED)
		snprintf(d->sentence, sizeof(d->sentence), "%s; see ramferry doctor --help",
			 m ? rf_error(m) : "no memory");
	rf_migration_free(m);
	return result == RF_REFUSED ? RF_OK : result;
}

static void open_guest(struct doctor *d)
{
	char why[RF_CLI_WHY] = "";
	rf_finding finding = {
	    .size = sizeof(finding),
	    .verdict = RF_VERDICT_NEEDED,
	    .area = "guest",
	    .what = "monitor",
	    .text = why,
	    .advice = "name the socket of a monitor that nobody else uses: -qmp unix:PATH,server=on,wait=off",
	};

	if (rf_guest_open_qemu(&d->guest, d->arguments.qmp, d->arguments.pid, why, sizeof(why)) == RF_OK)
		return;
	d->guest_missing = true;
	on_finding(d, &finding);
}

static rf_result examine(struct doctor *d)
{
	if (d->arguments.qmp)
		open_guest(d);
	d->m = rf_migration_new(d->guest);
	if (!d->m) {
		snprintf(d->sentence, sizeof(d->sentence), "no memory");
		return RF_FAILED;
	}
	if (d->arguments.verbose)
		rf_on_log(d->m, on_log, d);

	rf_result result = rf_cli_apply(&d->arguments, d->m);

	if (result == RF_OK)
		result = rf_doctor(d->m, d->arguments.uri, on_finding, d);
	if (result != RF_OK)
		snprintf(d->sentence, sizeof(d->sentence), "%s", rf_error(d->m));
	if (!d->guest_missing || (result != RF_OK && result != RF_REFUSED))
		return result;
	snprintf(d->sentence, sizeof(d->sentence), "there is no guest to be moved%s",
		 result == RF_REFUSED ? ", and more is in the way" : "");
	return RF_REFUSED;
}

static int end(struct doctor *d, rf_result result)
{
	static const char fine[] = "nothing that was found is in the way of a move";
	static const char *const names[] = {
	    [RF_OK] = "ok", [RF_FAILED] = "failed", [RF_USAGE] = "usage", [RF_REFUSED] = "refused"};
	int status = result == RF_OK || result == RF_USAGE || result == RF_REFUSED ? (int)result : RF_FAILED;

	if (d->arguments.json)
		print_json(json_pack("{s:s, s:i, s:s, s:o, s:o}", "event", "result", "status", status, "result",
				     names[status], "message", status ? json_null() : json_string(fine), "error",
				     status ? clean_string(d->sentence) : json_null()));
	else if (!status && !d->arguments.quiet)
		puts(fine);
	if (status)
		fprintf(stderr, "ramferry doctor: %s\n", rf_cli_clean(d->sentence));
	rf_migration_free(d->m);
	rf_guest_free(d->guest);
	return fflush(stdout) && !status ? RF_FAILED : status;
}

int rf_cli_doctor(int argc, char **argv)
{
	struct doctor d = {0};
	char why[RF_CLI_WHY] = "";

	if (rf_cli_parse(RF_CLI_DOCTOR, argc, argv, &d.arguments, why)) {
		snprintf(d.sentence, sizeof(d.sentence), "%.600s; see ramferry doctor --help", why);
		return end(&d, RF_USAGE);
	}
	if (d.arguments.help) {
		rf_cli_help(stdout, RF_CLI_DOCTOR);
		return fflush(stdout) ? RF_FAILED : RF_OK;
	}

	rf_result result = check_arguments(&d);

	return end(&d, result == RF_OK ? examine(&d) : result);
}
