// SPDX-License-Identifier: LGPL-2.1-or-later
/* The lifecycle of a guest of versions. Every operation takes its time first and then does what it does, or fails. Where
 * a real guest may be left in between, it is: a pause that fails has stopped the guest. */
#include "guests/versions.h"

#include "common/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [RF_VERSIONS_CHECK] = "check",   [RF_VERSIONS_FACTS] = "facts", [RF_VERSIONS_PREPARE] = "prepare",
    [RF_VERSIONS_PAUSE] = "pause",   [RF_VERSIONS_SAVE] = "save",   [RF_VERSIONS_LOAD] = "load",
    [RF_VERSIONS_RESUME] = "resume", [RF_VERSIONS_UNDO] = "undo",   [RF_VERSIONS_DISCARD] = "discard",
    [RF_VERSIONS_FINISH] = "finish",
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

static int versions_pause(void *ctx, bool *was_running, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	begin(g, RF_VERSIONS_PAUSE);
	*was_running = g->ran = g->running;
	rf_versions_stop(g);
	discard_some(g);
	take_snapshot(g);
	return end(g, RF_VERSIONS_PAUSE, e);
}

static int send_state(struct rf_versions *g, const struct rf_state_sink *sink)
{
	uint64_t sent, piece;

	for (sent = 0; sent < g->spec.state_bytes; sent += piece) {
		piece = rf_min_u64(1 + rf_versions_random(g, 65536), g->spec.state_bytes - sent);
		if (sink->write(sink->arg, g->state + sent, piece))
			return -1;
	}
	return 0;
}

/* Devices still write a little while their state is taken. */
static int versions_save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e)
{
	struct rf_versions *g = ctx;
	struct rf_versions_block *b = g->blocks[0];
	unsigned i;
	uint64_t at;

	if (g->running || !g->calls[RF_VERSIONS_PAUSE])
		rf_versions_violate(g, "the state of a guest that runs is saved");
	for (i = 0; i < g->spec.save_writes; i++)
		rf_versions_write(b, rf_versions_random(g, b->block.npages), false);
	begin(g, RF_VERSIONS_SAVE);
	for (i = 0; i < g->spec.save_writes; i++)
		rf_versions_write(b, rf_versions_random(g, b->block.npages), false);
	take_snapshot(g);
	free(g->state);
	g->state = malloc(g->spec.state_bytes ? g->spec.state_bytes : 1);
	if (!g->state)
		return rf_fail(e, RF_E_FAILED, "no memory for the state");
	for (at = 0; at < g->spec.state_bytes; at++)
		g->state[at] = (unsigned char)rf_versions_random(g, 256);
	if (send_state(g, sink))
		return rf_fail(e, RF_E_FAILED, "nobody takes the state");
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

static int versions_load(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct rf_versions *g = ctx;

	if (g->origin && (length != g->origin->spec.state_bytes || (length && memcmp(state, g->origin->state, length))))
		rf_versions_violate(g, "the state that is loaded is not what was saved");
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
	if (g->calls[RF_VERSIONS_PAUSE] && g->ran)
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

/* The rf_versions that holds all this is freed by whoever opened it. */
const struct rf_lifecycle_ops rf_versions_lifecycle = {
    .check = versions_check,
    .facts = versions_facts,
    .prepare = versions_prepare,
    .pause = versions_pause,
    .save = versions_save,
    .load = versions_load,
    .resume = versions_resume,
    .undo = versions_undo,
    .discard = versions_discard,
    .finish = versions_finish,
};
