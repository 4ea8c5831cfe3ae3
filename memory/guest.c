// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest is a list of blocks and what its owner can do with it. */
#include "memory/guest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct rf_guest *rf_guest_create(const struct rf_lifecycle_ops *ops, void *ctx)
{
	struct rf_guest *g = calloc(1, sizeof(*g));

	assert(ops);
	if (!g)
		return NULL;
	g->ops = ops;
	g->ctx = ctx;
	g->may_discard = true; /* unless somebody knows better */
	return g;
}

static int add(struct rf_guest *g, struct rf_block *b, struct rf_error *e)
{
	struct rf_block **blocks;

	if (!b->npages)
		return rf_fail(e, RF_E_USAGE, "block \"%s\" is empty", b->name);
	for (unsigned i = 0; i < g->nblocks; i++)
		if (!strcmp(g->blocks[i]->name, b->name))
			return rf_fail(e, RF_E_USAGE, "there are two blocks named \"%s\"", b->name);
	blocks = realloc(g->blocks, (g->nblocks + 1) * sizeof(struct rf_block *));
	if (!blocks)
		return rf_fail(e, RF_E_FAILED, "block \"%s\": no memory", b->name);
	g->blocks = blocks;
	g->blocks[g->nblocks++] = b;
	return 0;
}

int rf_guest_add(struct rf_guest *g, struct rf_block *b, struct rf_error *e)
{
	if (!add(g, b, e))
		return 0;
	b->ops->close(b);
	return -1;
}

void rf_guest_destroy(struct rf_guest *g)
{
	if (!g)
		return;
	for (unsigned i = 0; i < g->nblocks; i++)
		g->blocks[i]->ops->close(g->blocks[i]);
	free(g->blocks);
	if (g->ops->close)
		g->ops->close(g->ctx);
	free(g);
}
