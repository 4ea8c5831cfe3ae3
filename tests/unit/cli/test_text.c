// SPDX-License-Identifier: LGPL-2.1-or-later
/* Numbers and foreign sentences for people; and output that nobody reads. */
#include "cli/output.h"
#include "cli/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void numbers(void **state)
{
	char b[RF_CLI_NUMBER];

	assert_string_equal(rf_cli_bytes(0, b), "0 B");
	assert_string_equal(rf_cli_bytes(999, b), "999 B");
	assert_string_equal(rf_cli_bytes(1000, b), "0.98 KiB");
	assert_string_equal(rf_cli_bytes(UINT64_C(3) << 29, b), "1.50 GiB");
	assert_string_equal(rf_cli_bytes(UINT64_MAX, b), "16.0 EiB");
	assert_string_equal(rf_cli_rate(UINT64_C(420) << 20, b), "420 MiB/s");
	assert_string_equal(rf_cli_time(12345678, b), "12.3 ms");
	assert_string_equal(rf_cli_time(999499999, b), "999 ms");
	assert_string_equal(rf_cli_time(999500000, b), "1.00 s");
	assert_string_equal(rf_cli_time(UINT64_C(3723) * 1000000000, b), "62 min 03 s");
}

static void assert_cleaned(const char *text, const char *expected)
{
	char copy[100];

	snprintf(copy, sizeof(copy), "%s", text);
	assert_string_equal(rf_cli_clean(copy), expected);
}

static void foreign_text_moves_no_cursor(void **state)
{
	assert_cleaned("plain", "plain");
	assert_cleaned("gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80",
		       "gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_cleaned("a\033[2Jb\nc\x7f", "a?[2Jb?c?");
	assert_cleaned("\xc2\x9b"
		       "2J",
		       "?\?2J");                          /* a control character of two bytes */
	assert_cleaned("\xff\xc3(\xc0\xafx", "?\?(?\?x"); /* no UTF-8, overlong */
	assert_cleaned("\xed\xa0\x80\xe2\x82", "?????");  /* a surrogate; cut off */
}

struct reader {
	int fd;
	size_t lines, results;
	bool broken; /* a line that is not whole */
};

static void *read_lines(void *arg)
{
	struct reader *r = arg;
	FILE *f = fdopen(r->fd, "r");
	char line[200];

	while (f && fgets(line, sizeof(line), f)) {
		r->lines++;
		r->results += !strcmp(line, "result\n");
		r->broken |= strcmp(line, "result\n") && strcmp(line, "fresh\n") && strspn(line, "x") != 99;
	}
	return NULL;
}

/* Standard output becomes a pipe; returns its other end. */
static int divert(int *saved)
{
	int ends[2];

	fflush(stdout);
	*saved = dup(STDOUT_FILENO);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[1]);
	return ends[0];
}

/* Nothing is read until all was said. Saying it did not wait, or this test would never end. */
static void a_reader_that_is_slow(void **state)
{
	struct rf_cli_output *o = rf_cli_output_open();
	struct reader r = {0};
	char line[100];
	pthread_t thread;
	int saved;

	memset(line, 'x', 99);
	line[99] = '\0';
	r.fd = divert(&saved);
	for (int i = 0; i < 2000; i++)
		rf_cli_output_put(o, STDOUT_FILENO, RF_CLI_LINE, line);
	for (int i = 0; i < 2000; i++)
		rf_cli_output_put(o, STDOUT_FILENO, RF_CLI_FRESH, "fresh");
	rf_cli_output_put(o, STDOUT_FILENO, RF_CLI_LINE, "result");
	pthread_create(&thread, NULL, read_lines, &r);
	rf_cli_output_close(o);
	dup2(saved, STDOUT_FILENO);
	pthread_join(thread, NULL);
	close(saved);
	close(r.fd);
	assert_int_equal(r.results, 1);
	assert_false(r.broken);
	/* The pipe took 64 KiB of 200: what could be left out was. */
	assert_int_equal(r.lines, 2001);
}

static void a_reader_that_has_gone(void **state)
{
	struct rf_cli_output *o = rf_cli_output_open();
	int saved;

	signal(SIGPIPE, SIG_IGN);
	close(divert(&saved));
	for (int i = 0; i < 100; i++)
		rf_cli_output_put(o, STDOUT_FILENO, RF_CLI_LINE, "nobody hears");
	rf_cli_output_close(o);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	signal(SIGPIPE, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(foreign_text_moves_no_cursor),
	    cmocka_unit_test(a_reader_that_is_slow),
	    cmocka_unit_test(a_reader_that_has_gone),
	};

	return cmocka_run_group_tests_name("cli text", tests, NULL, NULL);
}
