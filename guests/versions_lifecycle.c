// SPDX-License-Identifier: LGPL-2.1-or-later
/* The lifecycle of a guest of versions. Every operation takes its time first and then does what it does, or fails. Where
 * a real guest may be left in between, it is: a pause that fails has stopped the guest. */
#include "guests/versions.h"

#include "common/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [RF_VERSIONS_CHECK] = "check",     [RF_VERSIONS_FACTS] = "facts",   [RF_VERSIONS_PREPARE] = "prepare",
    [RF_VERSIONS_PAUSE] = "pause",     [RF_VERSIONS_SAVE] = "save",     [RF_VERSIONS_LOAD_EARLY] = "early load",
    [RF_VERSIONS_LOAD] = "load",       [RF_VERSIONS_RESUME] = "resume", [RF_VERSIONS_UNDO] = "undo",
    [RF_VERSIONS_DISCARD] = "discard", [RF_VERSIONS_FINISH] = "finish",
    [RF_VERSIONS_DRAIN] = "drain",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == RF_VERSIONS_OPS, "every operation has its name");

static void begin(struct rf_versions *g, enum rf_versions_op op)
{
	g->calls[op]++;
	if (g->spec.cost_ns[op])
		g->world->spend(g->world->ctx, g->spec.cost_ns[op]);
}

static int end(struct rf_versions *g, enum rf_versions_op op, struct rf_error *e)
{
	if (g->spec.fails[op])
		return rf_fail(e, op == RF_VERSIONS_CHECK ? RF_E_REFUSED : RF_E_FAILED, "%s fails on purpose",
			       names[op]);
	g->successes[op]++;
	return 0;
}

static int versions_check(void *ctx, enum rf_role role, struct rf_error *e)
{
	begin(ctx, RF_VERSIONS_CHECK);
	return end(ctx, RF_VERSIONS_CHECK, e);
}

static int versions_facts(void *ctx, char *text, size_t length, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_FACTS);
	snprintf(text, length, "%s\n", g->spec.facts);
	return end(g, RF_VERSIONS_FACTS, e);
}

static int versions_prepare(void *ctx, enum rf_role role, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_PREPARE);
	if (role != g->spec.role)
		rf_versions_violate(g, "prepare with the other role");
	return end(g, RF_VERSIONS_PREPARE, e);
}

static void take_snapshot(struct rf_versions *g)
{
	unsigned i;

	for (i = 0; i < g->spec.nblocks; i++)
		memcpy(g->blocks[i]->at_pause, g->blocks[i]->version, g->blocks[i]->block.npages * sizeof(uint32_t));
}

static void discard_some(struct rf_versions *g)
{
	struct rf_versions_block *b = g->blocks[0];
	unsigned i;

	for (i = 0; i < g->spec.pause_holes; i++) {
		uint64_t page = rf_versions_random(g, b->block.npages);
		b->version[page] = 0;
		rf_pages_remove(&b->present, page, 1);
	}
}

static int draw_state(struct rf_versions *g, struct rf_error *e)
{
	uint64_t bytes = g->spec.early_bytes + g->spec.state_bytes, at;

	if (g->state)
		return 0;
	g->state = malloc(bytes ? bytes : 1);
	if (!g->state)
		return rf_fail(e, RF_E_FAILED, "no memory for the state");
	for (at = 0; at < bytes; at++)
		g->state[at] = (unsigned char)rf_versions_random(g, 256);
	return 0;
}

static int versions_drain(void *ctx, struct rf_error *e)
{
	struct rf_versions *g = ctx;
	bool running = g->running;

	if (g->calls[RF_VERSIONS_PAUSE])
		rf_versions_violate(g, "a drain point after the pause");
	g->ran = running;
	rf_versions_stop(g);
	begin(g, RF_VERSIONS_DRAIN);
	rf_versions_end_dma(g);
	if (end(g, RF_VERSIONS_DRAIN, e))
		return -1;
	if (running)
		rf_versions_start(g);
	return 0;
}

/* The next piece, of what there is up to `end`. */
static int hand_out(struct rf_versions *g, const struct rf_state_sink *sink, uint64_t end, struct rf_error *e)
{
	uint64_t at = g->state_at, piece = rf_min_u64(1 + rf_versions_random(g, 65536), end - at);

	g->state_at += piece;
	return sink->write(sink->arg, g->state + at, piece) ? rf_fail(e, RF_E_FAILED, "nobody takes the state") : 0;
}

static int versions_pause(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
			  struct rf_error *e)
{
	struct rf_versions *g = ctx;

	*stand = RF_STAND_RUNS;
	if (draw_state(g, e))
		return -1;
	if (g->state_at < g->spec.early_bytes) {
		g->world->spend(g->world->ctx, 1000000);
		return hand_out(g, early, g->spec.early_bytes, e);
	}
	begin(g, RF_VERSIONS_PAUSE);
	*stand = RF_STAND_STILL;
	*was_running = g->ran = g->running;
	rf_versions_stop(g);
	rf_versions_end_dma(g);
	discard_some(g);
	take_snapshot(g);
	return end(g, RF_VERSIONS_PAUSE, e);
}

