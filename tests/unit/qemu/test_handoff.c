// SPDX-License-Identifier: LGPL-2.1-or-later
/* The lifecycle of real QEMUs, driven by hand in the order that the engine uses, without an engine: rounds of tracked copies,
 * pause, state, the last copy, load, resume. And from every point the way back. */
#include "mover.h"

#include "qemu/clock.h"
#include "qemu/guest.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIP = 77 };

static const char *bootsector;

static int refuse(void *arg, const void *data, size_t length)
{
	return -1;
}

static void remember(void *arg, enum rf_log_level level, const char *sentence)
{
	snprintf(arg, 200, "%s", sentence);
}

/* ---- What QEMU's settings are, to see them put back --------------------------------------------------------------------- */

static json_t *settings_of(const struct machine *m)
{
	return json_pack("[o,o]", machine_ask(m, "query-migrate-capabilities"),
			 machine_ask(m, "query-migrate-parameters"));
}

static void expect_settings(const struct machine *m, json_t *before)
{
	json_t *now = settings_of(m);
	assert_true(json_equal(before, now));
	json_decref(now);
}

/* ---- Stories ------------------------------------------------------------------------------------------------------------ */

static void move_and_run(unsigned kinds)
{
	struct machine a, b;
	struct rf_error e = {0};
	bool was_running = false;
	machine_start(&a, bootsector, kinds, NULL);
	machine_start(&b, bootsector, kinds | (kinds & MACHINE_HAS_NO_S ? 0 : MACHINE_INCOMING), NULL);
	json_t *before = settings_of(&b);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE), *d = mover_open(&b, RF_ROLE_DESTINATION);
	assert_true(machine_runs(&a));
	mover_move(s, d, &was_running);
	assert_true(was_running);
	machine_expect_status(&a, "postmigrate");
	machine_expect_status(&b, "paused");
	int64_t then = rf_clock_ns();
	must(d->ops->resume(d->ctx, true, &e), &e);
	print_message("resume %.1f ms\n", ms_since(&then));
	must(s->ops->finish(s->ctx, &e), &e);
	machine_expect_status(&b, "running");
	assert_true(machine_runs(&b));
	machine_expect_status(&a, "postmigrate");
	rf_guest_destroy(s);
	rf_guest_destroy(d);
	expect_settings(&b, before);
	json_decref(before);
	machine_end(&a);
	machine_end(&b);
}

static void a_guest_moves(void **state)
{
	move_and_run(MACHINE_PLAIN);
}

static void a_guest_of_two_blocks_moves(void **state)
{
	move_and_run(MACHINE_NUMA);
}

static void a_guest_with_video_memory_moves(void **state)
{
	move_and_run(MACHINE_VGA);
}

static void a_sparse_guest_of_20_gib_moves(void **state)
{
	move_and_run(MACHINE_HUGE);
}

static void a_guest_of_another_user_moves(void **state)
{
	if (system("test $(id -u) = 0 && test \"$ACCEL\" != kvm && "
		   "setpriv --reuid=nobody --regid=nogroup --clear-groups sh -c \"command -v "
		   "${QEMU:-qemu-system-x86_64}\" >/dev/null") != 0)
		skip();
	move_and_run(MACHINE_NOBODY);
}

static void a_guest_in_a_sandbox_moves(void **state)
{
	move_and_run(MACHINE_SANDBOX);
}

static void a_destination_without_S_does_not_run_early(void **state)
{
	struct machine a, b;
	bool was_running;
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	machine_start(&b, bootsector, MACHINE_HAS_NO_S, NULL);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE), *d = mover_open(&b, RF_ROLE_DESTINATION);
	mover_move(s, d, &was_running);
	machine_expect_status(&b, "paused");
	rf_guest_destroy(s);
	rf_guest_destroy(d);
	machine_end(&a);
	machine_end(&b);
}

