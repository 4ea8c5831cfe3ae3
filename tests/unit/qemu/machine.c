// SPDX-License-Identifier: LGPL-2.1-or-later
#include "machine.h"

#include "qemu/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_ARGUMENTS = 64, TEXT_BYTES = 192, START_MS = 20000 };

struct command {
	char texts[MAX_ARGUMENTS][TEXT_BYTES];
	char *argv[MAX_ARGUMENTS + 1];
	int n;
};

__attribute__((format(printf, 2, 3))) static void add(struct command *c, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	assert_true(c->n < MAX_ARGUMENTS);
	vsnprintf(c->texts[c->n], TEXT_BYTES, format, args);
	c->argv[c->n] = c->texts[c->n];
	c->n++;
	va_end(args);
}

static void add_option(struct command *c, const char *option, const char *value)
{
	add(c, "%s", option);
	add(c, "%s", value);
}

static void add_ram(struct command *c, const struct machine *m, unsigned kinds)
{
	unsigned mib = kinds & MACHINE_HUGE ? 20480 : 128;
	add(c, "-m");
	add(c, "%uM", mib);
	if (kinds & MACHINE_PRIVATE)
		return;
	if (kinds & MACHINE_NUMA) {
		for (int i = 0; i < 2; i++) {
			add(c, "-object");
			add(c, "memory-backend-file,id=node%d,mem-path=%s%s,share=on,size=%uM", i, m->ram,
			    i ? "-2" : "", mib / 2);
			add(c, "-numa");
			add(c, "node,memdev=node%d", i);
		}
		return;
	}
	add(c, "-object");
	if (kinds & MACHINE_MEMFD)
		add(c, "memory-backend-memfd,id=m,share=on,size=%uM", mib);
	else
		add(c, "memory-backend-file,id=m,mem-path=%s,share=on,size=%uM", m->ram, mib);
	add_option(c, "-machine", "memory-backend=m");
}

static void add_words(struct command *c, const char *words)
{
	char copy[512], *rest = NULL;
	snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		add(c, "%s", w);
}

static void fill_command(struct command *c, const struct machine *m, const char *bootsector, unsigned kinds,
			 const char *const *extra)
{
	const char *qemu = getenv("QEMU"), *accel = getenv("ACCEL");
	if (kinds & MACHINE_NOBODY)
		add_words(c, "setpriv --reuid=nobody --regid=nogroup --clear-groups");
	add_words(c, qemu && *qemu ? qemu : "qemu-system-x86_64");
	add_option(c, "-accel", accel && *accel ? accel : "tcg");
	add_words(c, "-nodefaults -display none -no-reboot");
	add(c, "-serial");
	add(c, "file:%s", m->console);
	add(c, "-qmp");
	add(c, "unix:%s,server=on,wait=off", m->qmp);
	add(c, "-qmp");
	add(c, "unix:%s.test,server=on,wait=off", m->qmp);
	add(c, "-drive");
	add(c, "if=ide,format=raw,file=%s,snapshot=on", bootsector);
	add_ram(c, m, kinds);
	if (kinds & MACHINE_INCOMING)
		add(c, "-S");
	if (kinds & (MACHINE_INCOMING | MACHINE_HAS_NO_S))
		add_option(c, "-incoming", "defer");
	if (kinds & MACHINE_SANDBOX)
		add_option(c, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
	if (kinds & MACHINE_VGA)
		add_option(c, "-vga", "std");
	for (; extra && *extra; extra++)
		add(c, "%s", *extra);
}

static void connect_monitor(struct machine *m)
{
	char path[112];
	struct rf_error e = {0};
	int64_t deadline = rf_deadline_ms(START_MS);
	snprintf(path, sizeof(path), "%s.test", m->qmp);
	while (rf_qmp_connect(path, &m->monitor, &e) != 0) {
		if (waitpid(m->pid, NULL, WNOHANG) == m->pid)
			fail_msg("QEMU ended at its start");
		if (!rf_deadline_left_ms(deadline))
			fail_msg("%s", e.text);
		rf_sleep_us(10000); /* the socket appears when QEMU gets to it; nothing tells when */
	}
	if (rf_qmp_greet(m->monitor, &e) != 0)
		fail_msg("%s", e.text);
}

void machine_start(struct machine *m, const char *bootsector, unsigned kinds, const char *const *extra)
{
	struct command c = {.n = 0};
	*m = (struct machine){0};
	strcpy(m->folder, "/tmp/ramferry.XXXXXX");
	strcpy(m->ram, "/dev/shm/ramferry.XXXXXX");
	assert_non_null(mkdtemp(m->folder));
	chmod(m->folder, 0777);
	close(mkstemp(m->ram)); /* reserves the name; who runs QEMU shall make the file */
	unlink(m->ram);
	snprintf(m->qmp, sizeof(m->qmp), "%s/qmp", m->folder);
	snprintf(m->console, sizeof(m->console), "%s/console", m->folder);
	fill_command(&c, m, bootsector, kinds, extra);
	m->pid = fork();
	assert_true(m->pid >= 0);
	if (m->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(c.argv[0], c.argv);
		_exit(127);
	}
	connect_monitor(m);
}

bool machine_has_ended(struct machine *m)
{
	if (m->pid && waitpid(m->pid, NULL, WNOHANG) == m->pid)
		m->pid = 0;
	return !m->pid;
}

void machine_end(struct machine *m)
{
	char path[160];
	rf_qmp_close(m->monitor);
	if (!machine_has_ended(m)) {
		kill(m->pid, SIGKILL);
		waitpid(m->pid, NULL, 0);
	}
	unlink(m->ram);
	snprintf(path, sizeof(path), "%s-2", m->ram);
	unlink(path);
	static const char *const files[] = {"qmp", "qmp.test", "console"};
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", m->folder, files[i]);
		unlink(path);
	}
	rmdir(m->folder);
	memset(m, 0, sizeof(*m));
}

bool machine_runs(const struct machine *m)
{
	struct stat before, now;
	int64_t deadline = rf_deadline_ms(30000);
	assert_int_equal(stat(m->console, &before), 0);
	do {
		rf_sleep_us(5000); /* a console file has no event to wait for */
		assert_int_equal(stat(m->console, &now), 0);
		if (now.st_size > before.st_size)
			return true;
	} while (rf_deadline_left_ms(deadline));
	return false;
}

json_t *machine_ask(const struct machine *m, const char *command)
{
	json_t *answer = NULL;
	struct rf_error e = {0};
	if (rf_qmp_call(m->monitor, command, NULL, &answer, &e) != 0)
		fail_msg("%s: %s", command, e.text);
	return answer;
}

void machine_expect_status(const struct machine *m, const char *status)
{
	json_t *answer = machine_ask(m, "query-status");
	assert_string_equal(json_string_value(json_object_get(answer, "status")), status);
	json_decref(answer);
}
