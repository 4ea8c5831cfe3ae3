// SPDX-License-Identifier: LGPL-2.1-or-later
/* The library's calls with arguments that make no sense, and its tables. No network, no guest that runs. */
#include <ramferry.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int closed;

static int on_pause(void *ctx, int *was_running, char *why, size_t why_length)
{
	return 0;
}

static int on_resume(void *ctx, int run, char *why, size_t why_length)
{
	return 0;
}

static void on_close(void *ctx)
{
	closed++;
}

static const rf_guest_ops least = {.size = sizeof(least), .pause = on_pause, .resume = on_resume, .close = on_close};

static void null_is_survived(void **state)
{
	uint64_t value;

	rf_guest_free(NULL);
	rf_migration_free(NULL);
	rf_cancel(NULL);
	rf_on_log(NULL, NULL, NULL);
	rf_on_progress(NULL, NULL, NULL);
	assert_int_equal(rf_set(NULL, "verify", "on"), RF_USAGE);
	assert_int_equal(rf_send(NULL, "tcp://h"), RF_USAGE);
	assert_int_equal(rf_receive(NULL, "tcp://h"), RF_USAGE);
	assert_non_null(strstr(rf_error(NULL), "NULL"));
	assert_int_equal(rf_stat(NULL, "total_ns", &value), -1);
	assert_int_equal(rf_round_count(NULL), 0);
	assert_int_equal(rf_round_stat(NULL, 0, "bytes", &value), -1);
	assert_int_equal(rf_option_info_at(0, NULL), -1);
	assert_null(rf_guest_new(NULL, NULL));
	assert_int_equal(rf_guest_add_block(NULL, "m", &value, 4096, -1, 0, NULL, 0), RF_USAGE);
}

static void guest_needs_pause_and_resume(void **state)
{
	rf_guest_ops ops = least;

	ops.pause = NULL;
	assert_null(rf_guest_new(&ops, NULL));
	ops = least;
	ops.resume = NULL;
	assert_null(rf_guest_new(&ops, NULL));
	/* A size that ends before resume says the same. */
	ops = least;
	ops.size = offsetof(rf_guest_ops, resume);
	assert_null(rf_guest_new(&ops, NULL));
}

/* A program built with a later header may have more members, as long as it does not use them. */
static void guest_of_a_later_release(void **state)
{
	struct {
		rf_guest_ops ops;
		void *later;
	} bigger = {.ops = least};

	bigger.ops.size = sizeof(bigger);
	closed = 0;

	rf_guest *guest = rf_guest_new(&bigger.ops, NULL);

	assert_non_null(guest);
	rf_guest_free(guest);
	assert_int_equal(closed, 1);
	bigger.later = &bigger;
	assert_null(rf_guest_new(&bigger.ops, NULL));
	assert_int_equal(closed, 1);
}

/* What comes of it is seen in tests/sim. */
static void a_guest_says_what_gives_memory_back(void **state)
{
	rf_guest *guest = rf_guest_new(&least, NULL);

	assert_int_equal(rf_guest_set_discarder(guest, NULL), RF_OK);
	assert_int_equal(rf_guest_set_discarder(guest, "the balloon"), RF_OK);
	assert_int_equal(rf_guest_set_discarder(NULL, NULL), RF_USAGE);
	rf_guest_free(guest);
}

static void assert_block_refused(rf_guest *guest, const char *name, void *memory, uint64_t length, int fd,
				 const char *sentence)
{
	char why[300] = "";

	assert_int_equal(rf_guest_add_block(guest, name, memory, length, fd, 0, why, sizeof(why)), RF_USAGE);
	if (!strstr(why, sentence))
		fail_msg("\"%s\" does not say \"%s\"", why, sentence);
}