static void a_paused_guest_stays_paused(void **state)
{
	struct machine a, b;
	struct rf_error e = {0};
	bool was_running = true;
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	machine_start(&b, bootsector, MACHINE_INCOMING, NULL);
	assert_true(machine_runs(&a));
	json_decref(machine_ask(&a, "stop"));
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE), *d = mover_open(&b, RF_ROLE_DESTINATION);
	mover_move(s, d, &was_running);
	assert_false(was_running);
	must(d->ops->resume(d->ctx, was_running, &e), &e);
	must(s->ops->finish(s->ctx, &e), &e);
	machine_expect_status(&b, "paused");
	json_decref(machine_ask(&b, "cont"));
	assert_true(machine_runs(&b));
	rf_guest_destroy(s);
	rf_guest_destroy(d);
	machine_end(&a);
	machine_end(&b);
}

enum point { PREPARED, PAUSED, SAVING, SAVED };

/* Go up to the point and back. */
static void go_and_undo(struct rf_guest *s, enum point point)
{
	struct rf_error e = {0};
	struct bytes state = {0};
	struct rf_state_sink sink = {point == SAVING ? refuse : mover_keep, &state}, early = {mover_keep, &state};
	bool was_running;
	must(s->ops->prepare(s->ctx, RF_ROLE_SOURCE, &e), &e);
	if (point >= PAUSED)
		must(mover_pause(s, &early, &was_running, &e), &e);
	if (point >= SAVING)
		assert_int_equal(s->ops->save(s->ctx, &sink, &e), point == SAVING ? -1 : 0);
	int64_t then = rf_clock_ns();
	must(s->ops->undo(s->ctx, &e), &e);
	print_message("undo from point %d: %.1f ms\n", point, ms_since(&then));
	free(state.data);
}

static void the_source_runs_again_from_every_point(void **state)
{
	struct machine a;
	struct rf_error e = {0};
	machine_start(&a, bootsector, MACHINE_VGA, NULL);
	json_t *before = settings_of(&a);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE);
	must(s->ops->undo(s->ctx, &e), &e); /* nothing to undo */
	for (int twice = 0; twice < 2; twice++)
		for (enum point p = PREPARED; p <= SAVED; p++) {
			go_and_undo(s, p);
			machine_expect_status(&a, "running");
			assert_true(machine_runs(&a));
			expect_settings(&a, before);
			must(s->ops->check(s->ctx, RF_ROLE_SOURCE, &e), &e);
		}
	rf_guest_destroy(s);
	json_decref(before);
	machine_end(&a);
}

static void settings_of_the_operator_come_back(void **state)
{
	struct machine a;
	struct rf_error e = {0};
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	must(rf_qmp_call(a.monitor, "migrate-set-capabilities",
			 json_pack("{s:[{s:s,s:b},{s:s,s:b}]}", "capabilities", "capability", "multifd", "state", 1,
				   "capability", "auto-converge", "state", 1),
			 NULL, &e),
	     &e);
	must(rf_qmp_call(
		 a.monitor, "migrate-set-parameters",
		 json_pack("{s:i,s:i,s:s}", "max-bandwidth", 12345678, "downtime-limit", 77, "tls-creds", "none"), NULL,
		 &e),
	     &e);
	json_t *before = settings_of(&a);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE);
	go_and_undo(s, SAVED);
	expect_settings(&a, before);
	assert_true(machine_runs(&a));
	rf_guest_destroy(s);
	json_decref(before);
	machine_end(&a);
}

static void a_paused_source_is_not_run_by_undo(void **state)
{
	struct machine a;
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	assert_true(machine_runs(&a));
	json_decref(machine_ask(&a, "stop"));
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE);
	go_and_undo(s, PREPARED);
	machine_expect_status(&a, "paused");
	go_and_undo(s, PAUSED);
	json_t *status = machine_ask(&a, "query-status"); /* "paused", or before QEMU 8.2 "postmigrate" */
	assert_false(json_is_true(json_object_get(status, "running")));
	json_decref(status);
	json_decref(machine_ask(&a, "cont"));
	assert_true(machine_runs(&a));
	rf_guest_destroy(s);
	machine_end(&a);
}