/* Devices still write a little while their state is taken. */
static int versions_save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e)
{
	struct rf_versions *g = ctx;
	struct rf_versions_block *b = g->blocks[0];
	unsigned i;

	if (g->running || !g->calls[RF_VERSIONS_PAUSE])
		rf_versions_violate(g, "the state of a guest that runs is saved");
	for (i = 0; i < g->spec.save_writes; i++)
		rf_versions_write(b, rf_versions_random(g, b->block.npages), false);
	begin(g, RF_VERSIONS_SAVE);
	for (i = 0; i < g->spec.save_writes; i++)
		rf_versions_write(b, rf_versions_random(g, b->block.npages), false);
	take_snapshot(g);
	while (g->state_at < g->spec.early_bytes + g->spec.state_bytes)
		if (hand_out(g, sink, g->spec.early_bytes + g->spec.state_bytes, e))
			return -1;
	return end(g, RF_VERSIONS_SAVE, e);
}

/* Devices read guest memory while they load their state. */
static void must_be_complete(struct rf_versions *g, const char *when)
{
	char first[200];
	uint64_t n;

	if (!g->origin)
		return;
	n = rf_versions_differences(g, first, sizeof(first));
	if (n)
		rf_versions_violate(g, "%s, %llu pages are not what they were at the pause: %s", when,
				    (unsigned long long)n, first);
}

static void take_piece(struct rf_versions *g, const void *state, size_t length)
{
	const struct rf_versions *from = g->origin;

	if (from &&
	    (length > from->state_at - g->state_at || (length && memcmp(state, from->state + g->state_at, length))))
		rf_versions_violate(g, "the state that is loaded is not what was saved");
	g->state_at += length;
}

static int versions_load_early(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	if (g->calls[RF_VERSIONS_LOAD])
		rf_versions_violate(g, "early state comes behind the rest");
	begin(g, RF_VERSIONS_LOAD_EARLY);
	take_piece(g, state, length);
	if (g->origin && g->state_at > g->origin->spec.early_bytes)
		rf_versions_violate(g, "state is loaded before memory is complete");
	return end(g, RF_VERSIONS_LOAD_EARLY, e);
}

static int versions_load(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	take_piece(g, state, length);
	if (g->origin && g->state_at != g->origin->spec.early_bytes + g->origin->spec.state_bytes)
		rf_versions_violate(g, "not all of the state is loaded");
	g->calls[RF_VERSIONS_LOAD]++; /* from here on memory must stay as it is */
	must_be_complete(g, "when the state is loaded");
	g->world->spend(g->world->ctx, g->spec.cost_ns[RF_VERSIONS_LOAD]);
	return end(g, RF_VERSIONS_LOAD, e);
}

static int versions_resume(void *ctx, bool run, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_RESUME);
	if (!g->successes[RF_VERSIONS_LOAD])
		rf_versions_violate(g, "a guest is resumed whose state was not loaded");
	must_be_complete(g, "when the guest is resumed");
	if (end(g, RF_VERSIONS_RESUME, e))
		return -1;
	g->resume_run = run;
	if (run)
		rf_versions_start(g);
	return 0;
}

static int versions_undo(void *ctx, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_UNDO);
	if (end(g, RF_VERSIONS_UNDO, e))
		return -1;
	if ((g->calls[RF_VERSIONS_PAUSE] || g->calls[RF_VERSIONS_DRAIN]) && g->ran)
		rf_versions_start(g);
	return 0;
}

static int versions_discard(void *ctx, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_DISCARD);
	if (g->running)
		rf_versions_violate(g, "a guest is discarded while it runs");
	return end(g, RF_VERSIONS_DISCARD, e);
}

static int versions_finish(void *ctx, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_FINISH);
	if (g->running)
		rf_versions_violate(g, "a guest is finished while it runs");
	return end(g, RF_VERSIONS_FINISH, e);
}

static int versions_alive(void *ctx, struct rf_error *e)
{
	const struct rf_versions *g = ctx;

	if (!g->spec.dies_ns || g->now_ns < g->spec.dies_ns)
		return 0;
	return rf_fail(e, RF_E_FAILED, "the guest has died on purpose");
}

/* The rf_versions that holds all this is freed by whoever opened it. */
const struct rf_lifecycle_ops rf_versions_lifecycle = {
    .check = versions_check,
    .facts = versions_facts,
    .prepare = versions_prepare,
    .drain = versions_drain,
    .pause = versions_pause,
    .save = versions_save,
    .load_early = versions_load_early,
    .load = versions_load,
    .resume = versions_resume,
    .undo = versions_undo,
    .discard = versions_discard,
    .finish = versions_finish,
    .alive = versions_alive,
};
