// SPDX-License-Identifier: LGPL-2.1-or-later
/* rf_bench_move() and its like, as a program uses them. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "ramferry.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const char here[] = "tcp://127.0.0.1:0";

static rf_bench_guest a_guest(void)
{
	return (rf_bench_guest){
	    .size = sizeof(rf_bench_guest),
	    .memory_bytes = 16 * MIB,
	    .writers = 2,
	    .working_bytes = 2 * MIB,
	    .bytes_per_second = 4 * MIB,
	    .seed = 3,
	};
}

static uint64_t stat_of(const rf_migration *m, const char *name)
{
	uint64_t value = 0;

	assert_int_equal(rf_stat(m, name, &value), 0);
	return value;
}

static void a_move_has_its_statistics(void **state)
{
	rf_migration *m = rf_migration_new(NULL);
	rf_bench_guest guest = a_guest();
	rf_bench_outcome outcome;

	assert_int_equal(rf_set(m, "chunk-size", "2M"), RF_OK);
	assert_int_equal(rf_bench_move(m, &guest, here, &outcome), RF_OK);
	assert_string_equal(rf_error(m), "");
	assert_int_equal(stat_of(m, "ram_total_bytes"), 16 * MIB);
	assert_int_equal(stat_of(m, "registrations"), 8);
	assert_true(stat_of(m, "normal_bytes") >= 16 * MIB);
	assert_true(rf_round_count(m) >= 2);
	assert_int_equal(outcome.size, sizeof(outcome));
	assert_false(outcome.virtual_time);
	assert_true(outcome.real_ns >= stat_of(m, "total_ns") && outcome.cpu_ns > 0 && outcome.ran_ns > 0);
	rf_migration_free(m);
}

/* What the writers do is found and sent again, and nothing else is. */
static void writes_are_sent_again(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_bench_outcome outcome;

	for (int pattern = RF_BENCH_RANDOM; pattern <= RF_BENCH_SWEEP; pattern++) {
		rf_migration *m = rf_migration_new(NULL);

		guest.pattern = (rf_bench_pattern)pattern;
		guest.bytes_per_second = 256 * MIB;
		assert_int_equal(rf_set(m, "max-bandwidth", "128M"), RF_OK);
		assert_int_equal(rf_set(m, "on-stall", "force"), RF_OK);
		assert_int_equal(rf_bench_move(m, &guest, here, &outcome), RF_OK);
		assert_true(outcome.written_bytes > 0);
		assert_true(stat_of(m, "normal_bytes") > 16 * MIB);
		/* Only the working sets are dirtied. */
		for (size_t i = 1; i < rf_round_count(m); i++) {
			uint64_t bytes;

			assert_int_equal(rf_round_stat(m, i, "bytes", &bytes), 0);
			assert_true(bytes <= 4 * MIB);
		}
		rf_migration_free(m);
	}
}

static void an_idle_guest_is_sent_once(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_migration *m = rf_migration_new(NULL);
	rf_bench_outcome outcome;

	guest.writers = 0;
	assert_int_equal(rf_set(m, "verify", "on"), RF_OK);
	assert_int_equal(rf_bench_move(m, &guest, here, &outcome), RF_OK);
	assert_int_equal(stat_of(m, "normal_bytes"), 16 * MIB);
	assert_int_equal(outcome.written_bytes, 0);
	rf_migration_free(m);
}

static void expect(const rf_bench_guest *guest, const char *uri, rf_result result, const char *part)
{
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_bench_move(m, guest, uri, NULL), result);
	if (!strstr(rf_error(m), part))
		fail_msg("\"%s\" does not say \"%s\"", rf_error(m), part);
	rf_migration_free(m);
}

static void what_makes_no_sense_is_told(void **state)
{
	rf_bench_guest guest = a_guest();

	assert_int_equal(rf_bench_move(NULL, &guest, here, NULL), RF_USAGE);
	expect(NULL, here, RF_USAGE, "a guest to measure with is needed");
	expect(&guest, "pigeon://h", RF_USAGE, "pigeon");
	expect(&guest, NULL, RF_USAGE, "a URI is needed");
	guest.size = 8;
	expect(&guest, here, RF_USAGE, "with its size");
	guest = a_guest();
	guest.memory_bytes = 4097;
	expect(&guest, here, RF_USAGE, "multiple of 4 KiB");
	guest = a_guest();
	guest.working_bytes = 9 * MIB;
	expect(&guest, here, RF_USAGE, "no more than its share");
	guest = a_guest();
	guest.writers = 100000;
	expect(&guest, here, RF_USAGE, "writers are the most");
	guest = a_guest();
	guest.pattern = (rf_bench_pattern)7;
	expect(&guest, here, RF_USAGE, "no such pattern");
	guest = a_guest();
	guest.memory_bytes = UINT64_C(32) << 40;
	expect(&guest, here, RF_REFUSED, "take a smaller guest");
	guest = a_guest();
	expect(&guest, "tcp://192.0.2.1:0", RF_REFUSED, "the receiver: ");
}

