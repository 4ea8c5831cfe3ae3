// SPDX-License-Identifier: LGPL-2.1-or-later
/* Fills in a manual page: the line `.\" @OPTIONS@` becomes a list of the options that the library has for this
 * subcommand, `.\" @STATISTICS@` and `.\" @ROUND-STATISTICS@` lists of statistics. So manual and code cannot differ.
 *
 * usage: options-mdoc send|receive|doctor TEMPLATE        (doctor: the options of both) */
#include <ramferry.h>

#include <stdio.h>
#include <string.h>

/* Text may hold what roff takes for its own. */
static void print_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-' && text[1] == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

static void print_option(const rf_option_info *info)
{
	int flag = !strcmp(info->kind, "flag");

	printf(".It Fl Fl %s", info->name);
	if (!flag)
		printf(" Ar %s", info->kind);
	putchar('\n');
	print_text(info->help);
	printf(".\n");
	if (!flag)
		printf("Values: %s.\n", info->range);
	printf("Default: %s.\n", info->initial);
}

static void print_options(const char *side)
{
	int send = strcmp(side, "receive") != 0, receive = strcmp(side, "send") != 0;
	rf_option_info info;

	puts(".Bl -tag -width Ds");
	for (size_t i = 0; !rf_option_info_at(i, &info); i++)
		if ((send && info.for_send) || (receive && info.for_receive))
			print_option(&info);
	puts(".El");
}

static void print_stats(const char *(*name)(size_t), const char *(*help)(size_t))
{
	puts(".Bl -tag -width Ds -compact");
	for (size_t i = 0; name(i); i++) {
		printf(".It Va %s\n", name(i));
		print_text(help(i));
		putchar('\n');
	}
	puts(".El");
}

int main(int argc, char **argv)
{
	char line[1000];
	FILE *template = argc == 3 ? fopen(argv[2], "r") : NULL;

	if (!template) {
		fprintf(stderr, "usage: options-mdoc send|receive|doctor TEMPLATE\n");
		return 1;
	}
	while (fgets(line, sizeof(line), template)) {
		if (!strcmp(line, ".\\\" @OPTIONS@\n"))
			print_options(argv[1]);
		else if (!strcmp(line, ".\\\" @STATISTICS@\n"))
			print_stats(rf_stat_name, rf_stat_help);
		else if (!strcmp(line, ".\\\" @ROUND-STATISTICS@\n"))
			print_stats(rf_round_stat_name, rf_round_stat_help);
		else
			fputs(line, stdout);
	}
	fclose(template);
	return fflush(stdout) ? 1 : 0;
}
