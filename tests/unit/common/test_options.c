// SPDX-License-Identifier: LGPL-2.1-or-later
/* The option table: its promises about itself, and the sentences about values that it refuses. */
#include "common/checked.h"
#include "common/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_line_is_sound(void **state)
{
	bool taken[sizeof(struct rf_options) / sizeof(uint64_t)] = {false};

	for (size_t i = 0; i < rf_option_count(); i++) {
		const struct rf_option *option = rf_option_at(i);

		assert_ptr_equal(rf_option_find(option->name), option);
		assert_true(option->offset % sizeof(uint64_t) == 0 && option->offset < sizeof(struct rf_options));
		assert_false(taken[option->offset / sizeof(uint64_t)]);
		taken[option->offset / sizeof(uint64_t)] = true;
		assert_true(option->minimum <= option->maximum);
		assert_true(option->sides & (RF_OPT_SOURCE | RF_OPT_DESTINATION));
		assert_true(option->help[0] && option->help[strlen(option->help) - 1] != '.');
		assert_int_equal(option->zero_allowed, option->zero_means != NULL);
		assert_true(!option->zero_allowed || option->minimum > 0);
		assert_int_equal(option->unset_means != NULL,
				 option->type == RF_OPT_NAME || option->initial == RF_OPTION_UNSET);
		assert_false(option->type == RF_OPT_NAME && option->sides & RF_OPT_WIRE);
		assert_int_equal(option->type == RF_OPT_CHOICE, option->choices != NULL);
		if (option->choices)
			assert_null(option->choices[option->maximum + 1]);
		if (option->sides & RF_OPT_POWER_OF_TWO)
			assert_true(rf_is_power_of_two(option->minimum) && rf_is_power_of_two(option->maximum));
	}
}

/* What is shown must be what can be typed, and the defaults and limits must be allowed. */
static void limits_and_defaults_are_allowed_and_read_back(void **state)
{
	for (size_t i = 0; i < rf_option_count(); i++) {
		const struct rf_option *option = rf_option_at(i);
		uint64_t values[] = {option->minimum, option->maximum, option->initial};
		struct rf_options o;
		struct rf_error e = {0};
		char text[100];

		if (option->type == RF_OPT_NAME)
			continue;
		rf_options_init(&o);
		assert_int_equal(rf_option_value(&o, option), option->initial);
		for (size_t j = 0; j < 3; j++) {
			if (values[j] == RF_OPTION_UNSET)
				continue;
			if (rf_option_set_number(&o, option, values[j], &e) != 0)
				fail_msg("%s", e.text);
			if (!values[j] && option->zero_allowed)
				continue;
			rf_option_format(option, values[j], text, sizeof(text));
			if (rf_option_set(&o, option->name, text, &e) != 0)
				fail_msg("%s", e.text);
			assert_int_equal(rf_option_value(&o, option), values[j]);
		}
	}
}

static void defaults_are_those_of_the_manual(void **state)
{
	struct rf_options o;

	rf_options_init(&o);
	assert_int_equal(o.chunk_size_bytes, 64 << 20);
	assert_int_equal(o.register_mode, RF_REGISTER_ON_DEMAND);
	assert_int_equal(o.register_ahead_bytes, 256 << 20);
	assert_int_equal(o.writes_per_chunk, 0);
	assert_int_equal(o.switchover, RF_SWITCHOVER_LOW_POINT);
	assert_int_equal(o.queue_depth, 1024);
	assert_int_equal(o.max_write_bytes, 1 << 20);
	assert_int_equal(o.downtime_limit_ns, 300000000);
	assert_int_equal(o.on_stall, RF_ON_STALL_WAIT);
	assert_int_equal(o.peer_timeout_ns, 5000000000);
	assert_int_equal(o.verify, 0);
	assert_int_equal(o.rdma_retry, 7);
	assert_int_equal(o.gid_index, RF_OPTION_UNSET);
	assert_string_equal(o.device, "");
}

