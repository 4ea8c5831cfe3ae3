// SPDX-License-Identifier: LGPL-2.1-or-later
/* What people write as numbers, what must be refused, and what numbers are shown as. */
#include "common/sizes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef int parser(const char *, uint64_t *, struct rf_error *);

struct good {
	const char *text;
	uint64_t value;
};

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

static void check_good(parser *parse, const struct good *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rf_error e = {0};
		uint64_t value = 1234;

		if (parse(cases[i].text, &value, &e) != 0)
			fail_msg("\"%s\" was refused: %s", cases[i].text, e.text);
		if (value != cases[i].value)
			fail_msg("\"%s\" became %llu", cases[i].text, (unsigned long long)value);
	}
}

static void check_bad(parser *parse, const char *const *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct rf_error e = {0};
		uint64_t value = 1234;

		if (parse(cases[i], &value, &e) != -1)
			fail_msg("\"%s\" was taken for %llu", cases[i], (unsigned long long)value);
		assert_int_equal(e.code, RF_E_USAGE);
		assert_int_equal(value, 1234);
		if (!strstr(e.text, cases[i]))
			fail_msg("the sentence does not quote \"%s\": %s", cases[i], e.text);
	}
}

#define CHECK(check, parse, cases) check(parse, cases, sizeof(cases) / sizeof((cases)[0]))

static void sizes_are_powers_of_1024(void **state)
{
	static const struct good cases[] = {
	    {"0", 0},
	    {"4096", 4096},
	    {"4096B", 4096},
	    {"64M", 64 * MIB},
	    {"64m", 64 * MIB},
	    {"64MB", 64 * MIB},
	    {"64MiB", 64 * MIB},
	    {"64mib", 64 * MIB},
	    {"64 MiB", 64 * MIB},
	    {"1g", GIB},
	    {"1.5G", GIB + GIB / 2},
	    {"0.25k", 256},
	    {"007", 7},
	    {"2T", 2048 * GIB},
	    {"0.0000000001T", 109},
	    {"18446744073709551615", UINT64_MAX},
	    {"16777215T", UINT64_C(16777215) << 40},
	};

	CHECK(check_good, rf_parse_size, cases);
}

static const char *const nonsense[] = {
    "",
    "-1",
    "+1",
    " 1",
    "1 ",
    "nan",
    "inf",
    "0x10",
    "1e3",
    "M",
    ".5G",
    "1.",
    "1.G",
    "1..5",
    "1.5",
    "1,5",
    "1M1",
    "1Mx",
    "1  M",
    "1MM",
    "1;",
    "١",
    "1_M",
    "--",
    "18446744073709551616",
    "99999999999999999999999",
    "16777216T",
    "0.00000001K",
    "0.000000000000000000000000001T",
};

static void bad_sizes_are_refused(void **state)
{
	static const char *const more[] = {"1mb", "1kb", "1bit", "1MiB/s", "1s", "1P", "1i", "1iB"};

	CHECK(check_bad, rf_parse_size, nonsense);
	CHECK(check_bad, rf_parse_size, more);
}

static void control_characters_are_refused_and_not_echoed(void **state)
{
	struct rf_error e = {0};
	uint64_t value;

	assert_int_equal(rf_parse_size("1\n", &value, &e), -1);
	assert_string_equal(e.text, "\"1 \" is not a size, such as 64M or 1.5GiB");
	assert_int_equal(rf_parse_size("1\tM", &value, &e), -1);
	assert_string_equal(e.text, "\"1 M\" is not a size, such as 64M or 1.5GiB");
}

static void rates_know_bits(void **state)
{
	static const struct good cases[] = {
	    {"0", 0},
	    {"500M", 500 * MIB},
	    {"500MB/s", 500 * MIB},
	    {"1GiB/s", GIB},
	    {"1M/s", MIB},
	    {"10Gbit", 1250000000},
	    {"10gbit/s", 1250000000},
	    {"400 Mbit/s", 50000000},
	    {"2.5Gbit", 312500000},
	    {"800bit", 100},
	    {"8kbit", 1000},
	};
	static const char *const bad[] = {"10Gb", "10Gb/s", "10Gbps", "1/h", "4bit", "1.5bit", "1Mbit/s/s", "1KiBit"};

	CHECK(check_good, rf_parse_rate, cases);
	CHECK(check_bad, rf_parse_rate, nonsense);
	CHECK(check_bad, rf_parse_rate, bad);
}