static void a_migration_is_used_up(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_migration *m = rf_migration_new(NULL);

	guest.memory_bytes = 5; /* this does not use it up */
	assert_int_equal(rf_bench_move(m, &guest, here, NULL), RF_USAGE);
	guest = a_guest();
	assert_int_equal(rf_bench_move(m, &guest, here, NULL), RF_OK);
	assert_int_equal(rf_bench_move(m, &guest, here, NULL), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "not used before"));
	rf_migration_free(m);
}

static void cancel(void *arg, const rf_progress *p)
{
	if (p->phase == RF_PHASE_ROUNDS)
		rf_cancel(arg);
}

static void it_can_be_cancelled(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_migration *m = rf_migration_new(NULL);

	rf_on_progress(m, cancel, m);
	assert_int_equal(rf_bench_move(m, &guest, here, NULL), RF_CANCELLED);
	rf_migration_free(m);

	m = rf_migration_new(NULL);
	rf_cancel(m);
	assert_int_equal(rf_bench_move(m, &guest, here, NULL), RF_CANCELLED);
	rf_migration_free(m);
}

static void a_simulation_has_its_statistics_too(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_bench_outcome outcome;
	uint64_t total_ns = 0;

	for (int i = 0; i < 2; i++) {
		rf_migration *m = rf_migration_new(NULL);

		assert_int_equal(rf_set(m, "chunk-size", "2M"), RF_OK);
		assert_int_equal(rf_bench_move(m, &guest, "sim:default", &outcome), RF_OK);
		assert_true(outcome.virtual_time && outcome.written_bytes > 0 && outcome.ran_ns > 0);
		assert_int_equal(stat_of(m, "registrations"), 8);
		assert_true(stat_of(m, "normal_bytes") >= 16 * MIB);
		assert_true(!i || stat_of(m, "total_ns") == total_ns);
		total_ns = stat_of(m, "total_ns");
		assert_int_equal(rf_bench_move(m, &guest, "sim:default", NULL), RF_USAGE);
		rf_migration_free(m);
	}
	expect(&guest, "sim:nobody", RF_USAGE, "no profile");
}

static void a_simulation_can_be_cancelled(void **state)
{
	rf_bench_guest guest = a_guest();
	rf_migration *m = rf_migration_new(NULL);

	rf_on_progress(m, cancel, m);
	assert_int_equal(rf_bench_move(m, &guest, "sim:default", NULL), RF_CANCELLED);
	rf_migration_free(m);
	m = rf_migration_new(NULL);
	rf_cancel(m);
	assert_int_equal(rf_bench_move(m, &guest, "sim:default", NULL), RF_CANCELLED);
	rf_migration_free(m);
}

static void values_are_parsed(void **state)
{
	uint64_t value = 0;
	char why[100] = "";

	assert_int_equal(rf_parse_value("size", "64M", &value, why, sizeof(why)), RF_OK);
	assert_int_equal(value, 64 * MIB);
	assert_int_equal(rf_parse_value("rate", "8Gbit", &value, NULL, 0), RF_OK);
	assert_int_equal(value, 1000000000);
	assert_int_equal(rf_parse_value("duration", "2s", &value, NULL, 0), RF_OK);
	assert_int_equal(value, UINT64_C(2000000000));
	assert_int_equal(rf_parse_value("count", "7", &value, NULL, 0), RF_OK);
	assert_int_equal(value, 7);
	assert_int_equal(rf_parse_value("count", "many", &value, why, sizeof(why)), RF_USAGE);
	assert_int_equal(value, 7);
	assert_non_null(strstr(why, "many"));
	assert_int_equal(rf_parse_value("colour", "red", &value, why, sizeof(why)), RF_USAGE);
	assert_string_equal(why, "there is no such kind of value");
	assert_int_equal(rf_parse_value("size", NULL, &value, why, sizeof(why)), RF_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_move_has_its_statistics),
	    cmocka_unit_test(writes_are_sent_again),
	    cmocka_unit_test(an_idle_guest_is_sent_once),
	    cmocka_unit_test(what_makes_no_sense_is_told),
	    cmocka_unit_test(a_migration_is_used_up),
	    cmocka_unit_test(it_can_be_cancelled),
	    cmocka_unit_test(a_simulation_has_its_statistics_too),
	    cmocka_unit_test(a_simulation_can_be_cancelled),
	    cmocka_unit_test(values_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
