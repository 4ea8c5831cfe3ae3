// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mover.h"

#include "memory/tracker.h"
#include "qemu/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 3 };

int mover_keep(void *arg, const void *data, size_t length)
{
	struct bytes *b = arg;
	b->data = realloc(b->data, b->length + length);
	if (!b->data)
		return -1;
	memcpy(b->data + b->length, data, length);
	b->length += length;
	return 0;
}

int mover_pause(struct rf_guest *s, const struct rf_state_sink *early, bool *was_running, struct rf_error *e)
{
	enum rf_stand stand = RF_STAND_RUNS;
	while (stand != RF_STAND_STILL)
		if (s->ops->pause(s->ctx, early, &stand, was_running, e) != 0)
			return -1;
	return 0;
}

void must(int r, const struct rf_error *e)
{
	if (r != 0)
		fail_msg("%s", e->text);
}

static struct rf_guest *open_guest(const struct machine *m)
{
	char why[500] = "";
	struct rf_guest *g = NULL;
	if (rf_guest_open_qemu(&g, m->qmp, 0, why, sizeof(why)) != RF_OK)
		fail_msg("%s", why);
	return g;
}

struct rf_guest *mover_open(const struct machine *m, enum rf_role role)
{
	struct rf_error e = {0};
	struct rf_guest *g = open_guest(m);
	must(g->ops->check(g->ctx, role, &e), &e);
	return g;
}

double ms_since(int64_t *then)
{
	int64_t now = rf_clock_ns();
	double ms = (now - *then) / 1e6;
	*then = now;
	return ms;
}

/* ---- A small engine --------------------------------------------------------------------------------------------------- */

static void copy_run(const struct rf_block *from, struct rf_block *to, struct rf_run run)
{
	from->ops->copy(from, run, rf_block_at(to, run.first));
}

static struct rf_run slice_of(const struct rf_block *b, uint64_t first)
{
	uint64_t left = b->npages - first;
	return (struct rf_run){first, left < RF_SLICE_PAGES ? left : RF_SLICE_PAGES};
}

/* Copy what was written, or with `t` NULL what holds data. */
static void copy_block(struct rf_tracker *t, struct rf_guest *s, struct rf_guest *d, unsigned i)
{
	struct rf_error e = {0};
	struct rf_block *from = s->blocks[i], *to = d->blocks[i];
	struct rf_pages set;
	must(rf_pages_init(&set, from->npages, &e), &e);
	for (uint64_t p = 0; p < from->npages; p += RF_SLICE_PAGES) {
		struct rf_run slice = slice_of(from, p), run;
		if (t)
			must(t->ops->collect(t, i, slice, &set, &e), &e);
		else
			must(from->ops->extents(from, slice, &set, &e), &e);
		for (uint64_t at = p; rf_pages_next(&set, at, p + slice.count, &run); at = run.first + run.count)
			copy_run(from, to, run);
	}
	rf_pages_free(&set);
}

static void copy_all(struct rf_tracker *t, struct rf_guest *s, struct rf_guest *d)
{
	for (unsigned i = 0; i < s->nblocks; i++)
		copy_block(t, s, d, i);
}

static void each_slice(struct rf_tracker *t, struct rf_guest *g, bool arm)
{
	struct rf_error e = {0};
	for (unsigned i = 0; i < g->nblocks; i++)
		for (uint64_t p = 0; p < g->blocks[i]->npages; p += RF_SLICE_PAGES) {
			if (arm)
				must(t->ops->arm(t, i, slice_of(g->blocks[i], p), &e), &e);
			else
				t->ops->drop(t, i, slice_of(g->blocks[i], p));
		}
}

/* NULL: this kernel cannot track; then the guest is copied once it stands still. */
static struct rf_tracker *track(struct rf_guest *g)
{
	struct rf_error e = {0};
	struct rf_tracker *t = NULL;
	if (rf_track_wp.probe(g, &e) != 0) {
		print_message("no tracking: %s\n", e.text);
		return NULL;
	}
	int64_t then = rf_clock_ns();
	must(rf_track_wp.open(g, &t, &e), &e);
	print_message("tracking opened in %.2f ms\n", ms_since(&then));
	each_slice(t, g, true);
	return t;
}

static void expect_same_memory(struct rf_guest *s, struct rf_guest *d)
{
	struct rf_error e = {0};
	assert_int_equal(s->nblocks, d->nblocks);
	for (unsigned i = 0; i < s->nblocks; i++) {
		struct rf_digest a, b;
		struct rf_run all = {0, s->blocks[i]->npages};
		assert_string_equal(s->blocks[i]->name, d->blocks[i]->name);
		must(s->blocks[i]->ops->digest(s->blocks[i], all, &a, &e), &e);
		must(d->blocks[i]->ops->digest(d->blocks[i], all, &b, &e), &e);
		assert_true(a.low == b.low && a.high == b.high);
	}
}

static void expect_same_facts(struct rf_guest *s, struct rf_guest *d)
{
	char ours[1000], theirs[1000];
	struct rf_error e = {0};
	must(s->ops->facts(s->ctx, ours, sizeof(ours), &e), &e);
	must(d->ops->facts(d->ctx, theirs, sizeof(theirs), &e), &e);
	assert_string_equal(ours, theirs);
	assert_non_null(strstr(ours, "machine=pc-i440fx-"));
}

/* Everything up to a loaded destination. */
void mover_move(struct rf_guest *s, struct rf_guest *d, bool *was_running)
{
	struct rf_error e = {0};
	struct bytes state = {0};
	expect_same_facts(s, d);
	must(s->ops->prepare(s->ctx, RF_ROLE_SOURCE, &e), &e);
	must(d->ops->prepare(d->ctx, RF_ROLE_DESTINATION, &e), &e);
	struct rf_tracker *t = track(s);
	if (t)
		copy_all(NULL, s, d);
	for (int i = 0; t && i < ROUNDS; i++)
		copy_all(t, s, d);

	int64_t then = rf_clock_ns();
	struct rf_state_sink sink = {mover_keep, &state};
	must(mover_pause(s, &sink, was_running, &e), &e);
	double pause = ms_since(&then);
	must(s->ops->save(s->ctx, &sink, &e), &e);
	double save = ms_since(&then);
	copy_all(t, s, d);
	double last = ms_since(&then);
	expect_same_memory(s, d);
	then = rf_clock_ns();
	must(d->ops->load(d->ctx, state.data, state.length, &e), &e);
	print_message("pause %.1f ms, save %.1f ms (%zu bytes), last copy %.1f ms, load %.1f ms\n", pause, save,
		      state.length, last, ms_since(&then));
	if (t) {
		each_slice(t, s, false);
		t->ops->close(t);
	}
	free(state.data);
}