static void each_type_can_be_set(void **state)
{
	struct rf_options o;

	rf_options_init(&o);
	assert_int_equal(rf_option_set(&o, "chunk-size", "1M", NULL), 0);
	assert_int_equal(rf_option_set(&o, "max-bandwidth", "10Gbit", NULL), 0);
	assert_int_equal(rf_option_set(&o, "downtime-limit", "1.5s", NULL), 0);
	assert_int_equal(rf_option_set(&o, "queue-depth", "16", NULL), 0);
	assert_int_equal(rf_option_set(&o, "tracker", "hash", NULL), 0);
	assert_int_equal(rf_option_set(&o, "verify", "on", NULL), 0);
	assert_int_equal(rf_option_set(&o, "register-ahead", "0", NULL), 0);
	assert_int_equal(o.chunk_size_bytes, 1 << 20);
	assert_int_equal(o.max_bandwidth, 1250000000);
	assert_int_equal(o.downtime_limit_ns, 1500000000);
	assert_int_equal(o.queue_depth, 16);
	assert_int_equal(o.tracker, RF_TRACKER_HASH);
	assert_int_equal(o.verify, 1);
	assert_int_equal(o.register_ahead_bytes, 0);
	assert_int_equal(rf_option_set(&o, "gid-index", "0", NULL), 0);
	assert_int_equal(o.gid_index, 0);
	assert_int_equal(rf_option_set(&o, "register", "odp", NULL), 0);
	assert_int_equal(o.register_mode, RF_REGISTER_ODP);
	assert_int_equal(rf_option_set(&o, "device", "a-longer-name", NULL), 0);
	assert_int_equal(rf_option_set(&o, "device", "mlx5_0", NULL), 0);
	assert_string_equal(o.device, "mlx5_0");
	assert_int_equal(rf_option_set(&o, "verify", "No", NULL), 0);
	assert_int_equal(o.verify, 0);
}

