// SPDX-License-Identifier: LGPL-2.1-or-later
/* Stands in for a QEMU that ramferry starts. usage: fake-qemu MODE [-qmp unix:PATH,...] ...
 *
 *     greet     opens the monitor, greets whoever connects, and lives on
 *     silent    opens the monitor and says nothing: a QEMU that is still allocating its memory
 *     deaf      never opens it
 *     exit:N    ends at once with status N
 *     arguments prints its arguments to standard error and ends with status 0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *argument)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strncmp(argument, "unix:", 5))
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.*s", (int)strcspn(argument + 5, ","), argument + 5);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1))
		return -1;
	return fd;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "", *monitor = "";

	for (int i = 2; i + 1 < argc; i++)
		if (!strcmp(argv[i], "-qmp"))
			monitor = argv[i + 1];
	if (!strncmp(mode, "exit:", 5))
		return atoi(mode + 5);
	if (!strcmp(mode, "arguments")) {
		for (int i = 1; i < argc; i++)
			fprintf(stderr, "[%s]", argv[i]);
		fputc('\n', stderr);
		return 0;
	}

	int listener = strcmp(mode, "deaf") ? listen_at(monitor) : -1;

	while (listener >= 0 && !strcmp(mode, "greet")) {
		int client = accept(listener, NULL, NULL);

		if (client >= 0 && write(client, "{\"QMP\": {}}\r\n", 13) < 0)
			close(client);
	}
	for (;;)
		pause();
}
