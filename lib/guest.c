// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest made of a program's callbacks: each is called with a buffer for its sentence, which becomes an error.
 *
 * The table of operations is made per guest, because a missing callback must stay a missing operation: the engine
 * and the choice of a tracker look at that. */
#include "memory/guest.h"
#include "ramferry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_BYTES = 400 };

struct callbacks {
	rf_guest_ops ops; /* the program's */
	void *ctx;
	struct rf_lifecycle_ops lifecycle;
	const char *gone; /* why this guest can never be moved again; NULL: it can */
};

/* What the callback `name` came to. */
static int verdict(int failed, enum rf_code code, const char *name, char why[WHY_BYTES], struct rf_error *e)
{
	why[WHY_BYTES - 1] = '\0';
	if (!failed)
		return 0;
	if (!why[0])
		return rf_fail(e, code, "the guest's %s() failed without saying why", name);
	return rf_fail(e, code, "%s", why);
}

static int check(void *ctx, enum rf_role role, struct rf_error *e)
{
	struct callbacks *c = ctx;

	return c->gone ? rf_fail(e, RF_E_REFUSED, "%s", c->gone) : 0;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Put the lines of `text` in order, so that programs need not care. */
static int sort_lines(char *text, struct rf_error *e)
{
	size_t nlines = 1, n = 0;
	int result = -1;

	for (const char *p = text; *p; p++)
		nlines += *p == '\n';

	char *copy = strdup(text), *rest = NULL;
	char **lines = calloc(nlines, sizeof *lines);

	if (!copy || !lines) {
		rf_fail(e, RF_E_FAILED, "no memory for the guest's facts");
		goto out;
	}
	for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		lines[n++] = line;
	qsort(lines, n, sizeof *lines, compare_lines);
	for (size_t i = 0; i < n; i++) {
		text = stpcpy(text, lines[i]);
		if (i + 1 < n)
			*text++ = '\n';
	}
	*text = '\0';
	result = 0;
out:
	free(lines);
	free(copy);
	return result;
}

static int facts(void *ctx, char *text, size_t length, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";

	text[0] = '\0';

	int failed = c->ops.facts(c->ctx, text, length, why, sizeof why);

	text[length - 1] = '\0';
	if (verdict(failed, RF_E_REFUSED, "facts", why, e))
		return -1;
	return sort_lines(text, e);
}

static int prepare(void *ctx, enum rf_role role, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.prepare(c->ctx, role == RF_ROLE_DESTINATION, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "prepare", why, e);
}

static int collect(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.collect(c->ctx, block, first, count, bitmap, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "collect", why, e);
}

static void stop_tracking(void *ctx)
{
	struct callbacks *c = ctx;

	c->ops.stop_tracking(c->ctx);
}

static int drain(void *ctx, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.drain(c->ctx, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "drain", why, e);
}

static int pause_guest(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
		       struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int running = 1;
	int failed = c->ops.pause(c->ctx, &running, why, sizeof why);

	*was_running = running != 0;
	*stand = RF_STAND_STILL;
	return verdict(failed, RF_E_FAILED, "pause", why, e);
}

static int save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.save(c->ctx, sink->write, sink->arg, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "save", why, e);
}

static int load(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.load(c->ctx, state, length, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "load", why, e);
}

static int resume(void *ctx, bool run, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.resume(c->ctx, run, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "resume", why, e);
}

static int undo(void *ctx, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = c->ops.undo(c->ctx, why, sizeof why);

	return verdict(failed, RF_E_FAILED, "undo", why, e);
}

static int discard(void *ctx, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = 0;

	if (c->ops.discard)
		failed = c->ops.discard(c->ctx, why, sizeof why);
	c->gone = "this guest was discarded after a move that failed";
	return verdict(failed, RF_E_FAILED, "discard", why, e);
}