static void refusals_quote_the_value_and_the_range(void **state)
{
	static const struct {
		const char *name, *value, *sentence;
	} cases[] = {
	    {"chunksize", "1M", "there is no option \"chunksize\""},
	    {NULL, "1M", "there is no option \"\""},
	    {"chunk-size", "3M", "chunk-size must be 1 MiB to 1 GiB, a power of two: \"3M\" is not"},
	    {"chunk-size", "2G", "chunk-size must be 1 MiB to 1 GiB, a power of two: \"2G\" is not"},
	    {"chunk-size", "0", "chunk-size must be 1 MiB to 1 GiB, a power of two: \"0\" is not"},
	    {"chunk-size", "big",
	     "chunk-size must be 1 MiB to 1 GiB, a power of two: \"big\" is not a size, such as 64M or 1.5GiB"},
	    {"max-write", "12K", "max-write must be 4 KiB to 1 GiB, a power of two: \"12K\" is not"},
	    {"queue-depth", "15", "queue-depth must be 16 to 65536: \"15\" is not"},
	    {"queue-depth", "99999999999999999999",
	     "queue-depth must be 16 to 65536: \"99999999999999999999\" is too large"},
	    {"lanes", "65", "lanes must be 0 (from the CPU count) or 1 to 64: \"65\" is not"},
	    {"max-bandwidth", "1K", "max-bandwidth must be 0 (no limit) or 1 MiB/s to 1 TiB/s: \"1K\" is not"},
	    {"max-pinned", "1M", "max-pinned must be 0 (no limit) or 64 MiB to 64 TiB: \"1M\" is not"},
	    {"downtime-limit", "nan",
	     "downtime-limit must be 1 ms to 2000 s: \"nan\" is not a duration, such as 300ms or 1.5s"},
	    {"downtime-limit", "-5",
	     "downtime-limit must be 1 ms to 2000 s: \"-5\" is not a duration, such as "
	     "300ms or 1.5s"},
	    {"peer-timeout", "2h", "peer-timeout must be 1 s to 1 h: \"2h\" is not"},
	    {"on-stall", "panic", "on-stall must be wait, force or abort: \"panic\" is neither"},
	    {"register", "", "register must be on-demand, pin-all or odp: \"\" is neither"},
	    {"verify", "maybe", "verify must be on or off: \"maybe\" is neither"},
	    {"gid-index", "256", "gid-index must be 0 to 255: \"256\" is not"},
	    {"rdma-retry", "8", "rdma-retry must be 0 to 7: \"8\" is not"},
	    {"rdma-timeout", "2min", "rdma-timeout must be 0 (choose) or 1 ms to 1 min: \"2min\" is not"},
	    {"device", "", "device must be a name of at most 63 letters, digits and any of . _ -: \"\" is not"},
	    {"device", "../mem",
	     "device must be a name of at most 63 letters, digits and any of . _ -: \"../mem\" is not"},
	    {"device", "x123456789x123456789x123456789x123456789x123456789x123456789x123",
	     "device must be a name of at most 63 letters, digits and any of . _ -: "
	     "\"x123456789x123456789x123456789x123456789x123456789x123456789\" is not"},
	    {"device", NULL,
	     "device must be a name of at most 63 letters, digits and any of . _ -: no value was given"},
	    {"lanes", NULL, "lanes must be 0 (from the CPU count) or 1 to 64: no value was given"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rf_options o, before;
		struct rf_error e = {0};

		rf_options_init(&o);
		before = o;
		assert_int_equal(rf_option_set(&o, cases[i].name, cases[i].value, &e), -1);
		assert_int_equal(e.code, RF_E_USAGE);
		assert_string_equal(e.text, cases[i].sentence);
		assert_memory_equal(&o, &before, sizeof(o));
	}
}

static void numbers_from_the_wire_are_checked(void **state)
{
	const struct rf_option *chunk = rf_option_find("chunk-size"), *choice = rf_option_find("register");
	struct rf_options o;
	struct rf_error e = {0};

	rf_options_init(&o);
	assert_int_equal(rf_option_set_number(&o, chunk, 5, &e), -1);
	assert_string_equal(e.text, "chunk-size must be 1 MiB to 1 GiB, a power of two: 5 is not");
	assert_int_equal(rf_option_set_number(&o, choice, 3, &e), -1);
	assert_int_equal(rf_option_set_number(&o, choice, UINT64_MAX, &e), -1);
	assert_int_equal(rf_option_set_number(&o, rf_option_find("verify"), 2, &e), -1);
	assert_int_equal(rf_option_set_number(&o, choice, RF_REGISTER_PIN_ALL, &e), 0);
	assert_int_equal(o.register_mode, RF_REGISTER_PIN_ALL);
}

static void the_destination_is_told_what_it_must_know(void **state)
{
	static const char *const told[] = {"chunk-size", "register",     "register-ahead",  "max-write", "max-pinned",
					   "lanes",      "peer-timeout", "resolve-timeout", "verify"};
	size_t count = 0;

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		assert_true(rf_option_find(told[i])->sides & RF_OPT_WIRE);
	for (size_t i = 0; i < rf_option_count(); i++)
		count += (rf_option_at(i)->sides & RF_OPT_WIRE) != 0;
	assert_int_equal(count, sizeof(told) / sizeof(told[0]));
}

static void values_are_shown_for_people(void **state)
{
	char text[100];

	assert_string_equal(rf_option_format(rf_option_find("max-bandwidth"), 0, text, sizeof(text)), "0 (no limit)");
	assert_string_equal(rf_option_format(rf_option_find("max-bandwidth"), 3 << 20, text, sizeof(text)), "3 MiB/s");
	assert_string_equal(rf_option_format(rf_option_find("verify"), 1, text, sizeof(text)), "on");
	assert_string_equal(rf_option_format(rf_option_find("tracker"), 1, text, sizeof(text)), "wp-async");
	assert_string_equal(rf_option_format(rf_option_find("tracker"), 99, text, sizeof(text)), "?");
	assert_string_equal(rf_option_format(rf_option_find("queue-depth"), 1024, text, sizeof(text)), "1024");
	assert_string_equal(rf_option_format(rf_option_find("device"), 0, text, sizeof(text)),
			    "the one that the address belongs to");
	assert_string_equal(rf_option_format(rf_option_find("gid-index"), RF_OPTION_UNSET, text, sizeof(text)),
			    "the one that the address belongs to");
	assert_string_equal(rf_option_format(rf_option_find("gid-index"), 0, text, sizeof(text)), "0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_line_is_sound),
	    cmocka_unit_test(limits_and_defaults_are_allowed_and_read_back),
	    cmocka_unit_test(defaults_are_those_of_the_manual),
	    cmocka_unit_test(each_type_can_be_set),
	    cmocka_unit_test(refusals_quote_the_value_and_the_range),
	    cmocka_unit_test(numbers_from_the_wire_are_checked),
	    cmocka_unit_test(the_destination_is_told_what_it_must_know),
	    cmocka_unit_test(values_are_shown_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
