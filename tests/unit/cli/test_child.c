// SPDX-License-Identifier: LGPL-2.1-or-later
/* A QEMU that ramferry starts: it ends with ramferry until the guest may run in it, whatever ends ramferry.
 *
 * This process is a subreaper: what outlives a ramferry becomes our child, so that its end can be waited for. */
#include "cli/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a test's ramferry ends. */
enum { SETTLED, KILLED };

static rf_result start(struct rf_cli_child *c, const char *mode, char why[RF_CLI_WHY])
{
	char *argv[] = {(char *)FAKE_QEMU, (char *)mode, NULL};

	why[0] = '\0';
	return rf_cli_child_start(c, argv, false, why);
}

static bool is_there(const char *path)
{
	struct stat status;

	return !stat(path, &status);
}

/* A process that starts a fake QEMU, says `fate` ('e' nothing, 'k' keep) and then ends one way or the other.
 * What comes of it is a zombie of ours or still runs. */
static void play(struct rf_cli_child *c, char fate, int end)
{
	int pipe_ends[2];

	assert_int_equal(pipe(pipe_ends), 0);

	pid_t ramferry = fork();

	if (ramferry == 0) {
		char why[RF_CLI_WHY];

		if (start(c, "greet", why) != RF_OK)
			_exit(1);
		if (fate == 'k')
			rf_cli_child_keep(c);
		if (write(pipe_ends[1], c, sizeof(*c)) != sizeof(*c))
			_exit(1);
		if (end == KILLED)
			kill(getpid(), SIGKILL);
		rf_cli_child_settle(c);
		_exit(0);
	}
	close(pipe_ends[1]);
	assert_int_equal(read(pipe_ends[0], c, sizeof(*c)), sizeof(*c));
	close(pipe_ends[0]);
	assert_int_equal(waitpid(ramferry, NULL, 0), ramferry);
	/* Settled, the minder has gone already and was reaped there. */
	if (end == KILLED)
		assert_int_equal(waitpid(c->minder, NULL, 0), c->minder);
}

/* The minder reaps a QEMU that it ends. One that it leaves alone becomes our child. */
static void assert_ended(const struct rf_cli_child *c)
{
	assert_int_equal(kill(c->qemu, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_false(is_there(c->directory));
}

static void assert_lives(const struct rf_cli_child *c)
{
	assert_int_equal(waitpid(c->qemu, NULL, WNOHANG), 0);
	assert_int_equal(getsid(c->qemu), c->qemu);
	assert_int_equal(kill(c->qemu, SIGKILL), 0);
	assert_int_equal(waitpid(c->qemu, NULL, 0), c->qemu);
	assert_false(is_there(c->directory));
}

static void ends_with_ramferry(void **state)
{
	struct rf_cli_child c;

	play(&c, 'e', SETTLED);
	assert_ended(&c);
	play(&c, 'e', KILLED);
	assert_ended(&c);
}

static void lives_on_with_the_guest(void **state)
{
	struct rf_cli_child c;

	play(&c, 'k', SETTLED);
	assert_lives(&c);
	play(&c, 'k', KILLED);
	assert_lives(&c);
}

static void ends_with_a_killed_minder(void **state)
{
	struct rf_cli_child c;
	char why[RF_CLI_WHY];

	assert_int_equal(start(&c, "greet", why), RF_OK);

	pid_t qemu = c.qemu;

	kill(c.minder, SIGKILL);
	rf_cli_child_settle(&c);
	assert_int_equal(waitpid(qemu, NULL, 0), qemu);
	assert_false(is_there(c.directory));
}

static void assert_refused(const char *mode, const char *sentence)
{
	struct rf_cli_child c;
	char why[RF_CLI_WHY];

	assert_int_equal(start(&c, mode, why), RF_REFUSED);
	if (!strstr(why, sentence))
		fail_msg("\"%s\" does not say \"%s\"", why, sentence);
	assert_false(is_there(c.directory));
}

static void ends_before_it_is_ready(void **state)
{
	assert_refused("exit:7", "ended with exit status 7");
	assert_refused("exit:0", "ended with exit status 0");
}

static void is_not_there(void **state)
{
	char *argv[] = {(char *)"/nonexistent/qemu", NULL};
	struct rf_cli_child c;
	char why[RF_CLI_WHY];

	assert_int_equal(rf_cli_child_start(&c, argv, false, why), RF_REFUSED);
	assert_string_equal(why, "cannot start /nonexistent/qemu: No such file or directory");
	assert_false(is_there(c.directory));
}

static void has_a_directory_of_its_own(void **state)
{
	struct rf_cli_child c;
	struct stat status;
	char why[RF_CLI_WHY];

	assert_int_equal(start(&c, "greet", why), RF_OK);
	assert_int_equal(stat(c.directory, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	rf_cli_child_settle(&c);
	assert_false(is_there(c.directory));
}

static void count_call(void *arg)
{
	int fd = *(int *)arg;

	assert_int_equal(write(fd, "x", 1), 1);
}

static void death_is_noticed(void **state)
{
	struct rf_cli_child c;
	char why[RF_CLI_WHY], byte;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(start(&c, "greet", why), RF_OK);
	rf_cli_child_watch(&c, count_call, &ends[1]);
	assert_false(c.dead);
	kill(c.qemu, SIGKILL);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_true(c.dead);
	assert_non_null(strstr(c.end, "signal 9"));
	rf_cli_child_settle(&c);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ends_with_ramferry),
	    cmocka_unit_test(lives_on_with_the_guest),
	    cmocka_unit_test(ends_with_a_killed_minder),
	    cmocka_unit_test(ends_before_it_is_ready),
	    cmocka_unit_test(is_not_there),
	    cmocka_unit_test(has_a_directory_of_its_own),
	    cmocka_unit_test(death_is_noticed),
	};

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	return cmocka_run_group_tests_name("cli child", tests, NULL, NULL);
}
