// SPDX-License-Identifier: LGPL-2.1-or-later
/* Parsing. Two tables say what there is: the command's own options here, and the library's, which it is asked for, so that
 * a new option of the library needs no line in this folder. */
#include "cli/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOVES = 1 << RF_CLI_SEND | 1 << RF_CLI_RECEIVE,
	DOCTOR = 1 << RF_CLI_DOCTOR,
	BENCH = 1 << RF_CLI_BENCH,
	ALL = MOVES | DOCTOR | BENCH,
};

#define FIELD(name) offsetof(struct rf_cli_arguments, name)

const struct rf_cli_own_option rf_cli_own_options[] = {
    {"qmp", "SOCKET", "The unix socket of a QMP monitor of the guest's QEMU that nobody else uses", FIELD(qmp),
     MOVES | DOCTOR},
    {"pid", "PID", "The process of that QEMU, where it is not the one that made the socket", FIELD(pid),
     MOVES | DOCTOR},
    {"to", "URI", "Ask the ramferry receive that waits at URI, which goes on waiting", FIELD(uri), DOCTOR},
    {"to", "URI", "Move to the ramferry bench receive that waits at URI, on another host", FIELD(to), BENCH},
    {"memory", "SIZE", "Give the guest this much memory. Default: 1 GiB; in a simulation as much as was published",
     FIELD(memory), BENCH},
    {"writers", "COUNT", "Let this many threads write to it. Default: 4, or 0 for in-flight", FIELD(writers), BENCH},
    {"working-set", "SIZE", "The memory that each of them writes to. Default: an eighth of the guest's",
     FIELD(working_set), BENCH},
    {"rate", "RATE", "How much of it they write in a second, all together, a page counting 4 KiB; or max. Default: 64M",
     FIELD(rate), BENCH},
    {"pattern", "PATTERN", "They write to pages at random, or one after the other (sweep). Default: random",
     FIELD(pattern), BENCH},
    {"seed", "COUNT", "Where all that is random begins; each run has the next one. Default: 1", FIELD(seed), BENCH},
    {"runs", "COUNT", "Repeat it all that often, and tell medians, minimum and maximum. Default: 1", FIELD(runs),
     BENCH},
    {"chunk-sizes", "LIST", "chunk-size: the sizes to try. Default: 1M,32M,64M,128M,1G", FIELD(chunk_sizes), BENCH},
    {"rates", "LIST",
     "converge: the rates to try. Default: from 0 to the bandwidth that a first move of the idle guest has",
     FIELD(rates), BENCH},
    {"settings", "CHOICE",
     "chunk-size and in-flight: measure with the default settings, with historical ones (writes-per-chunk 1, "
     "register-ahead 0, max-write 2M, switchover threshold), or with both. Default: both",
     FIELD(presets), BENCH},
    {"plot", "FILE", "Draw it into FILE, which ends in .svg or .png; needs gnuplot", FIELD(plot), BENCH},
    {"csv", NULL, "Write all runs to standard output as CSV, instead of a table", FIELD(csv), BENCH},
    {"json", NULL, "Write events to standard output, one JSON object a line", FIELD(json), MOVES | DOCTOR},
    {"json", NULL, "Write all that was measured, and where, to standard output as one JSON object", FIELD(json), BENCH},
    {"quiet", NULL, "Say nothing but warnings and errors", FIELD(quiet), MOVES | DOCTOR},
    {"quiet", NULL, "Show no progress, and say nothing but warnings and errors on standard error", FIELD(quiet), BENCH},
    {"verbose", NULL, "Say more about what happens and why", FIELD(verbose), ALL},
    {"help", NULL, "Show this text", FIELD(help), ALL},
    {NULL, NULL, NULL, 0, 0},
};

/* What the parser carries along. */
struct parser {
	struct rf_cli_arguments *a;
	char **next, **end;
	char *why;
};

static int complain(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(struct parser *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->why, RF_CLI_WHY, format, args);
	va_end(args);
	return -1;
}

const char *rf_cli_name(enum rf_cli_side side)
{
	static const char *const names[] = {
	    [RF_CLI_SEND] = "send", [RF_CLI_RECEIVE] = "receive", [RF_CLI_DOCTOR] = "doctor", [RF_CLI_BENCH] = "bench"};

	return names[side];
}

