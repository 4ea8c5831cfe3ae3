// SPDX-License-Identifier: LGPL-2.1-or-later
/* Starting a QEMU and living with it; the minder (minder.c) does the rest. */
#include "cli/child.h"
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	TRY_MS = 20,           /* between two looks for the monitor's socket */
	SOCKET_MS = 60 * 1000, /* QEMU makes it before it allocates memory, so this is plenty */
};

static rf_result refuse(char why[RF_CLI_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

static rf_result refuse(char why[RF_CLI_WHY], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, RF_CLI_WHY, format, args);
	va_end(args);
	return RF_REFUSED;
}

/* A directory that nobody else can enter. */
static rf_result make_directory(struct rf_cli_child *c, char why[RF_CLI_WHY])
{
	const char *parent = getenv("XDG_RUNTIME_DIR");
	int n;

	if (!parent || parent[0] != '/')
		parent = getenv("TMPDIR");
	if (!parent || parent[0] != '/' || strchr(parent, ',') || strlen(parent) > RF_CLI_SOCKET / 2)
		parent = "/tmp";
	n = snprintf(c->directory, sizeof(c->directory), "%s/ramferry-XXXXXX", parent);
	if (n < 0 || (size_t)n >= sizeof(c->directory) || !mkdtemp(c->directory))
		return refuse(why, "cannot make a directory for QEMU's monitor in %s: %s", parent, strerror(errno));
	snprintf(c->socket, sizeof(c->socket), "%s/qmp", c->directory);
	return RF_OK;
}

static void remove_directory(const struct rf_cli_child *c)
{
	unlink(c->socket);
	rmdir(c->directory);
}

/* The user's arguments and ours behind them. The caller frees the array and *monitor. */
static char **extend(char **argv, const char *socket, char **monitor)
{
	static char stopped[] = "-S", incoming[] = "-incoming", defer[] = "defer", qmp[] = "-qmp";
	size_t n = 0;

	while (argv[n])
		n++;

	char **all = calloc(n + 6, sizeof(*all));

	if (!all || asprintf(monitor, "unix:%s,server=on,wait=off", socket) < 0) {
		free(all);
		*monitor = NULL;
		return NULL;
	}
	memcpy(all, argv, n * sizeof(*all));
	all[n++] = stopped;
	all[n++] = incoming;
	all[n++] = defer;
	all[n++] = qmp;
	all[n] = *monitor;
	return all;
}

static rf_result start_minder(struct rf_cli_child *c, char **argv, bool output_is_ours, char why[RF_CLI_WHY])
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return refuse(why, "cannot make a socket: %s", strerror(errno));
	c->minder = fork();
	if (c->minder < 0) {
		refuse(why, "cannot start a process: %s", strerror(errno));
		close(ends[0]);
		close(ends[1]);
		return RF_REFUSED;
	}
	if (c->minder == 0) {
		close(ends[0]);
		rf_cli_mind(&(struct rf_cli_minder){
		    .control = ends[1],
		    .argv = argv,
		    .output_is_ours = output_is_ours,
		    .directory = c->directory,
		    .socket = c->socket,
		});
	}
	close(ends[1]);
	c->control = ends[0];
	return RF_OK;
}

/* Keep in c->end how it ended. */
static void note_end(struct rf_cli_child *c, const struct rf_cli_minder_message *message)
{
	if (message->by_signal)
		snprintf(c->end, sizeof(c->end), "was ended by signal %d (%s)", message->value,
			 strsignal(message->value));
	else
		snprintf(c->end, sizeof(c->end), "ended with exit status %d", message->value);
}

