// SPDX-License-Identifier: LGPL-2.1-or-later
/* Errors and log sentences: one line each, whole where it fits, with nothing in them that a terminal would obey. */
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void fail_sets_code_and_sentence(void **state)
{
	struct rf_error e = {0};

	assert_int_equal(rf_fail(&e, RF_E_REFUSED, "block \"%s\" has %d pages", "pc.ram", 7), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_string_equal(e.text, "block \"pc.ram\" has 7 pages");
}

static void null_is_fine(void **state)
{
	assert_int_equal(rf_fail(NULL, RF_E_FAILED, "x"), -1);
	assert_int_equal(rf_fail_errno(NULL, RF_E_FAILED, EIO, "x"), -1);
	assert_int_equal(rf_wrap(NULL, "x"), -1);
	rf_error_clear(NULL);
}

static void errno_stands_at_the_end(void **state)
{
	struct rf_error e = {0};

	rf_fail_errno(&e, RF_E_FAILED, ENOENT, "cannot open %s", "/nowhere");
	assert_string_equal(e.text, "cannot open /nowhere: No such file or directory");
}

static void wrap_goes_in_front_and_keeps_the_code(void **state)
{
	struct rf_error e = {0};

	rf_fail(&e, RF_E_UNKNOWN, "no answer");
	assert_int_equal(rf_wrap(&e, "lane %d", 3), -1);
	rf_wrap(&e, "handing over");
	assert_int_equal(e.code, RF_E_UNKNOWN);
	assert_string_equal(e.text, "handing over: lane 3: no answer");
}

static void own_text_may_be_an_argument(void **state)
{
	struct rf_error e = {0};

	rf_fail(&e, RF_E_FAILED, "inner");
	rf_fail(&e, RF_E_REFUSED, "outer (%s)", e.text);
	assert_string_equal(e.text, "outer (inner)");
}

static void long_sentences_are_cut_at_their_end(void **state)
{
	struct rf_error e = {0};
	char text[700];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	rf_fail(&e, RF_E_FAILED, "%s", text);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	rf_wrap(&e, "reading the header");
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
	assert_memory_equal(e.text, "reading the header: xxx", 23);
	rf_fail_errno(&e, RF_E_FAILED, EIO, "%s", text);
	assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void foreign_text_becomes_one_plain_line(void **state)
{
	struct rf_error e = {0};

	rf_fail(&e, RF_E_FAILED, "QEMU says: %s",
		"Failed to get \"write\" lock\r\nIs another process using it?\033[2J.\n");
	assert_string_equal(e.text, "QEMU says: Failed to get \"write\" lock  Is another process using it? [2J");
	rf_fail(&e, RF_E_FAILED, "so on...");
	assert_string_equal(e.text, "so on...");
	rf_fail(&e, RF_E_FAILED, "%s", "");
	assert_string_equal(e.text, "");
}

static void clear_forgets(void **state)
{
	struct rf_error e = {0};

	rf_fail(&e, RF_E_FAILED, "x");
	rf_error_clear(&e);
	assert_int_equal(e.code, RF_E_NONE);
	assert_string_equal(e.text, "");
}

struct heard {
	enum rf_log_level level;
	char text[1200];
};

static void hear(void *arg, enum rf_log_level level, const char *sentence)
{
	struct heard *heard = arg;

	heard->level = level;
	strncpy(heard->text, sentence, sizeof(heard->text) - 1);
}

static void log_reaches_the_listener(void **state)
{
	struct heard heard = {0};
	struct rf_log log = {.write = hear, .arg = &heard};

	rf_log(&log, RF_LOG_WARNING, "peer \"%s\" left", "a\nb");
	assert_int_equal(heard.level, RF_LOG_WARNING);
	assert_string_equal(heard.text, "peer \"a b\" left");
}

static void log_without_listener_is_silent(void **state)
{
	struct rf_log log = {0};

	rf_log(NULL, RF_LOG_INFO, "nobody hears this");
	rf_log(&log, RF_LOG_INFO, "nor this");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fail_sets_code_and_sentence),
	    cmocka_unit_test(null_is_fine),
	    cmocka_unit_test(errno_stands_at_the_end),
	    cmocka_unit_test(wrap_goes_in_front_and_keeps_the_code),
	    cmocka_unit_test(own_text_may_be_an_argument),
	    cmocka_unit_test(long_sentences_are_cut_at_their_end),
	    cmocka_unit_test(foreign_text_becomes_one_plain_line),
	    cmocka_unit_test(clear_forgets),
	    cmocka_unit_test(log_reaches_the_listener),
	    cmocka_unit_test(log_without_listener_is_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
