// SPDX-License-Identifier: LGPL-2.1-or-later
/* Real QEMUs that cannot be moved: one sentence each, before anything is touched. */
#include "machine.h"

#include "memory/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIP = 77 };

static const char *bootsector;

static void expect_answer(const struct machine *m, int pid, enum rf_role role, const char *sentence)
{
	struct rf_error e = {0};
	struct rf_guest *g = NULL;
	char why[500] = "";
	if (rf_guest_open_qemu(&g, m->qmp, pid, why, sizeof(why)) != RF_OK)
		fail_msg("%s", why);
	int r = g->ops->check(g->ctx, role, &e);
	if (!sentence && r != 0)
		fail_msg("%s", e.text);
	if (sentence) {
		assert_int_equal(r, -1);
		assert_int_equal(e.code, RF_E_REFUSED);
		if (!strstr(e.text, sentence))
			fail_msg("\"%s\" is not in \"%s\"", sentence, e.text);
	}
	rf_guest_destroy(g);
}

static void expect(unsigned kinds, const char *const *extra, enum rf_role role, const char *sentence)
{
	struct machine m;
	machine_start(&m, bootsector, kinds, extra);
	expect_answer(&m, 0, role, sentence);
	machine_end(&m);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void private_memory(void **state)
{
	expect(MACHINE_PRIVATE, NULL, RF_ROLE_SOURCE,
	       "the RAM \"pc.ram\" is private to QEMU and cannot be moved: start QEMU with -object "
	       "memory-backend-file,id=pc.ram,"
	       "mem-path=/dev/shm/pc.ram,share=on,size=128M and -machine memory-backend=pc.ram");
	expect(MACHINE_PRIVATE | MACHINE_INCOMING, NULL, RF_ROLE_DESTINATION, "is private to QEMU");
	expect(MACHINE_PRIVATE,
	       ARGS("-object", "memory-backend-ram,id=r,share=on,size=128M", "-machine", "memory-backend=r"),
	       RF_ROLE_SOURCE, "the RAM \"r\" is not in a file");
	expect(MACHINE_PLAIN, ARGS("-object", "memory-backend-ram,id=spare,size=16M"), RF_ROLE_SOURCE,
	       "the RAM \"spare\" is private");
}

static void memfd_up_to_8_0(void **state)
{
	struct machine m;
	machine_start(&m, bootsector, MACHINE_MEMFD, NULL);
	bool old = rf_qmp_version(m.monitor) < 80100;
	expect_answer(&m, 0, RF_ROLE_SOURCE, old ? NULL : "the RAM \"m\" is not in a file");
	machine_end(&m);
}

static void the_wrong_state(void **state)
{
	expect(MACHINE_INCOMING, NULL, RF_ROLE_SOURCE, "waits for a guest (-incoming) and has none to send");
	expect(MACHINE_PLAIN, NULL, RF_ROLE_DESTINATION,
	       "does not wait for a guest (it is running): start it with -S -incoming");
	expect(MACHINE_PLAIN, ARGS("-S"), RF_ROLE_SOURCE, "neither running nor paused but prelaunch");
	expect(MACHINE_INCOMING, NULL, RF_ROLE_DESTINATION, NULL);
}

/* Those that a stock QEMU can be started with where there is no such device. */
static void unseen_disk_reads(void **state)
{
	struct machine m;
	struct rf_error e = {0};
	struct rf_guest *g = NULL;
	machine_start(&m, bootsector, MACHINE_PLAIN,
		      ARGS("-blockdev", "driver=null-co,node-name=fast,cache.direct=on,read-zeroes=on"));
	assert_int_equal(rf_guest_open_qemu(&g, m.qmp, 0, NULL, 0), RF_OK);
	assert_int_equal(g->ops->check(g->ctx, RF_ROLE_SOURCE, &e), 0);
	assert_true(g->needs_drain); /* and the guest is taken all the same */
	assert_string_equal(g->direct_writer, "the disk fast");
	assert_int_equal(g->ops->drain(g->ctx, &e), 0);
	machine_expect_status(&m, "running");
	assert_true(machine_runs(&m));
	json_decref(machine_ask(&m, "stop"));
	assert_int_equal(g->ops->drain(g->ctx, &e), 0);
	machine_expect_status(&m, "paused");
	rf_guest_destroy(g);
	machine_end(&m);
}

static void two_qemus_with_one_file(void **state)
{
	struct machine a, b;
	char object[160], sentence[160];
	machine_start(&a, bootsector, MACHINE_PLAIN, NULL);
	snprintf(object, sizeof(object), "memory-backend-file,id=m,mem-path=%s,share=on,size=128M", a.ram);
	machine_start(&b, bootsector, MACHINE_PRIVATE | MACHINE_INCOMING,
		      ARGS("-object", object, "-machine", "memory-backend=m"));
	snprintf(sentence, sizeof(sentence), "the RAM file %s is also open for writing in process %d", a.ram,
		 (int)a.pid);
	expect_answer(&b, 0, RF_ROLE_DESTINATION, sentence);
	machine_end(&b);
	expect_answer(&a, 0, RF_ROLE_SOURCE, NULL);
	machine_end(&a);
}

static void two_backends_with_one_file(void **state)
{
	char first[160], second[160];
	snprintf(first, sizeof(first), "memory-backend-file,id=a,mem-path=/dev/shm/ramferry-twice.%d,share=on,size=64M",
		 (int)getpid());
	snprintf(second, sizeof(second),
		 "memory-backend-file,id=b,mem-path=/dev/shm/ramferry-twice.%d,share=on,size=64M", (int)getpid());
	expect(MACHINE_PRIVATE,
	       ARGS("-object", first, "-object", second, "-numa", "node,memdev=a", "-numa", "node,memdev=b"),
	       RF_ROLE_SOURCE, "the RAMs \"a\" and \"b\" share one file");
	snprintf(first, sizeof(first), "/dev/shm/ramferry-twice.%d", (int)getpid());
	unlink(first);
}

static void two_ferries(void **state)
{
	struct machine m;
	char why[500] = "", other[112];
	rf_guest *first = NULL, *second = NULL;
	machine_start(&m, bootsector, MACHINE_PLAIN, NULL);
	assert_int_equal(rf_guest_open_qemu(&first, m.qmp, 0, why, sizeof(why)), RF_OK);
	assert_int_equal(rf_guest_open_qemu(&second, m.qmp, 0, why, sizeof(why)), RF_REFUSED);
	assert_non_null(strstr(why, "another ramferry is at work on this QEMU"));
	snprintf(other, sizeof(other), "%s.test", m.qmp);
	rf_qmp_close(m.monitor); /* the second monitor is free, the guest is not */
	m.monitor = NULL;
	assert_int_equal(rf_guest_open_qemu(&second, other, 0, why, sizeof(why)), RF_REFUSED);
	assert_non_null(strstr(why, "another ramferry is at work on this QEMU"));
	rf_guest_destroy(first);
	assert_int_equal(rf_guest_open_qemu(&second, other, 0, why, sizeof(why)), RF_OK);
	rf_guest_destroy(second);
	machine_end(&m);
}

static void somebody_elses_process(void **state)
{
	struct machine m;
	char sentence[80];
	machine_start(&m, bootsector, MACHINE_PLAIN, NULL);
	snprintf(sentence, sizeof(sentence), "the RAM \"m\": process %d has no shared mapping of a file at",
		 (int)getpid());
	expect_answer(&m, getpid(), RF_ROLE_SOURCE, sentence);
	expect_answer(&m, m.pid, RF_ROLE_SOURCE, NULL);
	machine_end(&m);
}

static void ask(const struct machine *m, const char *command, json_t *arguments)
{
	struct rf_error e = {0};
	if (rf_qmp_call(m->monitor, command, arguments, NULL, &e) != 0)
		fail_msg("%s", e.text);
}

static void wait_status(const struct machine *m, const char *wanted)
{
	json_t *answer;
	bool there;
	do {
		answer = machine_ask(m, "query-migrate");
		const char *status = json_string_value(json_object_get(answer, "status"));
		there = status && strcmp(status, wanted) == 0;
		json_decref(answer);
	} while (!there);
}

static void a_migration_of_qemus_own(void **state)
{
	struct machine m;
	machine_start(&m, bootsector, MACHINE_PLAIN, NULL);
	ask(&m, "migrate-set-capabilities",
	    json_pack("{s:[{s:s,s:b},{s:s,s:b}]}", "capabilities", "capability", "pause-before-switchover", "state", 1,
		      "capability", "x-ignore-shared", "state", 1));
	ask(&m, "migrate", json_pack("{s:s}", "uri", "exec:cat >/dev/null"));
	wait_status(&m, "pre-switchover");
	expect_answer(&m, 0, RF_ROLE_SOURCE, "the guest is neither running nor paused but finish-migrate");
	ask(&m, "migrate-continue", json_pack("{s:s}", "state", "pre-switchover"));
	wait_status(&m, "completed");
	expect_answer(&m, 0, RF_ROLE_SOURCE, "stands still since an earlier migration");
	ask(&m, "cont", NULL);
	expect_answer(&m, 0, RF_ROLE_SOURCE, NULL);
	machine_end(&m);
}

static void another_kind_of_incoming(void **state)
{
	struct machine m;
	machine_start(&m, bootsector, MACHINE_PLAIN, ARGS("-S", "-incoming", "tcp:127.0.0.1:0"));
	bool old = rf_qmp_version(m.monitor) < 80200;
	expect_answer(&m, 0, RF_ROLE_DESTINATION, old ? "this QEMU waits for another kind of migration" : "");
	machine_end(&m);
}

int main(int argc, char **argv)
{
	if (argc < 2 || system("command -v ${QEMU:-qemu-system-x86_64} >/dev/null") != 0)
		return SKIP;
	bootsector = argv[1];
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(private_memory),
	    cmocka_unit_test(memfd_up_to_8_0),
	    cmocka_unit_test(the_wrong_state),
	    cmocka_unit_test(unseen_disk_reads),
	    cmocka_unit_test(two_qemus_with_one_file),
	    cmocka_unit_test(two_backends_with_one_file),
	    cmocka_unit_test(two_ferries),
	    cmocka_unit_test(somebody_elses_process),
	    cmocka_unit_test(a_migration_of_qemus_own),
	    cmocka_unit_test(another_kind_of_incoming),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