/* What the minder has to say, at the latest after timeout_ms. RF_OK: nothing bad. */
static rf_result hear(struct rf_cli_child *c, int timeout_ms, char why[RF_CLI_WHY])
{
	struct pollfd from = {.fd = c->control, .events = POLLIN};
	struct rf_cli_minder_message message;

	if (poll(&from, 1, timeout_ms) <= 0)
		return RF_OK;
	if (recv(c->control, &message, sizeof(message), 0) != sizeof(message))
		return refuse(why, "the process between ramferry and %s is gone", c->program);
	switch (message.news) {
	case RF_CLI_STARTED:
		c->qemu = message.value;
		c->pidfd = (int)syscall(SYS_pidfd_open, c->qemu, 0);
		return RF_OK;
	case RF_CLI_NOT_STARTED:
		return refuse(why, "cannot start %s: %s", c->program, strerror(message.value));
	case RF_CLI_ENDED:
		note_end(c, &message);
		return refuse(why, "%s %s before it could take a guest", c->program, c->end);
	}
	return RF_OK;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* The monitor's socket, connected; or -1: not there yet. */
static int try_connect(const struct rf_cli_child *c)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	_Static_assert(sizeof(c->socket) <= sizeof(address.sun_path), "the path fits");
	memcpy(address.sun_path, c->socket, strlen(c->socket) + 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Until the monitor says its first word. QEMU answers only when it has got all its memory, which may take minutes, so
 * there is no limit as long as it lives. What it says is the library's business. */
static rf_result await_monitor(struct rf_cli_child *c, char why[RF_CLI_WHY])
{
	int64_t deadline = now_ms() + SOCKET_MS;
	rf_result result = RF_OK;
	int fd = -1;

	for (;;) {
		struct pollfd word = {.fd = fd, .events = POLLIN};

		if (fd >= 0 && poll(&word, 1, 0) == 1)
			break;
		result = hear(c, TRY_MS, why);
		if (result != RF_OK)
			break;
		if (rf_cli_signals_came()) {
			snprintf(why, RF_CLI_WHY, "cancelled");
			result = RF_CANCELLED;
			break;
		}
		if (fd < 0)
			fd = try_connect(c);
		if (fd < 0 && now_ms() > deadline) {
			result = refuse(why, "%s has made no monitor after %d s: is it a QEMU?", c->program,
					SOCKET_MS / 1000);
			break;
		}
	}
	if (fd >= 0)
		close(fd);
	return result;
}

rf_result rf_cli_child_start(struct rf_cli_child *c, char **argv, bool output_is_ours, char why[RF_CLI_WHY])
{
	char *monitor = NULL;

	*c = (struct rf_cli_child){.program = argv[0], .control = -1, .pidfd = -1};

	rf_result result = make_directory(c, why);

	if (result != RF_OK)
		return result;

	char **all = extend(argv, c->socket, &monitor);

	result = all ? start_minder(c, all, output_is_ours, why) : refuse(why, "no memory");
	free(all);
	free(monitor);
	if (result != RF_OK) {
		remove_directory(c);
		return result;
	}
	result = await_monitor(c, why);
	if (result != RF_OK)
		rf_cli_child_settle(c);
	return result;
}

static void *watch(void *arg)
{
	struct rf_cli_child *c = arg;
	struct rf_cli_minder_message message;

	/* Ends when the minder goes or rf_cli_child_settle() shuts the socket. */
	while (recv(c->control, &message, sizeof(message), 0) == sizeof(message)) {
		if (message.news != RF_CLI_ENDED)
			continue;
		note_end(c, &message);
		atomic_store(&c->dead, true);
		c->on_death(c->on_death_arg);
	}
	return NULL;
}

void rf_cli_child_watch(struct rf_cli_child *c, void (*fn)(void *arg), void *arg)
{
	sigset_t all, before;

	c->on_death = fn;
	c->on_death_arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	c->watching = !pthread_create(&c->watcher, NULL, watch, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void decide(const struct rf_cli_child *c, enum rf_cli_fate fate)
{
	char byte = (char)fate;

	send(c->control, &byte, 1, MSG_NOSIGNAL);
}

void rf_cli_child_keep(struct rf_cli_child *c)
{
	if (!c->kept)
		decide(c, RF_CLI_LEAVE_IT);
	c->kept = true;
}

void rf_cli_child_settle(struct rf_cli_child *c)
{
	if (c->control < 0)
		return;
	if (!c->kept)
		decide(c, RF_CLI_END_IT);
	shutdown(c->control, SHUT_RDWR);
	if (c->watching)
		pthread_join(c->watcher, NULL);
	while (waitpid(c->minder, NULL, 0) < 0 && errno == EINTR)
		;
	/* In case that the minder did not live to do it. */
	if (!c->kept && c->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
	remove_directory(c);
	if (c->pidfd >= 0)
		close(c->pidfd);
	close(c->control);
	c->control = -1;
}
