// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/drains.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MIB = 1 << 20, MS = 1000000 };

static struct rf_converge c;

static struct rf_drains needed(void)
{
	rf_converge_init(&c);
	return (struct rf_drains){.needed = true};
}

static enum rf_verdict decide(struct rf_drains *d, struct rf_drains_view v)
{
	return rf_drains_decide(d, &c, &v);
}

static void without_need_the_verdict_stands(void **state)
{
	struct rf_drains d = {0};
	for (enum rf_verdict v = RF_VERDICT_ROUND; v <= RF_VERDICT_STALL; v++)
		assert_int_equal(decide(&d, (struct rf_drains_view){.verdict = v, .extra_bytes = MIB}), v);
}

static void who_would_leave_closes_in_first(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {.verdict = RF_VERDICT_ROUND,
				   .extra_bytes = 100 * MIB,
				   .extra_ns = 100 * MS,
				   .left_ns = 100 * MS,
				   .fits = true};
	assert_int_equal(decide(&d, v), RF_VERDICT_ROUND);
	v.verdict = RF_VERDICT_LEAVE;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	v.extra_bytes = 0;
	v.verdict = RF_VERDICT_ROUND;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	v.verdict = RF_VERDICT_LEAVE;
	assert_int_equal(decide(&d, v), RF_VERDICT_LEAVE);
}

static void a_stop_must_be_shorter_than_what_it_saves(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {
	    .verdict = RF_VERDICT_LEAVE, .extra_bytes = MIB, .extra_ns = 21 * MS, .left_ns = 21 * MS, .fits = true};
	rf_drains_took(&d, 20 * MS);
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	rf_drains_took(&d, 20 * MS);
	v.verdict = RF_VERDICT_ROUND;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	v.left_ns = 20 * MS;
	assert_int_equal(decide(&d, v), RF_VERDICT_LEAVE);
	v.fits = false; /* then there is no choice */
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);

	d = needed();
	rf_drains_took(&d, 20 * MS);
	v = (struct rf_drains_view){.verdict = RF_VERDICT_LEAVE, .extra_bytes = MIB, .extra_ns = 20 * MS, .fits = true};
	assert_int_equal(decide(&d, v), RF_VERDICT_LEAVE);
}

static void next_to_nothing_is_worth_no_stop(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {.verdict = RF_VERDICT_LEAVE, .extra_bytes = 4096, .fits = true};
	assert_int_equal(decide(&d, v), RF_VERDICT_LEAVE);
	v.fits = false;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
}

static void where_it_leads_to_nothing_the_guest_gets_a_rest(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {.verdict = RF_VERDICT_LEAVE,
				   .extra_bytes = MIB,
				   .extra_ns = 100 * MS,
				   .left_ns = 100 * MS,
				   .fits = true,
				   .now_ns = 1000 * MS};
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	rf_drains_took(&d, 10 * MS);
	v.verdict = RF_VERDICT_ROUND;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	rf_drains_took(&d, 30 * MS);
	v.verdict = RF_VERDICT_STALL;
	assert_int_equal(decide(&d, v), RF_VERDICT_STALL);
	v.verdict = RF_VERDICT_LEAVE;
	v.now_ns = 1799 * MS;
	assert_int_equal(decide(&d, v), RF_VERDICT_WAIT);
	v.now_ns = 1800 * MS;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
}

static void slow_disks_are_not_asked_twice_in_a_row(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {.verdict = RF_VERDICT_STALL, .would_fit = true, .extra_bytes = MIB, .extra_ns = MS};
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	rf_drains_took(&d, 500 * MS);
	v.verdict = RF_VERDICT_ROUND;
	assert_int_equal(decide(&d, v), RF_VERDICT_WAIT);
	v.verdict = RF_VERDICT_STALL;
	assert_int_equal(decide(&d, v), RF_VERDICT_STALL);
	v.now_ns = 10000ll * MS;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
}

static void a_stall_by_writes_is_none_of_its_business(void **state)
{
	struct rf_drains d = needed();
	struct rf_drains_view v = {.verdict = RF_VERDICT_STALL, .extra_bytes = 100 * MIB, .extra_ns = MS};
	assert_int_equal(decide(&d, v), RF_VERDICT_STALL);
	v.forced = true;
	assert_int_equal(decide(&d, v), RF_VERDICT_DRAIN);
	assert_int_equal(decide(&d, v), RF_VERDICT_STALL); /* closing in, and it leaves */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_need_the_verdict_stands),
	    cmocka_unit_test(who_would_leave_closes_in_first),
	    cmocka_unit_test(a_stop_must_be_shorter_than_what_it_saves),
	    cmocka_unit_test(next_to_nothing_is_worth_no_stop),
	    cmocka_unit_test(where_it_leads_to_nothing_the_guest_gets_a_rest),
	    cmocka_unit_test(slow_disks_are_not_asked_twice_in_a_row),
	    cmocka_unit_test(a_stall_by_writes_is_none_of_its_business),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