bool rf_cli_takes(enum rf_cli_side side, const rf_option_info *info)
{
	return side == RF_CLI_SEND ? info->for_send : side == RF_CLI_RECEIVE ? info->for_receive : true;
}

bool rf_cli_owns(enum rf_cli_side side, const struct rf_cli_own_option *own)
{
	return own->sides >> side & 1;
}

static bool is_named(const char *option, const char *text, size_t length)
{
	return strlen(option) == length && !strncmp(option, text, length);
}

/* The value behind `--name=`, or the next argument. An argument that looks like an option is none: it is much more often
 * a value that was forgotten. NULL: there is none, and it was said. */
static const char *take_value(struct parser *p, const char *name, const char *inline_value)
{
	if (inline_value)
		return inline_value;
	if (p->next < p->end && strncmp(*p->next, "--", 2))
		return *p->next++;
	complain(p, "--%s needs a value", name);
	return NULL;
}

static int parse_pid(struct parser *p, const char *text, int *pid)
{
	char *end;

	errno = 0;

	long value = strtol(text, &end, 10);

	if (errno || end == text || *end || value < 1 || value > 0x7fffffff)
		return complain(p, "--pid must be the number of a process: \"%.60s\" is not", text);
	*pid = (int)value;
	return 0;
}

static int set_own(struct parser *p, const struct rf_cli_own_option *own, const char *inline_value)
{
	void *field = (char *)p->a + own->offset;
	const char *value;

	if (!own->value) {
		if (inline_value)
			return complain(p, "--%s takes no value", own->name);
		*(bool *)field = true;
		return 0;
	}
	value = take_value(p, own->name, inline_value);
	if (!value)
		return -1;
	if (field == &p->a->pid)
		return p->a->pid ? complain(p, "--pid is given twice") : parse_pid(p, value, &p->a->pid);
	if (*(const char **)field)
		return complain(p, "--%s is given twice", own->name);
	if (!value[0])
		return complain(p, "--%s needs %s", own->name,
				field == &p->a->qmp          ? "the path of a socket"
				: !strcmp(own->value, "URI") ? "a URI"
							     : "a value");
	*(const char **)field = value;
	return 0;
}

static int set_library(struct parser *p, const rf_option_info *info, const char *inline_value)
{
	struct rf_cli_arguments *a = p->a;
	const char *value = inline_value ? inline_value : "on";

	if (!rf_cli_takes(a->side, info))
		return complain(p, "--%s is an option of ramferry %s", info->name,
				a->side == RF_CLI_SEND ? "receive" : "send, which tells it to the receiver");
	for (size_t i = 0; i < a->nsettings; i++)
		if (!strcmp(a->settings[i].name, info->name))
			return complain(p, "--%s is given twice", info->name);
	if (a->nsettings == RF_CLI_SETTINGS)
		return complain(p, "too many options");
	if (strcmp(info->kind, "flag"))
		value = take_value(p, info->name, inline_value);
	if (!value)
		return -1;
	a->settings[a->nsettings++] = (struct rf_cli_setting){info->name, value};
	return 0;
}

/* `text` is an argument behind its "--". */
static int parse_option(struct parser *p, const char *text)
{
	size_t length = strcspn(text, "=");
	const char *inline_value = text[length] ? text + length + 1 : NULL;
	rf_option_info info;

	for (const struct rf_cli_own_option *own = rf_cli_own_options; own->name; own++)
		if (rf_cli_owns(p->a->side, own) && is_named(own->name, text, length))
			return set_own(p, own, inline_value);
	for (size_t i = 0; !rf_option_info_at(i, &info); i++)
		if (is_named(info.name, text, length))
			return set_library(p, &info, inline_value);
	return complain(p, "there is no option --%.*s", (int)(length < 60 ? length : 60), text);
}

static int parse_short(struct parser *p, const char *text)
{
	if (!strcmp(text, "-h"))
		p->a->help = true;
	else if (!strcmp(text, "-q"))
		p->a->quiet = true;
	else if (!strcmp(text, "-v"))
		p->a->verbose = true;
	else
		return complain(p, "there is no option %.60s", text);
	return 0;
}

static int parse_uri(struct parser *p, const char *text)
{
	if (p->a->side == RF_CLI_DOCTOR)
		return complain(p, "what is \"%.100s\"? A receiver to ask stands behind --to", text);
	if (p->a->side == RF_CLI_BENCH && !p->a->experiment) {
		p->a->experiment = text;
		return 0;
	}
	if (p->a->uri)
		return complain(p, "one URI is enough: \"%.100s\" is one more", text);
	p->a->uri = text;
	return 0;
}