static int finish(void *ctx, struct rf_error *e)
{
	struct callbacks *c = ctx;
	char why[WHY_BYTES] = "";
	int failed = 0;

	if (c->ops.finish)
		failed = c->ops.finish(c->ctx, why, sizeof why);
	c->gone = "this guest was moved and runs at another place";
	return verdict(failed, RF_E_FAILED, "finish", why, e);
}

static void close_callbacks(void *ctx)
{
	struct callbacks *c = ctx;

	if (c->ops.close)
		c->ops.close(c->ctx);
	free(c);
}

static void fill_lifecycle(struct callbacks *c)
{
	c->lifecycle = (struct rf_lifecycle_ops){
	    .check = check,
	    .facts = c->ops.facts ? facts : NULL,
	    .prepare = c->ops.prepare ? prepare : NULL,
	    .collect = c->ops.collect ? collect : NULL,
	    .stop_tracking = c->ops.stop_tracking ? stop_tracking : NULL,
	    .drain = c->ops.drain ? drain : NULL,
	    .pause = pause_guest,
	    .save = c->ops.save ? save : NULL,
	    .load = c->ops.load ? load : NULL,
	    .resume = resume,
	    .undo = c->ops.undo ? undo : NULL,
	    .discard = discard,
	    .finish = finish,
	    .close = close_callbacks,
	};
}

/* A program built against another release has another size: members it lacks are NULL, and such as this library does not
 * know may not be asked for. */
static bool copy_ops(rf_guest_ops *to, const rf_guest_ops *from)
{
	const unsigned char *bytes = (const void *)from;

	for (size_t i = sizeof *to; i < from->size; i++)
		if (bytes[i])
			return false;
	memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
	return to->pause && to->resume;
}

RF_API rf_guest *rf_guest_new(const rf_guest_ops *ops, void *ctx)
{
	struct callbacks *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->ctx = ctx;
	if (!ops || !copy_ops(&c->ops, ops))
		goto free_callbacks;
	fill_lifecycle(c);

	rf_guest *guest = rf_guest_create(&c->lifecycle, c);

	if (guest) {
		guest->needs_drain = c->ops.drain != NULL;
		return guest;
	}
free_callbacks:
	free(c);
	return NULL;
}

static int check_block(const rf_guest *guest, const struct rf_block_source *source, struct rf_error *e)
{
	if (!guest)
		return rf_fail(e, RF_E_USAGE, "there is no guest: the pointer is NULL");
	if (guest->ops->close != close_callbacks)
		return rf_fail(e, RF_E_USAGE, "this guest finds its own memory; nothing can be added");
	if (!source->name || !source->name[0])
		return rf_fail(e, RF_E_USAGE, "a block of memory needs a name");
	if (!source->memory)
		return rf_fail(e, RF_E_USAGE, "block %s has no memory: the pointer is NULL", source->name);
	return 0;
}

RF_API rf_result rf_guest_add_block(rf_guest *guest, const char *name, void *memory, uint64_t length, int fd,
				    uint64_t fd_offset, char *why, size_t why_length)
{
	struct rf_block_source source = {
	    .name = name,
	    .length = length,
	    .memory = memory,
	    .fd = fd,
	    .fd_offset = fd_offset,
	    .writable = true, /* the same guest may come and go */
	};
	struct rf_block *block = NULL;
	struct rf_error e = {0};

	if (check_block(guest, &source, &e) || rf_block_open(&source, &block, &e) || rf_guest_add(guest, block, &e)) {
		if (why && why_length)
			snprintf(why, why_length, "%s", e.text);
		return RF_USAGE;
	}
	return RF_OK;
}

RF_API rf_result rf_guest_set_discarder(rf_guest *guest, const char *what)
{
	if (!guest || guest->ops->close != close_callbacks)
		return RF_USAGE;
	guest->may_discard = what != NULL;
	snprintf(guest->discarder, sizeof guest->discarder, "%s", what ? what : "");
	return RF_OK;
}

RF_API void rf_guest_free(rf_guest *guest)
{
	if (guest)
		rf_guest_destroy(guest);
}
