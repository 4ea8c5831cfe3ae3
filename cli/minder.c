// SPDX-License-Identifier: LGPL-2.1-or-later
/* The minder: a tiny process between ramferry and the QEMU that it starts.
 *
 * A parent-death signal would end the QEMU with ramferry, but it cannot be taken back from outside once the guest has
 * arrived. So the minder is the QEMU's parent and holds one end of a socket, whose other end ramferry alone has. When
 * that end closes, by whatever death of ramferry, the last byte received on it tells whether the QEMU is ended, as it is
 * without one, or left alone: then the minder just goes, and the QEMU belongs to init.
 *
 * Minder and QEMU have sessions of their own, so that Ctrl-C and a closed terminal reach neither. */
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRACE_MS = 2000 }; /* for a QEMU to end by itself */

static void tell(int control, enum rf_cli_news news, int value, int by_signal)
{
	struct rf_cli_minder_message message = {.news = news, .value = value, .by_signal = by_signal};

	send(control, &message, sizeof(message), MSG_NOSIGNAL);
}

/* A fresh program starts with nothing ignored and nothing blocked. */
static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_qemu(const struct rf_cli_minder *m)
{
	setsid();
	if (m->output_is_ours)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	reset_signals();
	execvp(m->argv[0], m->argv);
	tell(m->control, RF_CLI_NOT_STARTED, errno, 0);
	_exit(127);
}

/* Nothing of ours may keep a pipe, a terminal or a directory busy. */
static void let_go(const struct rf_cli_minder *m)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	if (chdir("/"))
		return;
}

/* How it ended. It stays a zombie until ramferry has gone, so that its pid means nobody else. */
static void tell_end(const struct rf_cli_minder *m, pid_t qemu)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)qemu, &info, WEXITED | WNOWAIT))
		return;
	tell(m->control, RF_CLI_ENDED, info.si_status, info.si_code != CLD_EXITED);
}

static bool wait_for_end(int pidfd, int timeout_ms)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	return poll(&end, 1, timeout_ms) == 1;
}

/* Until ramferry has closed its end. The fate of the QEMU. */
static enum rf_cli_fate serve(const struct rf_cli_minder *m, pid_t qemu, int pidfd)
{
	struct pollfd fds[2] = {{.fd = m->control, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
	enum rf_cli_fate fate = RF_CLI_END_IT;

	for (;;) {
		char byte;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return fate;
		if (fds[1].revents) {
			tell_end(m, qemu);
			fds[1].fd = -1;
		}
		if (!fds[0].revents)
			continue;

		ssize_t n = recv(m->control, &byte, 1, 0);

		if (n > 0)
			fate = byte == RF_CLI_LEAVE_IT ? RF_CLI_LEAVE_IT : RF_CLI_END_IT;
		else if (n == 0 || errno != EINTR)
			return fate;
	}
}

static void end_qemu(pid_t qemu, int pidfd)
{
	if (!wait_for_end(pidfd, 0)) {
		kill(qemu, SIGTERM);
		if (!wait_for_end(pidfd, GRACE_MS))
			kill(qemu, SIGKILL);
	}
	while (waitpid(qemu, NULL, 0) < 0 && errno == EINTR)
		;
}

_Noreturn void rf_cli_mind(const struct rf_cli_minder *m)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	setsid();
	prctl(PR_SET_NAME, "ramferry-minder");

	pid_t qemu = fork();

	if (qemu == 0)
		become_qemu(m);

	int pidfd = qemu > 0 ? (int)syscall(SYS_pidfd_open, qemu, 0) : -1;

	if (pidfd < 0) {
		tell(m->control, RF_CLI_NOT_STARTED, errno, 0);
		if (qemu > 0)
			kill(qemu, SIGKILL);
		goto clean_up;
	}
	tell(m->control, RF_CLI_STARTED, qemu, 0);
	let_go(m);
	if (serve(m, qemu, pidfd) == RF_CLI_END_IT)
		end_qemu(qemu, pidfd);
clean_up:
	unlink(m->socket);
	rmdir(m->directory);
	_exit(0);
}
