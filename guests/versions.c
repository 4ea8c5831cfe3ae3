// SPDX-License-Identifier: LGPL-2.1-or-later
/* The guest's making, and what it writes as time goes on. All is a function of its seed and of the times at which it is
 * told to advance, start and stop. */
#include "guests/versions.h"

#include "common/checked.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Nobody may follow these addresses: a read of them is a bug and ends the test. */
static void *made_up_address(enum rf_role role, unsigned block)
{
	return (void *)(uintptr_t)(((uint64_t)(role == RF_ROLE_SOURCE ? 1 : 2) << 44) + ((uint64_t)block << 41));
}

void rf_versions_spec_init(struct rf_versions_spec *s, enum rf_role role, uint64_t seed)
{
	*s = (struct rf_versions_spec){
	    .role = role,
	    .seed = seed,
	    .nblocks = 1,
	    .block_pages = {16 << 8}, /* 16 MiB */
	    .data_percent = role == RF_ROLE_SOURCE ? 75 : 10,
	    .zero_percent = 10,
	    .early_bytes = 200000,
	    .state_bytes = 300000,
	    .save_writes = 3,
	    .cost_ns = {[RF_VERSIONS_PREPARE] = 1000000,
			[RF_VERSIONS_PAUSE] = 5000000,
			[RF_VERSIONS_SAVE] = 6000000,
			[RF_VERSIONS_LOAD_EARLY] = 1000000,
			[RF_VERSIONS_LOAD] = 8000000,
			[RF_VERSIONS_RESUME] = 1000000,
			[RF_VERSIONS_UNDO] = 1000000,
			[RF_VERSIONS_DISCARD] = 2000000,
			[RF_VERSIONS_DRAIN] = 1000000},
	    .facts = "machine=versions-1",
	};
}

