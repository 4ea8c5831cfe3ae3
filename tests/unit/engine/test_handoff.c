// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/handoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Walk both sides through every interleaving of a move and its failures that the messages allow, and see that never both
 * may run. A pair of states is reachable only when what one side needs to have heard has been said. */
struct pair {
	enum rf_owner source, destination;
};

static bool both_may_run(struct pair p)
{
	/* The source runs, or may resume; the destination may run. */
	return rf_owner_rule(p.source)->source_may_run && rf_owner_rule(p.destination)->dest_may_run;
}

static void good_move(void **state)
{
	struct pair p = {RF_SOURCE_RUNNING, RF_DEST_EMPTY};
	p.destination = rf_owner_after(p.destination, RF_STEP_FILL);
	p.source = rf_owner_after(p.source, RF_STEP_PAUSE);
	p.source = rf_owner_after(p.source, RF_STEP_PAUSED);
	p.destination = rf_owner_after(p.destination, RF_STEP_LOAD);
	p.destination = rf_owner_after(p.destination, RF_STEP_LOADED);
	assert_false(both_may_run(p));
	p.source = rf_owner_after(p.source, RF_STEP_COMMIT);
	assert_false(rf_owner_rule(p.source)->source_may_run);
	p.destination = rf_owner_after(p.destination, RF_STEP_COMMIT);
	assert_false(both_may_run(p));
	p.destination = rf_owner_after(p.destination, RF_STEP_RUN);
	p.source = rf_owner_after(p.source, RF_STEP_CONFIRMED);
	assert_int_equal(p.source, RF_SOURCE_HANDED_OVER);
	assert_int_equal(p.destination, RF_DEST_RUNNING);
	assert_false(both_may_run(p));
}

static void source_gives_the_guest_away_before_the_destination_may_have_it(void **state)
{
	/* COMMIT is the only step into a state in which the destination may run, and the source's own COMMIT comes first.
	 * So it is enough that no state of the source reachable from COMMITTED, short of DISCARDED, may run. */
	assert_false(rf_owner_rule(RF_SOURCE_COMMITTED)->source_may_run);
	assert_false(rf_owner_rule(rf_owner_after(RF_SOURCE_COMMITTED, RF_STEP_CONFIRMED))->source_may_run);
	assert_false(rf_owner_rule(rf_owner_after(RF_SOURCE_COMMITTED, RF_STEP_FAILED))->source_may_run);
	assert_true(rf_owner_rule(rf_owner_after(RF_SOURCE_COMMITTED, RF_STEP_DISCARDED_THERE))->source_may_run);
	assert_false(rf_owner_rule(RF_SOURCE_COMMITTED)->may_cancel);
	assert_int_equal(rf_owner_rule(RF_SOURCE_COMMITTED)->on_failure, RF_E_UNKNOWN);
	for (int state_ = RF_DEST_EMPTY; state_ <= RF_DEST_LOADED; state_++)
		assert_false(rf_owner_rule((enum rf_owner)state_)->dest_may_run);
}

static void failures_before_commit_give_the_guest_back(void **state)
{
	for (int from = RF_SOURCE_RUNNING; from <= RF_SOURCE_STOPPED; from++) {
		assert_int_equal(rf_owner_after((enum rf_owner)from, RF_STEP_FAILED), RF_SOURCE_UNDONE);
		assert_true(rf_owner_rule((enum rf_owner)from)->may_cancel);
	}
	for (int from = RF_DEST_FILLING; from <= RF_DEST_LOADED; from++)
		assert_int_equal(rf_owner_after((enum rf_owner)from, RF_STEP_DISCARD), RF_DEST_DISCARDED);
}

static void owner_that_cannot_run_discards_or_is_stuck(void **state)
{
	assert_int_equal(rf_owner_after(RF_DEST_OWNER, RF_STEP_DISCARD), RF_DEST_DISCARDED);
	assert_false(rf_owner_rule(RF_DEST_DISCARDED)->dest_may_run);
	assert_int_equal(rf_owner_after(RF_DEST_OWNER, RF_STEP_DISCARD_FAILED), RF_DEST_STUCK);
	assert_true(rf_owner_rule(RF_DEST_STUCK)->dest_may_run);
	assert_int_equal(rf_owner_rule(RF_DEST_STUCK)->on_failure, RF_E_UNKNOWN);
}

static void every_state_has_a_name(void **state)
{
	for (int i = 0; i < RF_OWNER_STATES; i++)
		assert_non_null(rf_owner_rule((enum rf_owner)i)->name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_move),
	    cmocka_unit_test(source_gives_the_guest_away_before_the_destination_may_have_it),
	    cmocka_unit_test(failures_before_commit_give_the_guest_back),
	    cmocka_unit_test(owner_that_cannot_run_discards_or_is_stuck),
	    cmocka_unit_test(every_state_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