static void durations_are_milliseconds_by_default(void **state)
{
	static const struct good cases[] = {
	    {"0", 0},
	    {"300", 300000000},
	    {"1.5", 1500000},
	    {"300ms", 300000000},
	    {"1.5s", 1500000000},
	    {"7ns", 7},
	    {"2us", 2000},
	    {"2 min", UINT64_C(120000000000)},
	    {"1h", UINT64_C(3600000000000)},
	    {"1H", UINT64_C(3600000000000)},
	    {"5124095h", UINT64_C(5124095) * 3600 * 1000000000},
	};
	static const char *const bad[] = {"1m", "1M", "1sec", "5124096h", "0.5ns", "-1s", "0.0000001ms", ""};

	CHECK(check_good, rf_parse_duration, cases);
	CHECK(check_bad, rf_parse_duration, bad);
}

static void counts_have_no_unit(void **state)
{
	static const struct good cases[] = {{"0", 0}, {"1024", 1024}, {"18446744073709551615", UINT64_MAX}};
	static const char *const bad[] = {"1K", "1.0", "10 ", "ten", "1B"};

	CHECK(check_good, rf_parse_count, cases);
	CHECK(check_bad, rf_parse_count, nonsense);
	CHECK(check_bad, rf_parse_count, bad);
}

static void null_is_not_a_number(void **state)
{
	struct rf_error e = {0};
	uint64_t value;

	assert_int_equal(rf_parse_size(NULL, &value, &e), -1);
	assert_string_equal(e.text, "\"\" is not a size, such as 64M or 1.5GiB");
}

static void check_shown(const char *(*show)(uint64_t, char *, size_t), uint64_t value, const char *expected)
{
	char buffer[40];

	assert_string_equal(show(value, buffer, sizeof(buffer)), expected);
}

static void sizes_are_shown_short(void **state)
{
	static const struct good cases[] = {
	    {"0 B", 0},
	    {"1023 B", 1023},
	    {"1 KiB", KIB},
	    {"64 MiB", 64 * MIB},
	    {"1.50 GiB", GIB + GIB / 2},
	    {"1023 MiB", 1023 * MIB},
	    {"4.88 GiB", 5000 * MIB},
	    {"1.00 MiB", MIB + 1},
	    {"10.0 MiB", 10 * MIB + 1},
	    {"100 MiB", 100 * MIB + 1},
	    {"10.0 KiB", 10235},
	    {"0.977 MiB", 1000 * KIB + 1},
	    {"1.00 MiB", MIB - 1},
	    {"64 TiB", UINT64_C(64) << 40},
	    {"16.0 EiB", UINT64_MAX},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_shown(rf_format_size, cases[i].value, cases[i].text);
}

static void durations_are_shown_short(void **state)
{
	static const struct good cases[] = {
	    {"0 ns", 0},
	    {"999 ns", 999},
	    {"1.50 us", 1500},
	    {"300 ms", 300000000},
	    {"12.3 ms", 12345678},
	    {"1.20 s", 1200000000},
	    {"5 s", UINT64_C(5000000000)},
	    {"90 s", UINT64_C(90000000000)},
	    {"1 min", UINT64_C(60000000000)},
	    {"2000 s", UINT64_C(2000000000000)},
	    {"1 h", UINT64_C(3600000000000)},
	    {"720 h", UINT64_C(720) * 3600 * 1000000000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_shown(rf_format_duration, cases[i].value, cases[i].text);
}

/* Whatever is shown with up to three digits must be understood when somebody types it in again. */
static void shown_sizes_can_be_read_back(void **state)
{
	char buffer[40];
	uint64_t value;

	for (uint64_t bytes = 1; bytes < UINT64_C(1) << 49; bytes = bytes * 5 / 3 + 1) {
		rf_format_size(bytes, buffer, sizeof(buffer));
		assert_int_equal(rf_parse_size(buffer, &value, NULL), 0);
		uint64_t error = value > bytes ? value - bytes : bytes - value;
		assert_true(error <= bytes / 190);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_are_powers_of_1024),
	    cmocka_unit_test(bad_sizes_are_refused),
	    cmocka_unit_test(control_characters_are_refused_and_not_echoed),
	    cmocka_unit_test(rates_know_bits),
	    cmocka_unit_test(durations_are_milliseconds_by_default),
	    cmocka_unit_test(counts_have_no_unit),
	    cmocka_unit_test(null_is_not_a_number),
	    cmocka_unit_test(sizes_are_shown_short),
	    cmocka_unit_test(durations_are_shown_short),
	    cmocka_unit_test(shown_sizes_can_be_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
