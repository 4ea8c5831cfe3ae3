// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/handoff.h"

#include <assert.h>
#include <stddef.h>

// clang-format off
static const struct rf_owner_rule rules[] = {
	/*                          name            source dest   cancel on failure */
	[RF_SOURCE_RUNNING]     = {"running",      true,  false, true,  RF_E_FAILED},
	[RF_SOURCE_STOPPING]    = {"stopping",     true,  false, true,  RF_E_FAILED},
	[RF_SOURCE_STOPPED]     = {"stopped",      true,  false, true,  RF_E_FAILED},
	[RF_SOURCE_COMMITTED]   = {"committed",    false, false, false, RF_E_UNKNOWN},
	[RF_SOURCE_HANDED_OVER] = {"handed over",  false, false, false, RF_E_NONE},
	[RF_SOURCE_UNDONE]      = {"undone",       true,  false, false, RF_E_FAILED},
	[RF_SOURCE_UNKNOWN]     = {"unknown",      false, false, false, RF_E_UNKNOWN},
	[RF_DEST_EMPTY]         = {"empty",        false, false, true,  RF_E_REFUSED},
	[RF_DEST_FILLING]       = {"filling",      false, false, true,  RF_E_FAILED},
	[RF_DEST_LOADING]       = {"loading",      false, false, true,  RF_E_FAILED},
	[RF_DEST_LOADED]        = {"loaded",       false, false, true,  RF_E_FAILED},
	[RF_DEST_OWNER]         = {"owner",        false, true,  false, RF_E_UNKNOWN},
	[RF_DEST_RUNNING]       = {"running here", false, true,  false, RF_E_NONE},
	[RF_DEST_DISCARDED]     = {"discarded",    false, false, false, RF_E_FAILED},
	[RF_DEST_STUCK]         = {"stuck",        false, true,  false, RF_E_UNKNOWN},
};
// clang-format on
static_assert(sizeof(rules) / sizeof(rules[0]) == RF_OWNER_STATES, "every state has a rule");

/* A failure of the source before COMMIT leads to UNDONE, of the destination to DISCARDED (or STUCK when even that
 * fails). After COMMIT the source can only be told; the destination that cannot run the guest discards it, for then it
 * never ran. */
static const struct {
	enum rf_owner from;
	enum rf_owner_step step;
	enum rf_owner to;
} steps[] = {
    {RF_SOURCE_RUNNING, RF_STEP_PAUSE, RF_SOURCE_STOPPING},
    {RF_SOURCE_STOPPING, RF_STEP_PAUSED, RF_SOURCE_STOPPED},
    {RF_SOURCE_STOPPED, RF_STEP_COMMIT, RF_SOURCE_COMMITTED},
    {RF_SOURCE_COMMITTED, RF_STEP_CONFIRMED, RF_SOURCE_HANDED_OVER},
    {RF_SOURCE_COMMITTED, RF_STEP_DISCARDED_THERE, RF_SOURCE_UNDONE},
    {RF_SOURCE_COMMITTED, RF_STEP_FAILED, RF_SOURCE_UNKNOWN},
    {RF_SOURCE_RUNNING, RF_STEP_FAILED, RF_SOURCE_UNDONE},
    {RF_SOURCE_STOPPING, RF_STEP_FAILED, RF_SOURCE_UNDONE},
    {RF_SOURCE_STOPPED, RF_STEP_FAILED, RF_SOURCE_UNDONE},

    {RF_DEST_EMPTY, RF_STEP_FILL, RF_DEST_FILLING},
    {RF_DEST_FILLING, RF_STEP_LOAD, RF_DEST_LOADING},
    {RF_DEST_LOADING, RF_STEP_LOADED, RF_DEST_LOADED},
    {RF_DEST_LOADED, RF_STEP_COMMIT, RF_DEST_OWNER},
    {RF_DEST_OWNER, RF_STEP_RUN, RF_DEST_RUNNING},
    {RF_DEST_FILLING, RF_STEP_DISCARD, RF_DEST_DISCARDED},
    {RF_DEST_LOADING, RF_STEP_DISCARD, RF_DEST_DISCARDED},
    {RF_DEST_LOADED, RF_STEP_DISCARD, RF_DEST_DISCARDED},
    {RF_DEST_OWNER, RF_STEP_DISCARD, RF_DEST_DISCARDED},
    /* A guest that was never loaded, or loaded and not resumed, does not run by itself even where it cannot be
	 * ended; only after COMMIT is that in doubt. */
    {RF_DEST_FILLING, RF_STEP_DISCARD_FAILED, RF_DEST_DISCARDED},
    {RF_DEST_LOADING, RF_STEP_DISCARD_FAILED, RF_DEST_DISCARDED},
    {RF_DEST_LOADED, RF_STEP_DISCARD_FAILED, RF_DEST_DISCARDED},
    {RF_DEST_OWNER, RF_STEP_DISCARD_FAILED, RF_DEST_STUCK},
};

const struct rf_owner_rule *rf_owner_rule(enum rf_owner state)
{
	assert(state < RF_OWNER_STATES);
	return &rules[state];
}

enum rf_owner rf_owner_after(enum rf_owner state, enum rf_owner_step step)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].from == state && steps[i].step == step)
			return steps[i].to;
	assert(!"a step that the ownership table does not have");
	return state;
}
