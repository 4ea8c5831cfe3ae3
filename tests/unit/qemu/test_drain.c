// SPDX-License-Identifier: LGPL-2.1-or-later
/* Drain points: `stop` and `cont`, and whom they must not run. What a QEMU may answer in between is played by a fake. */
#include "fake.h"

#include "qemu/guest.h"
#include "ramferry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A scene: what the fake says, and what it was told. */
static struct scene {
	const char *before, *after; /* query-status, before and after `stop` */
	bool operator_first;        /* somebody else's `stop` came a moment before ours */
	const char *refuses;        /* a command */
	const char *hangs_up_at;    /* a command; query-status: the second */
	char heard[200];            /* commands, in their order */
} scene;

static void say_stop_event(int peer)
{
	struct timespec t;
	char text[200];
	clock_gettime(CLOCK_REALTIME, &t);
	snprintf(text, sizeof(text),
		 "{\"event\": \"STOP\", \"timestamp\": {\"seconds\": %ld, \"microseconds\": %ld}}\r\n",
		 (long)t.tv_sec - (scene.operator_first ? 1 : 0), t.tv_nsec / 1000);
	fake_say(peer, text);
}

static void answer(int peer, const char *command, int id)
{
	char text[200];
	const char *status = strstr(scene.heard, "stop") ? scene.after : scene.before;
	if (scene.refuses && strcmp(command, scene.refuses) == 0) {
		snprintf(text, sizeof(text), "{\"error\": {\"class\": \"X\", \"desc\": \"not now\"}, \"id\": %d}\r\n",
			 id);
		fake_say(peer, text);
		return;
	}
	if (strcmp(command, "stop") == 0)
		say_stop_event(peer);
	if (strcmp(command, "cont") == 0)
		scene.after = "running";
	snprintf(text, sizeof(text), "{\"status\": \"%s\", \"running\": %s}", status,
		 strcmp(status, "running") == 0 ? "true" : "false");
	fake_answer(peer, id, strcmp(command, "query-status") == 0 ? text : "{}");
}

static void play(int peer)
{
	char text[1024], command[64];
	ssize_t n;
	fake_greet(peer);
	while ((n = recv(peer, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = 0;
		const char *id = strstr(text, "\"id\":");
		if (sscanf(text, "{\"execute\":\"%63[^\"]", command) != 1 ||
		    (scene.hangs_up_at && strcmp(command, scene.hangs_up_at) == 0 &&
		     (*scene.heard || strcmp(command, "query-status") != 0)))
			return;
		if (strcmp(command, "query-status") != 0)
			snprintf(scene.heard + strlen(scene.heard), sizeof(scene.heard) - strlen(scene.heard), "%s ",
				 command);
		answer(peer, command, id ? atoi(id + 5) : 0);
	}
}

/* What drain() comes to, whether it is still due to run the guest, and what it has said. */
static void expect(struct scene s, int result, bool due, const char *heard)
{
	struct fake f;
	struct rf_guest *g;
	struct rf_error e = {0};
	char why[400];
	scene = s;
	fake_start(&f, play);
	if (rf_guest_open_qemu(&g, f.path, 0, why, sizeof(why)) != RF_OK)
		fail_msg("%s", why);
	if (g->ops->drain(g->ctx, &e) != result)
		fail_msg("%s", e.text);
	assert_int_equal(rf_qemu_of(g)->drain_stopped, due);
	assert_string_equal(scene.heard, heard);
	rf_guest_destroy(g);
	fake_end(&f);
}

static void a_guest_that_runs_is_stopped_and_runs_on(void **state)
{
	expect((struct scene){.before = "running", .after = "paused"}, 0, false, "stop cont ");
}

static void a_guest_that_stands_still_is_left_alone(void **state)
{
	expect((struct scene){.before = "paused", .after = "paused"}, 0, false, "");
	expect((struct scene){.before = "io-error", .after = "io-error"}, 0, false, "");
}

static void an_operator_who_was_quicker_is_obeyed(void **state)
{
	expect((struct scene){.before = "running", .after = "paused", .operator_first = true}, 0, false, "stop ");
}

static void a_guest_that_got_into_trouble_is_left_alone(void **state)
{
	expect((struct scene){.before = "running", .after = "io-error"}, 0, false, "stop ");
	expect((struct scene){.before = "running", .after = "guest-panicked"}, 0, false, "stop ");
}

static void somebody_else_runs_it(void **state)
{
	expect((struct scene){.before = "running", .after = "running"}, 0, false, "stop ");
}

static void what_fails_in_between_leaves_a_note(void **state)
{
	expect((struct scene){.before = "running", .after = "paused", .hangs_up_at = "query-status"}, -1, true,
	       "stop ");
	expect((struct scene){.before = "running", .after = "paused", .hangs_up_at = "stop"}, -1, true, "");
}

static void undo_runs_it(void **state)
{
	struct fake f;
	struct rf_guest *g;
	struct rf_error e = {0};
	scene = (struct scene){.before = "running", .after = "paused", .refuses = "stop"};
	fake_start(&f, play);
	assert_int_equal(rf_guest_open_qemu(&g, f.path, 0, NULL, 0), RF_OK);
	assert_int_equal(g->ops->drain(g->ctx, &e), -1);
	assert_non_null(strstr(e.text, "not now"));
	assert_true(rf_qemu_of(g)->drain_stopped);
	assert_int_equal(rf_qemu_undo_drain(rf_qemu_of(g), &e), 0); /* it may have been stopped all the same */
	assert_string_equal(scene.heard, "stop cont ");
	assert_int_equal(rf_qemu_undo_drain(rf_qemu_of(g), &e), 0); /* once */
	assert_string_equal(scene.heard, "stop cont ");
	rf_guest_destroy(g);
	fake_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_guest_that_runs_is_stopped_and_runs_on),
	    cmocka_unit_test(a_guest_that_stands_still_is_left_alone),
	    cmocka_unit_test(an_operator_who_was_quicker_is_obeyed),
	    cmocka_unit_test(a_guest_that_got_into_trouble_is_left_alone),
	    cmocka_unit_test(somebody_else_runs_it),
	    cmocka_unit_test(what_fails_in_between_leaves_a_note),
	    cmocka_unit_test(undo_runs_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
