// SPDX-License-Identifier: LGPL-2.1-or-later
/* The QMP client against servers that behave badly. */
#include "fake.h"

#include "qemu/clock.h"
#include "qemu/qmp.h"
#include "ramferry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Connect and greet; the sentence if that fails. */
static struct rf_qmp *enter(const struct fake *f, struct rf_error *e)
{
	struct rf_qmp *q;
	*e = (struct rf_error){0};
	if (rf_qmp_connect(f->path, &q, e) != 0)
		fail_msg("%s", e->text);
	assert_int_equal(rf_qmp_peer(q), getpid());
	if (rf_qmp_greet(q, e) == 0)
		return q;
	rf_qmp_close(q);
	return NULL;
}

static void expect_no_greeting(fake_script *script, const char *sentence)
{
	struct fake f;
	struct rf_error e;
	fake_start(&f, script);
	assert_null(enter(&f, &e));
	assert_int_equal(e.code, RF_E_REFUSED);
	if (!strstr(e.text, sentence))
		fail_msg("\"%s\" is not in \"%s\"", sentence, e.text);
	fake_end(&f);
}

/* ---- Greetings -------------------------------------------------------------------------------------------------------- */

static void is_human(int peer)
{
	fake_say(peer, "QEMU 7.2.22 monitor - type 'help' for more information\r\n(qemu) ");
	fake_hear(peer);
}

static void is_ssh(int peer)
{
	fake_say(peer, "SSH-2.0-OpenSSH_9.2\x1b[31m\r\n");
	fake_hear(peer);
}

static void is_other_json(int peer)
{
	fake_say(peer, "{\"hello\": \"world\"}\r\n");
	fake_hear(peer);
}

static void is_broken_json(int peer)
{
	fake_say(peer, "{\"QMP\": {\"version\": nonsense}}\r\n");
	fake_hear(peer);
}

static void is_silent(int peer)
{
	fake_hear(peer);
}

static void is_gone(int peer)
{
}

static void dies_in_the_greeting(int peer)
{
	fake_say(peer, "{\"QMP\": {\"version\": {\"qemu\"");
}

static void refuses_capabilities(int peer)
{
	fake_say(peer, "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 0, \"minor\": 0, \"major\": 9}}}}\n");
	char text[128];
	snprintf(text, sizeof(text),
		 "{\"error\": {\"class\": \"GenericError\", \"desc\": \"not\\nnow\"}, \"id\": %d}\n", fake_hear(peer));
	fake_say(peer, text);
	fake_hear(peer);
}

static void bad_greetings_are_sentences(void **state)
{
	expect_no_greeting(is_human, "is QEMU's human monitor: give the socket of a -qmp option");
	expect_no_greeting(is_ssh, "does not speak QMP: it says \"SSH-2.0-OpenSSH_9.2.[31m..\"");
	expect_no_greeting(is_other_json, "does not speak QMP: its greeting is another one");
	expect_no_greeting(is_broken_json, "does not speak QMP: it says \"{");
	expect_no_greeting(is_gone, "closed its monitor");
	expect_no_greeting(dies_in_the_greeting, "closed its monitor");
	expect_no_greeting(refuses_capabilities, "QEMU refuses qmp_capabilities: not now");
}

static void a_silent_monitor_is_taken_by_somebody_else(void **state)
{
	int64_t then = rf_clock_ns();
	expect_no_greeting(is_silent, "another client uses this monitor");
	assert_true(rf_clock_ns() - then < INT64_C(4000000000));
}

static void a_full_queue_is_taken_by_somebody_else(void **state)
{
	struct fake f;
	struct rf_qmp *q[4] = {0};
	struct rf_error e = {0};
	int n = 0;
	fake_start(&f, is_silent);
	while (n < 4 && rf_qmp_connect(f.path, &q[n], &e) == 0)
		n++;
	assert_true(n < 4);
	assert_non_null(strstr(e.text, "another client uses the monitor"));
	while (n)
		rf_qmp_close(q[--n]);
	fake_end(&f);
}

