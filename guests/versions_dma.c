// SPDX-License-Identifier: LGPL-2.1-or-later
/* A disk that reads into the guest's memory by direct I/O. A page is pinned when a read begins, which is a write fault and all
 * that a tracker learns; its content changes half-way and at the end. The guest that stops begins no other read, and those
 * under way end in their time. */
#include "guests/versions.h"

#include <assert.h>

static bool is_busy(const struct rf_versions *g, const struct rf_versions_block *b, uint64_t page)
{
	for (unsigned i = 0; i < g->ndma; i++)
		if (g->dma[i].block == b && g->dma[i].page == page)
			return true;
	return false;
}

static void begin_dma(struct rf_versions *g, int64_t now_ns)
{
	struct rf_versions_block *b = g->blocks[rf_versions_random(g, g->spec.nblocks)];
	uint64_t page = rf_versions_random(g, b->block.npages);
	int64_t duration_ns = 1 + (int64_t)rf_versions_random(g, (uint64_t)g->spec.dma_ns);

	if (g->ndma == RF_VERSIONS_MAX_DMA || is_busy(g, b, page))
		return;
	rf_versions_touch(b, page);
	g->dma[g->ndma++] = (struct rf_versions_dma){b, page, now_ns + duration_ns / 2, now_ns + duration_ns};
}

static void go_on(struct rf_versions *g, struct rf_versions_dma *d, int64_t now_ns)
{
	if (now_ns >= d->half_ns) {
		rf_versions_change(d->block, d->page, false);
		d->half_ns = INT64_MAX;
	}
	if (now_ns < d->end_ns)
		return;
	rf_versions_change(d->block, d->page, rf_versions_random(g, 100) < g->spec.zeroing_percent);
	*d = g->dma[--g->ndma];
}

void rf_versions_advance_dma(struct rf_versions *g, int64_t now_ns)
{
	int64_t interval_ns = g->spec.dma_per_s ? (int64_t)(UINT64_C(1000000000) / g->spec.dma_per_s) : 0;

	if (!g->spec.dma_per_s)
		return;
	for (; g->running && g->next_dma_ns <= now_ns; g->next_dma_ns += interval_ns ? interval_ns : 1)
		begin_dma(g, g->next_dma_ns);
	for (unsigned i = g->ndma; i-- > 0;)
		go_on(g, &g->dma[i], now_ns);
}

void rf_versions_end_dma(struct rf_versions *g)
{
	int64_t last_ns = g->now_ns;

	assert(!g->running);
	for (unsigned i = 0; i < g->ndma; i++)
		last_ns = g->dma[i].end_ns > last_ns ? g->dma[i].end_ns : last_ns;
	if (last_ns > g->now_ns)
		g->world->spend(g->world->ctx, last_ns - g->now_ns);
	rf_versions_advance_dma(g, last_ns); /* at the very start of a world no time has passed yet */
	assert(!g->ndma);
}
