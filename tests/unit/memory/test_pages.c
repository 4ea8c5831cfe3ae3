// SPDX-License-Identifier: LGPL-2.1-or-later
/* Page sets against the dullest possible set, an array of bools, and their promises about cost and threads. */
#include "scratch.h"

#include <pthread.h>

enum { N = 70001, STEPS = 4000 };

struct pair {
	struct rf_pages set;
	bool plain[N];
};

static uint64_t seed;

static uint64_t any(uint64_t limit)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % limit;
}

/* Ranges of all sizes, often ending where words, summary words or the set end. */
static struct rf_run any_range(void)
{
	static const uint64_t units[] = {1, 64, 4096};
	uint64_t unit = units[any(3)], first = any(N / unit + 1) * unit;
	uint64_t room = N - first, longest = any(3) ? any(200) : room;

	return (struct rf_run){first, any(8) ? any((longest < room ? longest : room) + 1) : room};
}

static void same(const struct pair *p)
{
	struct rf_run range = any_range(), run;
	uint64_t at = range.first, end = at + range.count, n = 0;

	while (rf_pages_next(&p->set, at, end, &run)) {
		assert_true(run.count > 0 && run.first >= at && run.first + run.count <= end);
		for (; at < run.first; at++)
			assert_false(p->plain[at]);
		for (; at < run.first + run.count; at++, n++)
			assert_true(p->plain[at]);
		assert_true(at == end || !p->plain[at]);
	}
	for (; at < end; at++)
		assert_false(p->plain[at]);
	assert_int_equal(rf_pages_count(&p->set, range.first, range.count), n);
}

static void summary_is_exact(const struct rf_pages *p)
{
	for (uint64_t w = 0; w < (p->npages + 63) / 64; w++)
		assert_int_equal(p->summary[w / 64] >> w % 64 & 1, p->words[w] != 0);
}

static void agrees_with_an_array(void **state)
{
	static struct pair a, b;
	struct rf_error e;

	seed = 7263;
	assert_good(rf_pages_init(&a.set, N, &e), &e);
	assert_good(rf_pages_init(&b.set, N, &e), &e);
	for (int step = 0; step < STEPS; step++) {
		struct rf_run r = any_range();
		struct pair *p = any(2) ? &a : &b;
		uint64_t what = any(6);

		if (what < 2)
			rf_pages_add(&p->set, r.first, r.count);
		else if (what < 4)
			rf_pages_remove(&p->set, r.first, r.count);
		else if (what == 4)
			rf_pages_unite(&a.set, &b.set, r.first, r.count);
		else
			rf_pages_subtract(&a.set, &b.set, r.first, r.count);
		for (uint64_t i = r.first; i < r.first + r.count; i++) {
			if (what < 4)
				p->plain[i] = what < 2;
			else
				a.plain[i] = what == 4 ? a.plain[i] || b.plain[i] : a.plain[i] && !b.plain[i];
		}
		same(&a);
		same(&b);
	}
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(rf_pages_has(&a.set, i), a.plain[i]);
	summary_is_exact(&a.set);
	summary_is_exact(&b.set);
	rf_pages_free(&a.set);
	rf_pages_free(&b.set);
}

static void a_run_is_cut_off_at_both_ends(void **state)
{
	struct rf_pages p;
	struct rf_run run;
	struct rf_error e;

	assert_good(rf_pages_init(&p, 1000, &e), &e);
	rf_pages_add(&p, 100, 700);
	assert_true(rf_pages_next(&p, 150, 300, &run));
	assert_int_equal(run.first, 150);
	assert_int_equal(run.count, 150);
	assert_false(rf_pages_next(&p, 800, 1000, &run));
	assert_false(rf_pages_next(&p, 300, 300, &run));
	assert_true(rf_pages_next(&p, 0, 1000, &run));
	assert_int_equal(run.count, 700);
	rf_pages_free(&p);
}

static void an_empty_set_and_a_set_of_nothing(void **state)
{
	struct rf_pages p = {0};
	struct rf_run run;
	struct rf_error e;

	rf_pages_free(&p);
	assert_good(rf_pages_init(&p, 0, &e), &e);
	assert_false(rf_pages_next(&p, 0, 0, &run));
	rf_pages_add(&p, 0, 0);
	assert_int_equal(rf_pages_count(&p, 0, 0), 0);
	rf_pages_free(&p);
}

static void a_sparse_set_of_a_huge_guest_costs_little(void **state)
{
	const uint64_t npages = 1ull << 32; /* 16 TiB of guest, 512 MiB of bits */
	uint64_t before = resident_anon_kib(), n = 0;
	struct rf_pages p;
	struct rf_run run;
	struct rf_error e;

	assert_good(rf_pages_init(&p, npages, &e), &e);
	for (uint64_t i = 0; i < 100; i++)
		rf_pages_add(&p, i * (npages / 100), 3);
	for (uint64_t at = 0; rf_pages_next(&p, at, npages, &run); at = run.first + run.count)
		n += run.count;
	assert_int_equal(n, 300);
	assert_int_equal(rf_pages_count(&p, 0, npages), 300);
	assert_true(resident_anon_kib() - before < 4096);
	rf_pages_free(&p);
}

struct part {
	struct rf_pages *p;
	uint64_t first;
};

static void *work_on_a_slice(void *arg)
{
	struct part *part = arg;

	for (int round = 0; round < 200; round++) {
		rf_pages_add(part->p, part->first, RF_SLICE_PAGES);
		for (uint64_t i = 0; i < RF_SLICE_PAGES; i += 2)
			rf_pages_remove(part->p, part->first + i, 1);
		rf_pages_remove(part->p, part->first, RF_SLICE_PAGES - 1);
	}
	return NULL;
}

static void slices_may_be_changed_at_once(void **state)
{
	enum { SLICES = 4 };
	pthread_t threads[SLICES];
	struct part parts[SLICES];
	struct rf_pages p;
	struct rf_error e;

	assert_good(rf_pages_init(&p, SLICES * RF_SLICE_PAGES, &e), &e);
	for (uint64_t i = 0; i < SLICES; i++) {
		parts[i] = (struct part){&p, i * RF_SLICE_PAGES};
		assert_int_equal(pthread_create(&threads[i], NULL, work_on_a_slice, &parts[i]), 0);
	}
	for (int i = 0; i < SLICES; i++)
		pthread_join(threads[i], NULL);
	assert_set(&p, "4095 8191 12287 16383");
	summary_is_exact(&p);
	rf_pages_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(agrees_with_an_array),
	    cmocka_unit_test(a_run_is_cut_off_at_both_ends),
	    cmocka_unit_test(an_empty_set_and_a_set_of_nothing),
	    cmocka_unit_test(a_sparse_set_of_a_huge_guest_costs_little),
	    cmocka_unit_test(slices_may_be_changed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
