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

static void print_usage(FILE *to, enum rf_cli_side side)
{
	if (side == RF_CLI_SEND) {
		fputs("Usage: ramferry send --qmp SOCKET [OPTION...] tcp://HOST[:PORT]\n\n"
		      "Move the guest of the QEMU behind SOCKET to the ramferry receive at HOST, while\n"
		      "it runs.\n",
		      to);
		return;
	}
	fputs("Usage: ramferry receive --qmp SOCKET [OPTION...] tcp://ADDRESS[:PORT]\n"
	      "       ramferry receive [OPTION...] tcp://ADDRESS[:PORT] -- QEMU ARGUMENT...\n\n"
	      "Wait at ADDRESS for a guest and run it in the QEMU behind SOCKET, which was\n"
	      "started with -S -incoming defer; or in the QEMU behind --, which gets these\n"
	      "from ramferry.\n",
	      to);
}

void rf_cli_help(FILE *to, enum rf_cli_side side)
{
	rf_option_info info;

	print_usage(to, side);
	fputs("\nOptions:\n", to);
	for (const struct rf_cli_own_option *own = rf_cli_own_options; own->name; own++) {
		char value[40] = "";

		if (own->value)
			snprintf(value, sizeof value, " %s", own->value);
		print_option(to, own->name, value, own->help);
	}
	fputs("\nOptions of the move:\n", to);
	for (size_t i = 0; !rf_option_info_at(i, &info); i++)
		if (side == RF_CLI_SEND ? info.for_send : info.for_receive)
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
	      "       ramferry send --help, ramferry receive --help\n"
	      "               all options\n"
	      "       ramferry --version\n\n"
	      "URI is tcp://HOST[:PORT]; the port is 7263 unless given.\n",
	      to);
}
