// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tracker "callback": the program that embeds the guest knows which pages were written (KVM's dirty log or ring). */
#include "memory/tracker.h"

#include <stdlib.h>

enum { BITS = 64 };

static int callback_probe(struct rf_guest *g, struct rf_error *why)
{
	if (!g->ops->collect)
		return rf_fail(why, RF_E_REFUSED,
			       "the program that runs the guest does not tell which pages were written");
	return 0;
}

static int callback_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct rf_tracker *t = calloc(1, sizeof(*t));

	if (!t)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	*t = (struct rf_tracker){.ops = &rf_track_callback, .guest = g};
	*out = t;
	return 0;
}

/* Add the runs of set bits; bits past `count` are not ours to believe. */
static void add_bits(struct rf_pages *dirty, struct rf_run slice, const uint64_t *bitmap)
{
	for (uint64_t base = 0; base < slice.count; base += BITS) {
		uint64_t bits = bitmap[base / BITS], left = slice.count - base;

		if (left < BITS)
			bits &= UINT64_MAX >> (BITS - left);
		while (bits) {
			uint64_t first = (uint64_t)__builtin_ctzll(bits);
			uint64_t rest = ~(bits >> first), n = rest ? (uint64_t)__builtin_ctzll(rest) : BITS;

			rf_pages_add(dirty, slice.first + base + first, n);
			bits &= first + n < BITS ? UINT64_MAX << (first + n) : 0;
		}
	}
}

static int ask(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty, struct rf_error *e)
{
	struct rf_guest *g = t->guest;
	uint64_t *bitmap = calloc(slice.count / BITS + 1, sizeof(uint64_t));
	int result;

	if (!bitmap)
		return rf_fail(e, RF_E_FAILED, "no memory for a bitmap");
	result = g->ops->collect(g->ctx, block, slice.first, slice.count, bitmap, e);
	if (!result && dirty)
		add_bits(dirty, slice, bitmap);
	free(bitmap);
	return result ? rf_wrap(e, "block \"%s\"", g->blocks[block]->name) : 0;
}

static int callback_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	return ask(t, block, slice, NULL, e);
}

static int callback_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			    struct rf_error *e)
{
	return ask(t, block, slice, dirty, e);
}

static void callback_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
}

static void callback_close(struct rf_tracker *t)
{
	if (t->guest->ops->stop_tracking)
		t->guest->ops->stop_tracking(t->guest->ctx);
	free(t);
}

const struct rf_tracker_ops rf_track_callback = {
    .name = "callback",
    .probe = callback_probe,
    .open = callback_open,
    .arm = callback_arm,
    .collect = callback_collect,
    .drop = callback_drop,
    .close = callback_close,
};