static void a_discarded_destination_has_ended(void **state)
{
	struct machine b;
	struct rf_error e = {0};
	machine_start(&b, bootsector, MACHINE_INCOMING, NULL);
	struct rf_guest *d = mover_open(&b, RF_ROLE_DESTINATION);
	must(d->ops->discard(d->ctx, &e), &e); /* nothing was touched: it may wait for another */
	machine_expect_status(&b, "inmigrate");
	must(d->ops->prepare(d->ctx, RF_ROLE_DESTINATION, &e), &e);
	/* It has its stream by now, and waits for the first byte as it did before. */
	machine_expect_status(&b, "inmigrate");
	json_t *migration = machine_ask(&b, "query-migrate");
	const char *status = json_string_value(json_object_get(migration, "status"));
	assert_true(!status || strcmp(status, "setup") == 0);
	json_decref(migration);
	int64_t then = rf_clock_ns();
	must(d->ops->discard(d->ctx, &e), &e);
	print_message("discard %.1f ms\n", ms_since(&then));
	assert_true(machine_has_ended(&b));
	rf_guest_destroy(d);
	machine_end(&b);
}

static void a_discard_ends_a_qemu_that_does_not_answer(void **state)
{
	struct machine b;
	struct rf_error e = {0};
	machine_start(&b, bootsector, MACHINE_INCOMING, NULL);
	struct rf_guest *d = mover_open(&b, RF_ROLE_DESTINATION);
	must(d->ops->prepare(d->ctx, RF_ROLE_DESTINATION, &e), &e);
	kill(b.pid, SIGSTOP);
	must(d->ops->discard(d->ctx, &e), &e);
	assert_true(machine_has_ended(&b));
	rf_guest_destroy(d);
	machine_end(&b);
}

/* A loaded destination that dies. */
struct death {
	struct machine a, b;
	struct rf_guest *s, *d;
};

static void load_and_stop(struct death *x)
{
	bool was_running;
	machine_start(&x->a, bootsector, MACHINE_PLAIN, NULL);
	machine_start(&x->b, bootsector, MACHINE_INCOMING, NULL);
	x->s = mover_open(&x->a, RF_ROLE_SOURCE);
	x->d = mover_open(&x->b, RF_ROLE_DESTINATION);
	mover_move(x->s, x->d, &was_running);
	kill(x->b.pid, SIGSTOP);
}

static void undo_and_end(struct death *x)
{
	struct rf_error e = {0};
	must(x->s->ops->undo(x->s->ctx, &e), &e);
	assert_true(machine_runs(&x->a));
	rf_guest_destroy(x->s);
	rf_guest_destroy(x->d);
	machine_end(&x->a);
	machine_end(&x->b);
}

static void a_destination_that_died_has_not_run(void **state)
{
	struct death x;
	struct rf_error e = {0};
	load_and_stop(&x);
	kill(x.b.pid, SIGKILL);
	while (!machine_has_ended(&x.b))
		rf_sleep_us(1000);
	assert_int_equal(x.d->ops->resume(x.d->ctx, true, &e), -1);
	must(x.d->ops->discard(x.d->ctx, &e), &e);
	undo_and_end(&x);
}

static void *kill_soon(void *arg)
{
	rf_sleep_us(300000); /* until `cont` was sent, which nobody can see from here */
	kill(((struct death *)arg)->b.pid, SIGKILL);
	return NULL;
}

static void a_destination_that_dies_over_cont_may_have_run(void **state)
{
	struct death x;
	struct rf_error e = {0};
	pthread_t killer;
	load_and_stop(&x);
	assert_int_equal(pthread_create(&killer, NULL, kill_soon, &x), 0);
	assert_int_equal(x.d->ops->resume(x.d->ctx, true, &e), -1);
	pthread_join(killer, NULL);
	assert_int_equal(x.d->ops->discard(x.d->ctx, &e), -1);
	assert_string_equal(e.text, "QEMU has ended, but the guest may have run in it before");
	undo_and_end(&x);
}

