// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/converge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };
static const uint64_t LIMIT_NS = 300000000;

/* 1 MiB a millisecond, 20 ms for the rest. */
static const struct rf_costs costs = {.pause_ns = 5000000,
				      .state_ns = 5000000,
				      .scan_ns = 5000000,
				      .hand_off_ns = 5000000,
				      .bytes_per_second = 1000ull * MIB};

static enum rf_verdict after(struct rf_converge *c, enum rf_switchover mode, uint64_t left)
{
	return rf_converge_decide(c, mode, left, rf_predict_downtime_ns(&costs, left), LIMIT_NS);
}

static void prediction_adds_up(void **state)
{
	assert_int_equal(rf_predict_downtime_ns(&costs, 0), 20000000);
	assert_int_equal(rf_predict_downtime_ns(&costs, 100 * MIB), 120000000);
	struct rf_costs unknown = {.pause_ns = 1};
	assert_int_equal(rf_predict_downtime_ns(&unknown, 1ull << 40), 1);
}

static void low_point_goes_on_while_it_shrinks(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 200 * MIB), RF_VERDICT_ROUND); /* fits already */
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 100 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 66 * MIB), RF_VERDICT_ROUND); /* a third less */
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 45 * MIB), RF_VERDICT_LEAVE); /* less than a third */
}

static void begun_again_it_knows_the_low_point(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 20 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 19 * MIB), RF_VERDICT_LEAVE);
	rf_converge_begin_again(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 100 * MIB), RF_VERDICT_ROUND); /* fits, but could be less */
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 28 * MIB), RF_VERDICT_LEAVE);  /* half as much again as then */
}

static void low_point_leaves_when_next_to_nothing_is_left(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 0), RF_VERDICT_LEAVE);
}

static void threshold_leaves_as_soon_as_it_fits(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_THRESHOLD, 281 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_THRESHOLD, 280 * MIB), RF_VERDICT_LEAVE);
}

static void three_rounds_without_progress_are_a_stall(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 500 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 600 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 500 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 510 * MIB), RF_VERDICT_STALL);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 400 * MIB), RF_VERDICT_ROUND); /* and it moves again */
}

static void a_hair_less_is_no_progress(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 500 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 499 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 498 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 497 * MIB), RF_VERDICT_STALL);
}

static void a_rest_that_fits_is_never_a_stall(void **state)
{
	struct rf_converge c;
	rf_converge_init(&c);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 500 * MIB), RF_VERDICT_ROUND);
	for (int i = 0; i < 2; i++)
		assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 600 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 279 * MIB), RF_VERDICT_ROUND);
	assert_int_equal(after(&c, RF_SWITCHOVER_LOW_POINT, 279 * MIB), RF_VERDICT_LEAVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(prediction_adds_up),
	    cmocka_unit_test(low_point_goes_on_while_it_shrinks),
	    cmocka_unit_test(begun_again_it_knows_the_low_point),
	    cmocka_unit_test(low_point_leaves_when_next_to_nothing_is_left),
	    cmocka_unit_test(threshold_leaves_as_soon_as_it_fits),
	    cmocka_unit_test(three_rounds_without_progress_are_a_stall),
	    cmocka_unit_test(a_hair_less_is_no_progress),
	    cmocka_unit_test(a_rest_that_fits_is_never_a_stall),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