static void blocks_are_checked(void **state)
{
	rf_guest *guest = rf_guest_new(&least, NULL);
	int fd = memfd_create("block", MFD_CLOEXEC);
	void *memory;

	assert_int_equal(ftruncate(fd, 8192), 0);
	memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(memory != MAP_FAILED);
	assert_block_refused(guest, NULL, memory, 8192, fd, "name");
	assert_block_refused(guest, "", memory, 8192, fd, "name");
	assert_block_refused(guest, "m", NULL, 8192, fd, "NULL");
	assert_block_refused(guest, "m", memory, 0, fd, "m");
	assert_block_refused(guest, "m", memory, 5000, fd, "4");
	assert_block_refused(guest, "m", memory, 16384, fd, "m");
	assert_int_equal(rf_guest_add_block(guest, "m", memory, 8192, fd, 0, NULL, 0), RF_OK);
	assert_block_refused(guest, "m", memory, 8192, fd, "\"m\"");
	rf_guest_free(guest);
	munmap(memory, 8192);
	close(fd);
}

static void assert_set_refused(rf_migration *m, const char *name, const char *value, const char *sentence)
{
	assert_int_equal(rf_set(m, name, value), RF_USAGE);
	if (!strstr(rf_error(m), sentence))
		fail_msg("\"%s\" does not say \"%s\"", rf_error(m), sentence);
}

static void options_are_checked(void **state)
{
	rf_migration *m = rf_migration_new(NULL);

	assert_string_equal(rf_error(m), "");
	assert_int_equal(rf_set(m, "chunk-size", "1MiB"), RF_OK);
	assert_set_refused(m, "chunk-size", "3M", "1 MiB to 1 GiB, a power of two");
	assert_set_refused(m, "no-such", "1", "no-such");
	assert_set_refused(m, NULL, "1", "name");
	assert_set_refused(m, "verify", NULL, "value");
	assert_set_refused(m, "on-stall", "weep", "wait, force or abort");
	rf_migration_free(m);
}

static void uris_are_checked_without_a_guest(void **state)
{
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_send(m, NULL), RF_USAGE);
	assert_int_equal(rf_send(m, "host"), RF_USAGE);
	assert_int_equal(rf_send(m, "pigeon://host"), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "pigeon"));
	assert_int_equal(rf_send(m, "tcp://"), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "host"));
	assert_int_equal(rf_send(m, "tcp://host:0"), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "port"));
	assert_int_equal(rf_receive(m, "tcp://:0"), RF_REFUSED);
	assert_int_equal(rf_send(m, "tcp://host"), RF_REFUSED);
	assert_non_null(strstr(rf_error(m), "no guest"));
	rf_migration_free(m);
}

static void tables_can_be_walked(void **state)
{
	rf_migration *m = rf_migration_new(NULL);
	rf_option_info info;
	uint64_t value = 1;
	size_t n;

	for (n = 0; !rf_option_info_at(n, &info); n++) {
		assert_true(info.name[0] && info.kind[0] && info.range[0] && info.initial[0] && info.help[0]);
		assert_true(info.for_send || info.for_receive);
	}
	assert_in_range(n, 15, 60);
	for (n = 0; rf_stat_name(n); n++) {
		assert_true(rf_stat_help(n)[0]);
		assert_int_equal(rf_stat(m, rf_stat_name(n), &value), 0);
		assert_int_equal(value, 0);
	}
	assert_in_range(n, 20, 100);
	assert_null(rf_stat_name(n));
	assert_null(rf_stat_help(n));
	assert_int_equal(rf_stat(m, "no_such", &value), -1);
	assert_int_equal(rf_stat(m, NULL, &value), -1);
	for (n = 0; rf_round_stat_name(n); n++)
		assert_true(rf_round_stat_help(n)[0]);
	assert_in_range(n, 10, 50);
	assert_null(rf_round_stat_help(n));
	assert_int_equal(rf_round_stat(m, 0, "bytes", &value), -1);
	assert_int_equal(rf_version()[0] >= '0' && rf_version()[0] <= '9', 1);
	rf_migration_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(null_is_survived),
	    cmocka_unit_test(guest_needs_pause_and_resume),
	    cmocka_unit_test(guest_of_a_later_release),
	    cmocka_unit_test(blocks_are_checked),
	    cmocka_unit_test(a_guest_says_what_gives_memory_back),
	    cmocka_unit_test(options_are_checked),
	    cmocka_unit_test(uris_are_checked_without_a_guest),
	    cmocka_unit_test(tables_can_be_walked),
	};

	return cmocka_run_group_tests_name("lib api", tests, NULL, NULL);
}
