// SPDX-License-Identifier: LGPL-2.1-or-later
/* Page sets. Words and summary lie in one anonymous mapping: the kernel gives memory as bits are set, so the sets of a
 * 1 TiB guest that dirties little cost little. The invariant that everything here keeps: a summary bit is set exactly
 * when its word is not 0. Then whoever walks looks at one summary word per 4096 pages and at no empty word. */
#include "memory/pages.h"

#include "common/checked.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

enum { BITS = 64 };

static uint64_t words_of(uint64_t npages)
{
	return rf_div_round_up(npages, BITS);
}

static uint64_t mapping_bytes(uint64_t npages)
{
	return (words_of(npages) + words_of(words_of(npages))) * sizeof(uint64_t);
}

int rf_pages_init(struct rf_pages *p, uint64_t npages, struct rf_error *e)
{
	assert(npages <= UINT64_MAX >> RF_PAGE_SHIFT);
	*p = (struct rf_pages){.npages = npages};
	if (!npages)
		return 0;
	void *memory = mmap(NULL, mapping_bytes(npages), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return rf_fail_errno(e, RF_E_FAILED, errno, "no memory for a set of %llu pages",
				     (unsigned long long)npages);
	/* Huge pages here would turn one bit into 2 MiB. */
	madvise(memory, mapping_bytes(npages), MADV_NOHUGEPAGE);
	p->words = memory;
	p->summary = p->words + words_of(npages);
	return 0;
}

void rf_pages_free(struct rf_pages *p)
{
	if (p->words)
		munmap(p->words, mapping_bytes(p->npages));
	*p = (struct rf_pages){0};
}

/* The bits of word w that lie in [first, end); the two overlap. */
static uint64_t mask_of(uint64_t w, uint64_t first, uint64_t end)
{
	uint64_t mask = UINT64_MAX;

	if (first > w * BITS)
		mask &= UINT64_MAX << (first - w * BITS);
	if (end < (w + 1) * BITS)
		mask &= UINT64_MAX >> ((w + 1) * BITS - end);
	return mask;
}

static void put_word(struct rf_pages *p, uint64_t w, uint64_t value)
{
	uint64_t bit = 1ull << w % BITS;

	p->words[w] = value;
	if (value)
		p->summary[w / BITS] |= bit;
	else
		p->summary[w / BITS] &= ~bit;
}

void rf_pages_add(struct rf_pages *p, uint64_t first, uint64_t count)
{
	uint64_t end = first + count;

	assert(rf_range_within(first, count, p->npages));
	for (uint64_t w = first / BITS; w * BITS < end; w++)
		put_word(p, w, p->words[w] | mask_of(w, first, end));
}

/* The first word at or after `w`, before `limit`, that is not empty; `limit` if there is none. */
static uint64_t next_word(const struct rf_pages *p, uint64_t w, uint64_t limit)
{
	while (w < limit) {
		uint64_t bits = p->summary[w / BITS] >> w % BITS;

		if (bits)
			return rf_min_u64(w + (uint64_t)__builtin_ctzll(bits), limit);
		w = (w / BITS + 1) * BITS;
	}
	return limit;
}

void rf_pages_remove(struct rf_pages *p, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, limit = words_of(end);

	assert(rf_range_within(first, count, p->npages));
	if (!count)
		return;
	for (uint64_t w = next_word(p, first / BITS, limit); w < limit; w = next_word(p, w + 1, limit))
		put_word(p, w, p->words[w] & ~mask_of(w, first, end));
}

bool rf_pages_has(const struct rf_pages *p, uint64_t page)
{
	assert(page < p->npages);
	return p->words[page / BITS] >> page % BITS & 1;
}

/* Where the run that contains `page` ends, at most `end`. */
static uint64_t run_end(const struct rf_pages *p, uint64_t page, uint64_t end)
{
	uint64_t w = page / BITS;
	uint64_t clear = ~p->words[w] & UINT64_MAX << page % BITS;

	while (!clear && ++w * BITS < end)
		clear = ~p->words[w];
	return clear ? rf_min_u64(w * BITS + (uint64_t)__builtin_ctzll(clear), end) : end;
}

bool rf_pages_next(const struct rf_pages *p, uint64_t from, uint64_t end, struct rf_run *run)
{
	assert(end <= p->npages);
	if (from >= end)
		return false;
	uint64_t limit = words_of(end), w = next_word(p, from / BITS, limit);

	while (w < limit) {
		uint64_t bits = p->words[w] & mask_of(w, from, end);

		if (bits) {
			run->first = w * BITS + (uint64_t)__builtin_ctzll(bits);
			run->count = run_end(p, run->first, end) - run->first;
			return true;
		}
		w = next_word(p, w + 1, limit);
	}
	return false;
}

uint64_t rf_pages_count(const struct rf_pages *p, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, limit = words_of(end), n = 0;

	assert(rf_range_within(first, count, p->npages));
	if (!count)
		return 0;
	for (uint64_t w = next_word(p, first / BITS, limit); w < limit; w = next_word(p, w + 1, limit))
		n += (uint64_t)__builtin_popcountll(p->words[w] & mask_of(w, first, end));
	return n;
}

void rf_pages_unite(struct rf_pages *a, const struct rf_pages *b, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, limit = words_of(end);

	assert(a->npages == b->npages && rf_range_within(first, count, a->npages));
	if (!count)
		return;
	for (uint64_t w = next_word(b, first / BITS, limit); w < limit; w = next_word(b, w + 1, limit))
		put_word(a, w, a->words[w] | (b->words[w] & mask_of(w, first, end)));
}

void rf_pages_subtract(struct rf_pages *a, const struct rf_pages *b, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, limit = words_of(end);

	assert(a->npages == b->npages && rf_range_within(first, count, a->npages));
	if (!count)
		return;
	for (uint64_t w = next_word(b, first / BITS, limit); w < limit; w = next_word(b, w + 1, limit))
		put_word(a, w, a->words[w] & ~(b->words[w] & mask_of(w, first, end)));
}