uint64_t rf_versions_random(struct rf_versions *g, uint64_t limit)
{
	uint64_t z = (g->random += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % limit;
}

void rf_versions_violate(const struct rf_versions *g, const char *format, ...)
{
	char sentence[300];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	g->world->violate(g->world->ctx, sentence);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

void rf_versions_change(struct rf_versions_block *b, uint64_t page, bool zero)
{
	struct rf_versions *g = b->guest;

	/* the top bit tells what was left at a destination from what a source wrote */
	b->version[page] = zero ? 0 : (uint32_t)(++g->writes) | (g->spec.role == RF_ROLE_DESTINATION ? 1u << 31 : 0);
	assert(g->writes < 1u << 31);
}

void rf_versions_touch(struct rf_versions_block *b, uint64_t page)
{
	rf_pages_add(&b->present, page, 1);
	if (rf_pages_has(&b->armed, page))
		rf_pages_add(&b->dirty, page, 1);
}

void rf_versions_write(struct rf_versions_block *b, uint64_t page, bool zero)
{
	rf_versions_change(b, page, zero);
	rf_versions_touch(b, page);
}

/* Data comes in runs, as in a real guest. */
static void fill(struct rf_versions_block *b)
{
	struct rf_versions *g = b->guest;
	const struct rf_versions_spec *s = &g->spec;
	uint64_t page, end;
	bool data;

	for (page = 0; page < b->block.npages; page = end) {
		end = rf_min_u64(page + 1 + rf_versions_random(g, 100), b->block.npages);
		data = rf_versions_random(g, 100) < s->data_percent;
		for (; data && page < end; page++)
			rf_versions_write(b, page, rf_versions_random(g, 100) < s->zero_percent);
	}
}

static uint32_t *map_versions(uint64_t npages)
{
	void *p = mmap(NULL, npages * sizeof(uint32_t), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int open_block(struct rf_versions *g, unsigned index, struct rf_error *e)
{
	struct rf_versions_block *b = calloc(1, sizeof(*b));
	uint64_t npages = g->spec.block_pages[index];

	if (!b)
		return rf_fail(e, RF_E_FAILED, "no memory for a block of versions");
	b->block.ops = &rf_versions_block_ops;
	snprintf(b->block.name, sizeof(b->block.name), "versions%u", index);
	b->block.npages = npages;
	b->block.page_bytes = RF_PAGE_BYTES;
	b->block.memory = made_up_address(g->spec.role, index);
	b->block.guest_address = (uint64_t)(uintptr_t)b->block.memory;
	b->block.fd = -1;
	b->guest = g;
	b->version = map_versions(npages);
	b->at_pause = map_versions(npages);
	if (!b->version || !b->at_pause || rf_pages_init(&b->present, npages, e) ||
	    rf_pages_init(&b->armed, npages, e) || rf_pages_init(&b->dirty, npages, e)) {
		b->block.ops->close(&b->block);
		return rf_fail(e, RF_E_FAILED, "no memory for %llu versions", (unsigned long long)npages);
	}
	g->blocks[index] = b;
	fill(b);
	return rf_guest_add(g->guest, &b->block, e);
}

int rf_versions_open(const struct rf_versions_spec *spec, struct rf_versions_world *world, struct rf_versions **out,
		     struct rf_error *e)
{
	struct rf_versions *g = calloc(1, sizeof(*g));
	unsigned i;

	assert(spec->nblocks >= 1 && spec->nblocks <= RF_VERSIONS_MAX_BLOCKS);
	if (!g)
		return rf_fail(e, RF_E_FAILED, "no memory for a guest");
	g->spec = *spec;
	g->world = world;
	g->random = spec->seed;
	g->guest = rf_guest_create(&rf_versions_lifecycle, g);
	if (!g->guest) {
		free(g);
		return rf_fail(e, RF_E_FAILED, "no memory for a guest");
	}
	g->guest->own_tracker = &rf_versions_tracker;
	g->guest->may_discard = !spec->never_discards;
	g->guest->needs_drain = spec->dma_per_s && !spec->hides_dma;
	snprintf(g->guest->discarder, sizeof(g->guest->discarder), "%s", spec->discarder ? spec->discarder : "");
	for (i = 0; i < spec->nblocks; i++) {
		if (open_block(g, i, e)) {
			rf_versions_close(g);
			return -1;
		}
	}
	if (spec->role == RF_ROLE_SOURCE && !spec->paused)
		rf_versions_start(g);
	*out = g;
	return 0;
}

void rf_versions_close(struct rf_versions *g)
{
	if (!g)
		return;
	rf_guest_destroy(g->guest);
	free(g->state);
	free(g);
}

static uint64_t count_pages(const struct rf_versions *g, bool data_only)
{
	uint64_t n = 0, page;
	unsigned i;

	for (i = 0; i < g->spec.nblocks; i++) {
		if (!data_only)
			n += rf_pages_count(&g->blocks[i]->present, 0, g->blocks[i]->block.npages);
		for (page = 0; data_only && page < g->blocks[i]->block.npages; page++)
			n += g->blocks[i]->version[page] != 0;
	}
	return n;
}

uint64_t rf_versions_present(const struct rf_versions *g)
{
	return count_pages(g, false);
}

uint64_t rf_versions_data(const struct rf_versions *g)
{
	return count_pages(g, true);
}

/* ---- what it writes -------------------------------------------------------------------------------------------------- */

static void write_something(struct rf_versions *g)
{
	struct rf_versions_block *b = g->blocks[rf_versions_random(g, g->spec.nblocks)];
	uint64_t pages = g->spec.working_pages ? rf_min_u64(g->spec.working_pages, b->block.npages) : b->block.npages;
	uint64_t page = g->spec.load == RF_VERSIONS_SWEEP ? g->sweep++ % pages : rf_versions_random(g, pages);

	rf_versions_write(b, page, rf_versions_random(g, 100) < g->spec.zeroing_percent);
}

void rf_versions_advance(struct rf_versions *g, int64_t now_ns)
{
	int64_t interval_ns;

	if (g->running && g->spec.load != RF_VERSIONS_IDLE && g->spec.writes_per_s) {
		interval_ns = (int64_t)(UINT64_C(1000000000) / g->spec.writes_per_s);
		for (; g->next_write_ns <= now_ns; g->next_write_ns += interval_ns ? interval_ns : 1)
			write_something(g);
	}
	rf_versions_advance_dma(g, now_ns);
	g->now_ns = now_ns;
}

void rf_versions_start(struct rf_versions *g)
{
	if (g->running)
		return;
	g->running = true;
	g->started_ns = g->next_write_ns = g->next_dma_ns = g->now_ns;
	if (++g->world->runners > 1)
		rf_versions_violate(g, "two guests run at once");
	if (g->successes[RF_VERSIONS_DISCARD] || g->successes[RF_VERSIONS_FINISH])
		rf_versions_violate(g, "a guest runs that was given up for ever");
}

void rf_versions_stop(struct rf_versions *g)
{
	if (!g->running)
		return;
	g->running = false;
	g->paused_ns = g->now_ns;
	g->world->runners--;
}

uint64_t rf_versions_differences(const struct rf_versions *g, char *first, size_t length)
{
	const struct rf_versions_block *mine, *theirs;
	uint64_t page, n = 0;
	unsigned i;

	for (i = 0; i < g->spec.nblocks; i++) {
		mine = g->blocks[i];
		theirs = g->origin->blocks[i];
		for (page = 0; page < mine->block.npages; page++) {
			if (mine->version[page] == theirs->at_pause[page])
				continue;
			if (!n++ && first)
				snprintf(first, length, "page %llu of block %u is of version %#x and should be of %#x",
					 (unsigned long long)page, i, mine->version[page], theirs->at_pause[page]);
		}
	}
	return n;
}