/* It runs, so the move has failed and nothing is in doubt, whatever QEMU's settings are. */
static void settings_that_stay_changed_are_a_warning(void **state)
{
	struct machine a;
	struct rf_error e = {0};
	char said[200] = "";
	const struct rf_log log = {.write = remember, .arg = said};
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE);
	must(s->ops->prepare(s->ctx, RF_ROLE_SOURCE, &e), &e);
	s->log = &log;
	/* The monitor breaks, the guest does not mind. */
	shutdown(rf_qmp_fd(((struct rf_qemu *)s->ctx)->qmp), SHUT_RDWR);
	must(s->ops->undo(s->ctx, &e), &e);
	assert_non_null(strstr(said, "the guest is as it was, but QEMU's migration settings are not"));
	assert_true(machine_runs(&a));
	rf_guest_destroy(s);
	machine_end(&a);
}

static void a_bad_state_is_a_sentence(void **state)
{
	struct machine b;
	struct rf_error e = {0};
	static char nonsense[100000];
	machine_start(&b, bootsector, MACHINE_INCOMING, NULL);
	struct rf_guest *d = mover_open(&b, RF_ROLE_DESTINATION);
	must(d->ops->prepare(d->ctx, RF_ROLE_DESTINATION, &e), &e);
	assert_int_equal(d->ops->load(d->ctx, nonsense, sizeof(nonsense), &e), -1);
	print_message("%s\n", e.text);
	assert_non_null(strstr(e.text, "could not load the device state"));
	must(d->ops->discard(d->ctx, &e), &e);
	rf_guest_destroy(d);
	machine_end(&b);
}

/* There is nothing to be put back then, and nobody need wonder where the guest runs. */
static void a_source_that_dies_is_a_sentence(void **state)
{
	struct machine a;
	struct rf_error e = {0};
	struct rf_state_sink early = {refuse, NULL};
	bool was_running;
	char said[200] = "";
	const struct rf_log log = {.write = remember, .arg = said};
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	struct rf_guest *s = mover_open(&a, RF_ROLE_SOURCE);
	must(s->ops->prepare(s->ctx, RF_ROLE_SOURCE, &e), &e);
	kill(a.pid, SIGKILL);
	assert_int_equal(mover_pause(s, &early, &was_running, &e), -1);
	assert_non_null(strstr(e.text, "monitor"));
	s->log = &log;
	must(s->ops->undo(s->ctx, &e), &e);
	assert_non_null(strstr(said, "has ended, and its guest with it"));
	rf_guest_destroy(s);
	machine_end(&a);
}

int main(int argc, char **argv)
{
	if (argc < 2 || system("command -v ${QEMU:-qemu-system-x86_64} >/dev/null") != 0)
		return SKIP;
	bootsector = argv[1];
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_guest_moves),
	    cmocka_unit_test(a_guest_of_two_blocks_moves),
	    cmocka_unit_test(a_guest_with_video_memory_moves),
	    cmocka_unit_test(a_sparse_guest_of_20_gib_moves),
	    cmocka_unit_test(a_guest_of_another_user_moves),
	    cmocka_unit_test(a_guest_in_a_sandbox_moves),
	    cmocka_unit_test(a_destination_without_S_does_not_run_early),
	    cmocka_unit_test(a_paused_guest_stays_paused),
	    cmocka_unit_test(the_source_runs_again_from_every_point),
	    cmocka_unit_test(settings_of_the_operator_come_back),
	    cmocka_unit_test(a_paused_source_is_not_run_by_undo),
	    cmocka_unit_test(a_discarded_destination_has_ended),
	    cmocka_unit_test(a_discard_ends_a_qemu_that_does_not_answer),
	    cmocka_unit_test(a_destination_that_died_has_not_run),
	    cmocka_unit_test(a_destination_that_dies_over_cont_may_have_run),
	    cmocka_unit_test(settings_that_stay_changed_are_a_warning),
	    cmocka_unit_test(a_bad_state_is_a_sentence),
	    cmocka_unit_test(a_source_that_dies_is_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
