// SPDX-License-Identifier: LGPL-2.1-or-later
/* The command: which subcommand, and what stands outside of them. */
#include "cli/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	enum rf_cli_side side;
	int (*run)(int argc, char **argv);
} commands[] = {
    {"send", RF_CLI_SEND, rf_cli_send},
    {"receive", RF_CLI_RECEIVE, rf_cli_receive},
    {"doctor", RF_CLI_DOCTOR, rf_cli_doctor},
    {"bench", RF_CLI_BENCH, rf_cli_bench},
};

static int finish(void)
{
	return fflush(stdout) ? RF_FAILED : RF_OK;
}

/* ramferry help [COMMAND] */
static int help(const char *about)
{
	if (!about) {
		rf_cli_overview(stdout);
		return finish();
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, about))
			continue;
		rf_cli_help(stdout, commands[i].side);
		return finish();
	}
	fprintf(stderr, "ramferry: there is no command \"%.60s\"; see ramferry --help\n", about);
	return RF_USAGE;
}

/* Where a standard descriptor is closed, the next one to be opened would get its number, and what is said to people would
 * be written to QEMU's monitor or into guest memory. So something takes the number that cannot be written to either. */
static bool occupy_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd > STDERR_FILENO && !close(fd);
}

int main(int argc, char **argv)
{
	if (!occupy_standard_descriptors())
		return RF_FAILED;
	if (argc < 2) {
		rf_cli_overview(stderr);
		return RF_USAGE;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 2, argv + 2);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return help(NULL);
	if (!strcmp(argv[1], "help"))
		return help(argc > 2 ? argv[2] : NULL);
	if (!strcmp(argv[1], "--version")) {
		printf("ramferry %s\n", rf_version());
		return finish();
	}
	fprintf(stderr, "ramferry: there is no %s \"%.60s\"; see ramferry --help\n",
		argv[1][0] == '-' ? "option" : "command", argv[1]);
	return RF_USAGE;
}
