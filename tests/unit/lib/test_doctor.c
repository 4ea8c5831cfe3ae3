// SPDX-License-Identifier: LGPL-2.1-or-later
/* rf_doctor() with nothing but the public header: a host, a guest in this process, and a receiver over loopback. */
#include "tests/unit/lib/counting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define ANY_PORT "tcp://127.0.0.1:0"

struct heard {
	unsigned findings, of[3]; /* by verdict */
	char lines[8000];         /* "area what verdict\n" */
	uint64_t round_trip_ns, bytes_per_second;
};

static void hear(void *arg, const rf_finding *f)
{
	struct heard *h = arg;
	size_t length = strlen(h->lines);

	assert_int_equal(f->size, sizeof *f);
	assert_in_range(f->verdict, RF_VERDICT_OK, RF_VERDICT_NEEDED);
	assert_true(f->area[0] && f->what[0] && f->text[0]);
	assert_null(strchr(f->text, '\n'));
	/* What is ok needs no advice, what is better done has some. */
	if (f->verdict == RF_VERDICT_OK)
		assert_string_equal(f->advice, "");
	if (f->verdict == RF_VERDICT_ADVICE)
		assert_true(f->advice[0]);
	h->findings++;
	h->of[f->verdict]++;
	snprintf(h->lines + length, sizeof h->lines - length, "%s %s %d\n", f->area, f->what, (int)f->verdict);
	if (f->measure && !strcmp(f->measure, "round_trip_ns"))
		h->round_trip_ns = f->value;
	if (f->measure && !strcmp(f->measure, "bytes_per_second"))
		h->bytes_per_second = f->value;
}

static bool found(const struct heard *h, const char *line)
{
	return strstr(h->lines, line) != NULL;
}

static void usage_is_told(void **state)
{
	struct heard h = {0};
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_doctor(NULL, NULL, hear, &h), RF_USAGE);
	assert_int_equal(rf_doctor(m, NULL, NULL, &h), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "the function is NULL"));
	assert_int_equal(rf_doctor(m, "pigeon://h", hear, &h), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "pigeon"));
	assert_int_equal(rf_doctor(m, "tcp://", hear, &h), RF_USAGE);
	assert_non_null(strstr(rf_error(m), "names no host"));
	assert_int_equal(h.findings, 0);
	rf_migration_free(m);
}

static void host_is_examined(void **state)
{
	struct heard h = {0};
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_doctor(m, NULL, hear, &h), RF_OK);
	assert_string_equal(rf_error(m), "");
	assert_true(found(&h, "tracker wp-async ") && found(&h, "tracker hash 0\n") && found(&h, "tcp sockets 0\n"));
	assert_true(found(&h, "tracker rights ") && found(&h, "\nrdma "));
	assert_false(found(&h, "guest ") || found(&h, "receiver ") || found(&h, "callback"));
	assert_int_equal(h.of[RF_VERDICT_NEEDED], 0);
	rf_migration_free(m);
}

/* A tracker that is asked for has to be there. */
static void options_count(void **state)
{
	struct heard h = {0};
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_set(m, "tracker", "callback"), RF_OK);
	assert_int_equal(rf_doctor(m, NULL, hear, &h), RF_REFUSED);
	assert_true(found(&h, "tracker callback 2\n"));
	assert_non_null(strstr(rf_error(m), "1 of the findings is in the way"));
	rf_migration_free(m);
}

static void guest_is_examined(void **state)
{
	struct counting c;
	struct heard h = {0};

	counting_open(&c, false);
	assert_int_equal(rf_doctor(c.m, NULL, hear, &h), RF_OK);
	assert_true(found(&h, "guest whole 0\n"));
	assert_string_equal(c.story, "");
	counting_close(&c);
}

static void nobody_is_there(void **state)
{
	struct heard h = {0};
	rf_migration *m = rf_migration_new(NULL);

	assert_int_equal(rf_doctor(m, "tcp://127.0.0.1:1", hear, &h), RF_REFUSED);
	assert_true(found(&h, "receiver connection 2\n"));
	assert_int_equal(h.of[RF_VERDICT_NEEDED], 1);
	rf_cancel(m);
	assert_int_equal(rf_doctor(m, "tcp://127.0.0.1:1", hear, &h), RF_CANCELLED);
	rf_migration_free(m);
}

/* Asked twice, once by the very migration that then moves the guest. */
static void asked_receiver_receives(void **state)
{
	struct counting source, dest;
	struct heard h = {0};

	counting_open(&source, false);
	counting_open(&dest, true);
	counting_run(&source);
	counting_start(&dest, ANY_PORT);

	rf_migration *m = rf_migration_new(NULL);

	/* What the prober is set to does not count for the source that comes later. */
	assert_int_equal(rf_set(m, "chunk-size", "1M"), RF_OK);
	assert_int_equal(rf_doctor(m, dest.uri, hear, &h), RF_OK);
	assert_true(h.round_trip_ns > 0 && h.bytes_per_second > 0);
	rf_migration_free(m);
	h = (struct heard){0};
	assert_int_equal(rf_doctor(source.m, dest.uri, hear, &h), RF_OK);
	assert_true(found(&h, "guest whole 0\n") && found(&h, "receiver bandwidth 0\n"));
	assert_string_equal(source.story, "");

	counting_start(&source, dest.uri);
	counting_join(&source);
	counting_join(&dest);
	assert_string_equal(source.error, "");
	assert_string_equal(dest.error, "");
	assert_string_equal(dest.story, "facts facts facts prepare load resume");
	assert_true(counting_goes_on(&dest));
	counting_stop(&dest);
	assert_int_equal(counting_sum(&dest), dest.total);
	counting_close(&source);
	counting_close(&dest);
}

static void asked_receiver_is_cancelled(void **state)
{
	struct counting dest;
	struct heard h = {0};
	rf_migration *m = rf_migration_new(NULL);

	counting_open(&dest, true);
	counting_start(&dest, ANY_PORT);
	assert_int_equal(rf_doctor(m, dest.uri, hear, &h), RF_OK);
	rf_cancel(dest.m);
	counting_join(&dest);
	assert_int_equal(dest.result, RF_CANCELLED);
	counting_close(&dest);
	rf_migration_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(usage_is_told),
	    cmocka_unit_test(host_is_examined),
	    cmocka_unit_test(options_count),
	    cmocka_unit_test(guest_is_examined),
	    cmocka_unit_test(nobody_is_there),
	    cmocka_unit_test(asked_receiver_receives),
	    cmocka_unit_test(asked_receiver_is_cancelled),
	};

	return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
