// SPDX-License-Identifier: LGPL-2.1-or-later
/* Help texts. The list of options comes from the same tables that the parser walks. */
#include "cli/options.h"

#include <ctype.h>
#include <string.h>

enum { INDENT = 8, COLUMNS = 80 };

/* Words of `text` behind the indent, within the columns. */
static void print_wrapped(FILE *to, const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t length = strcspn(text, " ");

		if (column && column + 1 + length > COLUMNS) {
			fputc('\n', to);
			column = 0;
		}
		fprintf(to, "%*s%.*s", column ? 1 : INDENT, "", (int)length, text);
		column += (column ? 1 : INDENT) + length;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', to);
}

static void print_option(FILE *to, const char *name, const char *value, const char *text)
{
	fprintf(to, "  --%s", name);
	for (; *value; value++)
		fputc(toupper((unsigned char)*value), to);
	fputc('\n', to);
	print_wrapped(to, text);
}

static void print_library_option(FILE *to, const rf_option_info *info)
{
	char text[700], value[40] = "";
	bool flag = !strcmp(info->kind, "flag");

	if (!flag)
		snprintf(value, sizeof value, " %s", info->kind);
	if (flag)
		snprintf(text, sizeof text, "%s. Default: %s.", info->help, info->initial);
	else
		snprintf(text, sizeof text, "%s. Values: %s. Default: %s.", info->help, info->range, info->initial);
	print_option(to, info->name, value, text);
}

#define URI_IS                                                         \
	"URI is tcp://HOST[:PORT], or rdma://HOST[:PORT] where both\n" \
	"sides have an RDMA device at such an address; the port is 7263 unless given.\n"

static const char *const usages[] = {
    [RF_CLI_SEND] = "Usage: ramferry send --qmp SOCKET [OPTION...] URI\n\n"
		    "Move the guest of the QEMU behind SOCKET to the ramferry receive at URI, while\n"
		    "it runs. " URI_IS,
    [RF_CLI_RECEIVE] = "Usage: ramferry receive --qmp SOCKET [OPTION...] URI\n"
		       "       ramferry receive [OPTION...] URI -- QEMU ARGUMENT...\n\n"
		       "Wait at URI for a guest and run it in the QEMU behind SOCKET, which was\n"
		       "started with -S -incoming defer; or in the QEMU behind --, which gets these\n"
		       "from ramferry. " URI_IS,
    [RF_CLI_DOCTOR] = "Usage: ramferry doctor [--qmp SOCKET] [--to URI] [OPTION...]\n\n"
		      "Tell what this host can do and what to change; whether the guest of the QEMU\n"
		      "behind SOCKET can be moved, or filled; and how good the way is to the receiver\n"
		      "at URI. Nothing is touched. Exit status 0: a move can work; 3: it cannot.\n",
    [RF_CLI_BENCH] = "Usage: ramferry bench EXPERIMENT [OPTION...] URI\n"
		     "       ramferry bench EXPERIMENT [OPTION...] --to URI\n"
		     "       ramferry bench receive [OPTION...] URI\n\n"
		     "Measure moves of a guest that is nothing but memory and threads that write to\n"
		     "it. Both sides are in this process: URI is where the receiver shall listen,\n"
		     "tcp://127.0.0.1:0 or rdma://HOST:0 with an address of this host's RDMA device;\n"
		     "or sim:PROFILE, a model of hosts and cards on a virtual clock. With --to the\n"
		     "other side is a ramferry bench receive on another host, which was given the\n"
		     "same --memory. EXPERIMENT is\n\n"
		     "  chunk-size  time and bytes sent against the size of a registration\n"
		     "  in-flight   the final pass, with pinned memory and with memory that is\n"
		     "              registered on demand\n"
		     "  converge    downtime and total time against the rate at which the guest writes\n"
		     "  rounds      one move, round by round\n",
};

void rf_cli_help(FILE *to, enum rf_cli_side side)
{
	rf_option_info info;

	fputs(usages[side], to);
	fputs("\nOptions:\n", to);
	for (const struct rf_cli_own_option *own = rf_cli_own_options; own->name; own++) {
		char value[40] = "";

		if (!rf_cli_owns(side, own))
			continue;
		if (own->value)
			snprintf(value, sizeof value, " %s", own->value);
		print_option(to, own->name, value, own->help);
	}
	fputs(side == RF_CLI_DOCTOR ? "\nOptions of the move that is asked about:\n" : "\nOptions of the move:\n", to);
	for (size_t i = 0; !rf_option_info_at(i, &info); i++)
		if (rf_cli_takes(side, &info))
			print_library_option(to, &info);
	fputs("\nSizes are powers of 1024 (64M, 1GiB). Rates are bytes per second unless the\n"
	      "unit says bit (500M, 10Gbit). Times are milliseconds unless the unit says\n"
	      "otherwise (300, 1.5s, 2min).\n",
	      to);
}

void rf_cli_overview(FILE *to)
{
	fputs("Usage: ramferry send --qmp SOCKET [OPTION...] URI\n"
	      "               move the guest of the QEMU behind SOCKET to the receiver at URI\n"
	      "       ramferry receive --qmp SOCKET [OPTION...] URI\n"
	      "               wait at URI, fill the guest behind SOCKET and run it\n"
	      "       ramferry receive [OPTION...] URI -- QEMU ARGUMENT...\n"
	      "               the same with a QEMU that is started for it\n"
	      "       ramferry doctor [--qmp SOCKET] [--to URI] [OPTION...]\n"
	      "               what this host, that guest and that receiver can do, and what to\n"
	      "               change\n"
	      "       ramferry bench EXPERIMENT [OPTION...] URI\n"
	      "               measure moves of a guest made for that\n"
	      "       ramferry COMMAND --help\n"
	      "               all options\n"
	      "       ramferry --version\n\n" URI_IS,
	      to);
}
