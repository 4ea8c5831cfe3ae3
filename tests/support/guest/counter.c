// SPDX-License-Identifier: LGPL-2.1-or-later
/* The program that runs inside the small Linux guest: it makes a lost or stale page visible from outside.
 *
 * It prints "count N" on the console at a fixed rate. N lives in guest memory only, so a guest that goes on elsewhere with
 * the right memory prints the next number, and one that lost a page prints something else.
 *
 * It fills RF_FILL_MIB of memory with words that a function of their place gives, so that any of them can be checked at any
 * time, then writes RF_WRITES pages a second at random places of its first RF_SET_MIB: word 0 of a page counts the writes
 * to it, and a second array counts the same. A sweep compares all of it for ever, RF_SWEEP pages a second. A difference is
 * printed as "broken ..." and ends the counting. Everything is given on the kernel's command line, which hands unknown
 * NAME=value words to init as its environment. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES      4096u
#define WORDS           (PAGE_BYTES / sizeof(uint64_t))
#define PAGES_PER_MIB   256u
#define TICK_NS         5000000
#define MAX_CATCH_UP_NS 100000000 /* after a pause the work that was missed is not done in one burst */

struct settings {
	uint64_t fill_pages, set_pages, writes_per_second, sweep_per_second, counts_per_second;
};

struct state {
	struct settings want;
	uint64_t *memory;     /* fill_pages of WORDS each */
	uint64_t *generation; /* what word 0 of each page must be */
	uint64_t pages;
	uint64_t random;
	uint64_t sweep, sweeps;
	uint64_t count;
};

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Cheap, because an emulated CPU fills a gigabyte with it, and never 0, so that no page of it is a zero page. */
static uint64_t word_at(uint64_t place)
{
	uint64_t x = (place + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (x ^ (x >> 29)) | 1;
}

static uint64_t next_random(struct state *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static void broken(uint64_t page, uint64_t word, uint64_t is, uint64_t expected)
{
	printf("broken page %lu word %lu: is %lx, not %lx\n", page, word, is, expected);
	for (;;)
		pause();
}

static void check_page(struct state *s, uint64_t page, uint64_t word)
{
	const uint64_t *words = s->memory + page * WORDS;

	if (words[0] != s->generation[page])
		broken(page, 0, words[0], s->generation[page]);
	if (word && words[word] != word_at(page * WORDS + word))
		broken(page, word, words[word], word_at(page * WORDS + word));
}

static void *get_memory(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		printf("broken: no memory for %lu bytes: errno %d\n", bytes, errno);
		for (;;)
			pause();
	}
	return p;
}

static void fill(struct state *s)
{
	if (!s->pages)
		return;
	s->memory = get_memory(s->pages * PAGE_BYTES);
	s->generation = get_memory(s->pages * sizeof(*s->generation));
	for (uint64_t page = 0; page < s->pages; page++) {
		uint64_t *words = s->memory + page * WORDS;

		for (uint64_t word = 1; word < WORDS; word++)
			words[word] = word_at(page * WORDS + word);
		words[0] = s->generation[page] = 1;
	}
}

static void write_pages(struct state *s, uint64_t count)
{
	while (s->want.set_pages && count--) {
		uint64_t page = next_random(s) % s->want.set_pages;

		check_page(s, page, 1 + page % (WORDS - 1));
		s->generation[page]++;
		s->memory[page * WORDS]++;
	}
}

static void sweep_pages(struct state *s, uint64_t count)
{
	while (s->pages && count--) {
		check_page(s, s->sweep, (s->sweep + s->sweeps) % WORDS);
		if (++s->sweep == s->pages) {
			s->sweep = 0;
			s->sweeps++;
		}
	}
}

/* How much of `per_second` is due after `elapsed_ns`; what is less than one stays in `*carry`. */
static uint64_t due(uint64_t per_second, int64_t elapsed_ns, uint64_t *carry)
{
	uint64_t total = per_second * (uint64_t)elapsed_ns + *carry;

	*carry = total % 1000000000;
	return total / 1000000000;
}

static void run(struct state *s)
{
	uint64_t write_carry = 0, sweep_carry = 0, count_carry = 0;
	int64_t before = now_ns();

	for (;;) {
		struct timespec tick = {.tv_nsec = TICK_NS};
		int64_t now, elapsed;

		nanosleep(&tick, NULL);
		now = now_ns();
		elapsed = now - before > MAX_CATCH_UP_NS ? MAX_CATCH_UP_NS : now - before;
		before = now;
		write_pages(s, due(s->want.writes_per_second, elapsed, &write_carry));
		sweep_pages(s, due(s->want.sweep_per_second, elapsed, &sweep_carry));
		for (uint64_t n = due(s->want.counts_per_second, elapsed, &count_carry); n; n--)
			printf("count %lu\n", ++s->count);
	}
}

int main(void)
{
	static struct state s = {.random = 88172645463325252};

	setvbuf(stdout, NULL, _IOLBF, 0);
	s.want.fill_pages = setting("RF_FILL_MIB", 0) * PAGES_PER_MIB;
	s.want.set_pages = setting("RF_SET_MIB", s.want.fill_pages / PAGES_PER_MIB) * PAGES_PER_MIB;
	s.want.writes_per_second = setting("RF_WRITES", 0);
	s.want.sweep_per_second = setting("RF_SWEEP", 8192);
	s.want.counts_per_second = setting("RF_COUNTS", 10);
	s.pages = s.want.fill_pages > s.want.set_pages ? s.want.fill_pages : s.want.set_pages;
	fill(&s);
	printf("ready\n");
	run(&s);
}