static int parse_arguments(struct parser *p)
{
	while (p->next < p->end) {
		char *text = *p->next++;
		int failed;

		if (!strcmp(text, "--") && p->a->side == RF_CLI_RECEIVE) {
			p->a->child = p->next;
			return 0;
		}
		if (!strncmp(text, "--", 2))
			failed = parse_option(p, text + 2);
		else if (text[0] == '-')
			failed = parse_short(p, text);
		else
			failed = parse_uri(p, text);
		if (failed)
			return -1;
	}
	return 0;
}

/* Options of QEMU that ramferry gives itself, or that would take the process out of its hands. */
static int check_child(struct parser *p)
{
	static const char *const ours[] = {"incoming", "daemonize"};

	if (!p->a->child[0] || !p->a->child[0][0])
		return complain(p, "the QEMU to start is missing behind --");
	if (p->a->qmp || p->a->pid)
		return complain(p, "--qmp and --pid are for a QEMU that runs already, not for one behind --");
	for (char **arg = p->a->child + 1; *arg; arg++) {
		const char *name = *arg + ((*arg)[0] == '-') + ((*arg)[0] == '-' && (*arg)[1] == '-');

		for (size_t i = 0; name != *arg && i < sizeof(ours) / sizeof(ours[0]); i++)
			if (!strcmp(name, ours[i]))
				return complain(p, "leave out %s: %s", *arg,
						i ? "ramferry has to see that QEMU runs, and lets it go by itself"
						  : "ramferry gives it to QEMU");
	}
	return 0;
}

/* Its words and numbers are checked by who understands them: cli/bench_plan.c. */
static int check_bench(struct parser *p)
{
	const struct rf_cli_arguments *a = p->a;

	if (!a->experiment)
		return complain(p, "what to measure is missing: chunk-size, in-flight, converge or rounds");
	if (a->uri && a->to)
		return complain(p, "with --to the receiver is at the other host: leave out \"%.100s\"", a->uri);
	if (!a->uri && !a->to)
		return complain(p, "a URI is missing, such as tcp://127.0.0.1:0 or sim:cx7-100g");
	if (a->quiet && a->verbose)
		return complain(p, "--quiet and --verbose do not go together");
	if (a->json && a->csv)
		return complain(p, "--json and --csv do not go together");
	return 0;
}

static int check_whole(struct parser *p)
{
	const struct rf_cli_arguments *a = p->a;

	if (a->side == RF_CLI_BENCH)
		return check_bench(p);
	if (!a->uri && a->side != RF_CLI_DOCTOR)
		return complain(p, "a URI is missing, such as tcp://%s", a->side == RF_CLI_SEND ? "host" : "0.0.0.0");
	if (a->quiet && a->verbose)
		return complain(p, "--quiet and --verbose do not go together");
	if (a->side == RF_CLI_DOCTOR)
		return a->pid && !a->qmp ? complain(p, "--pid goes with --qmp only") : 0;
	if (a->child)
		return check_child(p);
	if (!a->qmp)
		return complain(p, "--qmp is missing: the socket of a QMP monitor of the guest's QEMU%s",
				a->side == RF_CLI_RECEIVE ? ", or a QEMU to start behind --" : "");
	return 0;
}

int rf_cli_parse(enum rf_cli_side side, int argc, char **argv, struct rf_cli_arguments *a, char why[RF_CLI_WHY])
{
	struct parser p = {.a = a, .next = argv, .end = argv + argc, .why = why};

	*a = (struct rf_cli_arguments){.side = side};

	int failed = parse_arguments(&p);

	/* Whoever reads JSON gets the complaint so too, even if it stands before --json. */
	for (; failed && p.next < p.end && strcmp(*p.next, "--"); p.next++)
		a->json |= !strcmp(*p.next, "--json");
	if (failed || a->help)
		return failed;
	return check_whole(&p);
}

rf_result rf_cli_apply(const struct rf_cli_arguments *a, rf_migration *m)
{
	for (size_t i = 0; i < a->nsettings; i++) {
		rf_result result = rf_set(m, a->settings[i].name, a->settings[i].value);

		if (result != RF_OK)
			return result;
	}
	return RF_OK;
}