static void paths_that_are_no_monitor(void **state)
{
	struct rf_qmp *q;
	struct rf_error e;
	char path[300];
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = 0;
	assert_int_equal(rf_qmp_connect(path, &q, &e), -1);
	assert_non_null(strstr(e.text, "has 1 to 107 bytes"));
	assert_int_equal(rf_qmp_connect("", &q, &e), -1);
	assert_int_equal(rf_qmp_connect("/nonexistent/qmp", &q, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_string_equal(e.text, "cannot connect to the QMP socket /nonexistent/qmp: No such file or directory");
}

static void a_pretty_monitor_is_understood(int peer)
{
	fake_say(peer, "  {\n  \"QMP\": {\"version\": {\n\"qemu\": {\"micro\": 1, \"minor\": 1, \"major\": 9}},\n "
		       "\"x\": \"}\\\"{\"");
	fake_say(peer, "}\n}\n\n\n");
	fake_answer(peer, fake_hear(peer), "{}");
	fake_hear(peer);
}

static void a_greeting_in_pieces(void **state)
{
	struct fake f;
	struct rf_error e;
	fake_start(&f, a_pretty_monitor_is_understood);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	assert_int_equal(rf_qmp_version(q), 90101);
	rf_qmp_close(q);
	fake_end(&f);
}

/* ---- Commands --------------------------------------------------------------------------------------------------------- */

static void answers_among_events(int peer)
{
	fake_greet(peer);
	int id = fake_hear(peer);
	for (int i = 0; i < 5000; i++)
		fake_say(peer, "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"RTC_CHANGE\", "
			       "\"data\": {\"offset\": 1}}\r\n");
	fake_answer(peer, id - 1, "\"too late\""); /* of a command that was given up */
	fake_say(peer, "{\"event\": \"STOP\"}");
	fake_answer(peer, id, "\"yes\"");
	fake_say(peer, "{\"event\": \"RESUME\"}\r\n");
	fake_hear(peer);
}

struct heard {
	int events, stops, resumes;
};

static void count(void *arg, const char *name, const json_t *data)
{
	struct heard *h = arg;
	h->events++;
	h->stops += strcmp(name, "STOP") == 0 && !data;
	h->resumes += strcmp(name, "RESUME") == 0;
}

static void events_and_late_answers_do_not_confuse(void **state)
{
	struct fake f;
	struct rf_error e;
	struct heard heard = {0};
	json_t *answer;
	fake_start(&f, answers_among_events);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	rf_qmp_on_event(q, count, &heard);
	assert_int_equal(rf_qmp_call(q, "query-anything", json_pack("{s:s}", "a", "b"), &answer, &e), 0);
	assert_string_equal(json_string_value(answer), "yes");
	json_decref(answer);
	assert_int_equal(heard.events, 5001);
	assert_int_equal(heard.stops, 1);
	while (!heard.resumes)
		assert_int_equal(rf_qmp_take_events(q, 5000, &e), 0);
	rf_qmp_close(q);
	fake_end(&f);
}

static void says_one_huge_thing(int peer)
{
	fake_greet(peer);
	int id = fake_hear(peer);
	char *text = malloc(3 << 20);
	if (text) {
		memset(text, 'x', (3 << 20) - 1);
		text[(3 << 20) - 1] = 0;
		fake_say(peer, "{\"return\": \"");
		fake_say(peer, text);
		char end[40];
		snprintf(end, sizeof(end), "\", \"id\": %d}", id);
		fake_say(peer, end);
		free(text);
	}
	fake_hear(peer);
}

static void a_huge_answer_is_taken(void **state)
{
	struct fake f;
	struct rf_error e;
	json_t *answer;
	fake_start(&f, says_one_huge_thing);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	assert_int_equal(rf_qmp_call(q, "x", NULL, &answer, &e), 0);
	assert_int_equal(json_string_length(answer), (3 << 20) - 1);
	json_decref(answer);
	rf_qmp_close(q);
	fake_end(&f);
}

static void never_ends_a_message(int peer)
{
	static const char piece[65536 + 1] = {[0 ... 65535] = 'x'};
	fake_greet(peer);
	fake_hear(peer);
	fake_say(peer, "{\"return\": \"");
	for (int i = 0; i < (70 << 20) / 65536; i++)
		fake_say(peer, piece);
}

static void dies_in_the_answer(int peer)
{
	fake_greet(peer);
	fake_hear(peer);
	fake_say(peer, "{\"retu");
}

static void dies_before_the_answer(int peer)
{
	fake_greet(peer);
	fake_hear(peer);
}

static void talks_nonsense_later(int peer)
{
	fake_greet(peer);
	fake_hear(peer);
	fake_say(peer, "}}}} what?");
	fake_hear(peer);
}

/* Once dead it stays dead, and every call says the same. */
static void expect_death(fake_script *script, const char *sentence)
{
	struct fake f;
	struct rf_error e, again;
	fake_start(&f, script);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	assert_int_equal(rf_qmp_call(q, "query-status", NULL, NULL, &e), -1);
	assert_int_equal(e.code, RF_E_FAILED);
	if (!strstr(e.text, sentence))
		fail_msg("\"%s\" is not in \"%s\"", sentence, e.text);
	assert_int_equal(rf_qmp_call(q, "cont", json_object(), NULL, &again), -1);
	assert_string_equal(again.text, e.text);
	assert_int_equal(rf_qmp_take_events(q, 0, &again), -1);
	assert_int_equal(rf_qmp_post(q, "quit", NULL, &again), -1);
	rf_qmp_close(q);
	fake_end(&f);
}

static void deaths_are_sentences(void **state)
{
	expect_death(dies_in_the_answer, "closed its monitor");
	expect_death(dies_before_the_answer, "closed its monitor");
	expect_death(talks_nonsense_later, "does not speak QMP: it says \"}}}} what?\"");
	expect_death(never_ends_a_message, "sent a message without end");
}

static void refuses(int peer)
{
	fake_greet(peer);
	char text[200];
	snprintf(text, sizeof(text),
		 "{\"error\": {\"class\": \"GenericError\", \"desc\": \"No such thing.\"}, \"id\": %d}\r\n",
		 fake_hear(peer));
	fake_say(peer, text);
	snprintf(text, sizeof(text), "{\"error\": 7, \"id\": %d}\r\n", fake_hear(peer));
	fake_say(peer, text);
	fake_answer(peer, fake_hear(peer), "\"fine\"");
	fake_hear(peer);
}

static void refusals_are_sentences_and_change_nothing(void **state)
{
	struct fake f;
	struct rf_error e;
	char *text;
	fake_start(&f, refuses);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	assert_int_equal(rf_qmp_call(q, "x-y", NULL, NULL, &e), -1);
	assert_string_equal(e.text, "QEMU refuses x-y: No such thing");
	assert_int_equal(rf_qmp_call(q, "x-y", NULL, NULL, &e), -1);
	assert_string_equal(e.text, "QEMU refuses x-y: it does not say why");
	assert_int_equal(rf_qmp_human(q, "info x", &text, &e), 0);
	assert_string_equal(text, "fine");
	free(text);
	rf_qmp_close(q);
	fake_end(&f);
}

static int passed_fd = -1;

static void takes_a_descriptor(int peer)
{
	char text[512];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {text, sizeof(text) - 1};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	fake_greet(peer);
	ssize_t n = recvmsg(peer, &m, 0);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&passed_fd, CMSG_DATA(c), sizeof(int));
	fake_answer(peer, 2, "{}"); /* the second command of the session */
	fake_hear(peer);
}

static void a_descriptor_goes_along(void **state)
{
	struct fake f;
	struct rf_error e;
	int pair[2];
	char c = 0;
	assert_int_equal(pipe(pair), 0);
	fake_start(&f, takes_a_descriptor);
	struct rf_qmp *q = enter(&f, &e);
	assert_non_null(q);
	assert_int_equal(rf_qmp_call_with_fd(q, "getfd", json_pack("{s:s}", "fdname", "x"), pair[1], &e), 0);
	rf_qmp_close(q);
	fake_end(&f);
	assert_int_equal(write(passed_fd, "z", 1), 1);
	assert_int_equal(read(pair[0], &c, 1), 1);
	assert_int_equal(c, 'z');
	close(passed_fd);
	close(pair[0]);
	close(pair[1]);
}

/* ---- Opening a guest -------------------------------------------------------------------------------------------------- */

static void is_an_old_qemu(int peer)
{
	fake_say(peer, "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 3, \"minor\": 1, \"major\": 6}}}}\n");
	fake_answer(peer, fake_hear(peer), "{}");
	fake_hear(peer);
}

static void expect_no_guest(const char *path, int pid, rf_result result, const char *sentence)
{
	rf_guest *guest = NULL;
	char why[500] = "";
	assert_int_equal(rf_guest_open_qemu(&guest, path, pid, why, sizeof(why)), result);
	assert_null(guest);
	if (!strstr(why, sentence))
		fail_msg("\"%s\" is not in \"%s\"", sentence, why);
}

static void guests_that_cannot_be_opened(void **state)
{
	struct fake f;
	expect_no_guest("/nonexistent", 0, RF_REFUSED, "cannot connect");
	expect_no_guest(NULL, 0, RF_USAGE, "path of a QMP socket");
	expect_no_guest("/x", -1, RF_USAGE, "process id");
	fake_start(&f, is_an_old_qemu);
	expect_no_guest(f.path, 0, RF_REFUSED, "is version 6.1, but 7.2 is the oldest that will do");
	fake_end(&f);
	fake_start(&f, is_silent);
	expect_no_guest(f.path, 4194305, RF_REFUSED, "process 4194305"); /* above the largest there can be */
	fake_end(&f);
}

static void a_qemu_has_one_ferry_at_a_time(void **state)
{
	struct fake f;
	char path[32], sentence[80];
	snprintf(path, sizeof(path), "/proc/%d", (int)getpid());
	snprintf(sentence, sizeof(sentence), "another ramferry is at work on this QEMU (process %d)", (int)getpid());
	FILE *lock = fopen(path, "re");
	assert_non_null(lock);
	assert_int_equal(flock(fileno(lock), LOCK_EX | LOCK_NB), 0);
	fake_start(&f, is_silent);
	expect_no_guest(f.path, 0, RF_REFUSED, sentence);
	fake_end(&f);
	fclose(lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_greetings_are_sentences),
	    cmocka_unit_test(a_silent_monitor_is_taken_by_somebody_else),
	    cmocka_unit_test(a_full_queue_is_taken_by_somebody_else),
	    cmocka_unit_test(paths_that_are_no_monitor),
	    cmocka_unit_test(a_greeting_in_pieces),
	    cmocka_unit_test(events_and_late_answers_do_not_confuse),
	    cmocka_unit_test(a_huge_answer_is_taken),
	    cmocka_unit_test(deaths_are_sentences),
	    cmocka_unit_test(refusals_are_sentences_and_change_nothing),
	    cmocka_unit_test(a_descriptor_goes_along),
	    cmocka_unit_test(guests_that_cannot_be_opened),
	    cmocka_unit_test(a_qemu_has_one_ferry_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
