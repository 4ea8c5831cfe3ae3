// SPDX-License-Identifier: LGPL-2.1-or-later
/* The oracle: threads storm over a guest's memory while copiers collect and copy, slice by slice, as the engine does.
 * Then the storm ends, one last pass is made, and every byte must be there. That a lost page would be found is
 * tried, too, with a tracker that forgets some.
 *
 * Memory of every kind: pages of 4 KiB, of hugetlb and transparent huge ones (tests/support/with-huge-pages). The argument sets how
 * many seconds each storm lasts; the default is short. */
#include "scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGES = 64 << 8, SLICES = PAGES / RF_SLICE_PAGES, WRITERS = 2, COPIERS = 2 };

struct storm {
	struct scratch s;
	const struct rf_tracker_ops *ops;
	struct rf_tracker *tracker;
	char *copy; /* the destination */
	struct rf_pages dirty;
	pthread_rwlock_t still; /* soft-dirty: held for writing while nobody may write */
	bool holds;
	atomic_uint next_slice;
	atomic_bool over;
	atomic_ullong writes, passes, copied;
	atomic_ullong marks[PAGES / 64]; /* the callback tracker's, set after each write */
	uint64_t forget;                 /* a page whose marks are lost; PAGES: none */
};

static void mark(struct storm *m, uint64_t page)
{
	if (page != m->forget)
		atomic_fetch_or(&m->marks[page / 64], 1ull << page % 64);
}

static int give_marks(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap, struct rf_error *e)
{
	struct storm *m = ctx;

	for (uint64_t w = 0; w < count / 64; w++)
		bitmap[w] |= atomic_exchange(&m->marks[first / 64 + w], 0);
	return 0;
}

static int hold(void *ctx, bool still, struct rf_error *e)
{
	struct storm *m = ctx;

	if (still)
		pthread_rwlock_wrlock(&m->still);
	else
		pthread_rwlock_unlock(&m->still);
	return 0;
}

static const struct rf_lifecycle_ops storm_ops = {.collect = give_marks, .hold = hold};
static double seconds = 1.0;

struct writer {
	struct storm *m;
	uint64_t seed;
};

static uint64_t any(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % limit;
}

/* Single bytes, whole pages, pages that become zero, and a few pages that are written all the time. */
static void *writer(void *arg)
{
	struct writer *w = arg;
	struct storm *m = w->m;
	unsigned long long writes = 0;

	while (!atomic_load_explicit(&m->over, memory_order_relaxed)) {
		uint64_t page = any(&w->seed, 4) ? any(&w->seed, PAGES) : any(&w->seed, 16) * 1000;
		uint64_t kind = any(&w->seed, 16);
		char *p = scratch_page(&m->s, page);

		if (m->holds)
			pthread_rwlock_rdlock(&m->still);
		if (kind == 0)
			memset(p, 0, RF_PAGE_BYTES);
		else if (kind == 1)
			memset(p, (int)any(&w->seed, 256), RF_PAGE_BYTES);
		else
			*(volatile char *)(p + any(&w->seed, RF_PAGE_BYTES)) = (char)any(&w->seed, 256);
		if (m->holds)
			pthread_rwlock_unlock(&m->still);
		mark(m, page);
		writes++;
	}
	atomic_fetch_add(&m->writes, writes);
	return NULL;
}

static void copy_run(struct storm *m, struct rf_run run)
{
	char *to = m->copy + (run.first << RF_PAGE_SHIFT);

	m->s.block->ops->copy(m->s.block, run, to);
	if (m->ops->sent)
		m->ops->sent(m->tracker, 0, run, to);
	atomic_fetch_add(&m->copied, run.count);
}

static void copy_slice(struct storm *m, unsigned slice)
{
	uint64_t first = (uint64_t)slice * RF_SLICE_PAGES, end = first + RF_SLICE_PAGES;
	struct rf_error e = {0};
	struct rf_run run;

	if (m->ops->collect(m->tracker, 0, (struct rf_run){first, RF_SLICE_PAGES}, &m->dirty, &e)) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	for (uint64_t at = first; rf_pages_next(&m->dirty, at, end, &run); at = run.first + run.count)
		copy_run(m, run);
	rf_pages_remove(&m->dirty, first, RF_SLICE_PAGES);
}

static void *copier(void *arg)
{
	struct storm *m = arg;
	unsigned slice;

	while ((slice = atomic_fetch_add(&m->next_slice, 1)) < SLICES)
		copy_slice(m, slice);
	return NULL;
}

/* One pass over all slices, by several threads. */
static void pass(struct storm *m)
{
	pthread_t threads[COPIERS];

	atomic_store(&m->next_slice, 0);
	for (int i = 0; i < COPIERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, copier, m), 0);
	for (int i = 0; i < COPIERS; i++)
		pthread_join(threads[i], NULL);
	atomic_fetch_add(&m->passes, 1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void arm_and_copy_all(struct storm *m)
{
	struct rf_pages data;
	struct rf_run run;
	struct rf_error e;

	for (unsigned i = 0; i < SLICES; i++)
		assert_good(m->ops->arm(m->tracker, 0, (struct rf_run){i * RF_SLICE_PAGES, RF_SLICE_PAGES}, &e), &e);
	assert_good(rf_pages_init(&data, PAGES, &e), &e);
	assert_good(m->s.block->ops->extents(m->s.block, (struct rf_run){0, PAGES}, &data, &e), &e);
	for (uint64_t at = 0; rf_pages_next(&data, at, PAGES, &run); at = run.first + run.count)
		copy_run(m, run);
	rf_pages_free(&data);
}

static void open_storm(struct storm *m, const struct rf_tracker_ops *ops)
{
	pthread_rwlockattr_t fair;
	struct rf_error e;

	pthread_rwlockattr_init(&fair);
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&m->still, &fair);
	m->ops = ops;
	m->holds = ops == &rf_track_soft_dirty;
	m->copy = mmap(NULL, PAGES << RF_PAGE_SHIFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m->copy, MAP_FAILED);
	assert_good(rf_pages_init(&m->dirty, PAGES, &e), &e);
	/* A third of the memory holds data, the rest is holes that fill as the storm goes on. */
	memset(m->s.memory, 0x33, (PAGES / 3) << RF_PAGE_SHIFT);
	assert_good(ops->open(m->s.guest, &m->tracker, &e), &e);
}

static void close_storm(struct storm *m)
{
	for (unsigned i = 0; i < SLICES; i++)
		m->ops->drop(m->tracker, 0, (struct rf_run){i * RF_SLICE_PAGES, RF_SLICE_PAGES});
	m->ops->close(m->tracker);
	rf_pages_free(&m->dirty);
	munmap(m->copy, PAGES << RF_PAGE_SHIFT);
	pthread_rwlock_destroy(&m->still);
	scratch_close(&m->s);
}

enum kind { ORDINARY, HUGETLB, TRANSPARENT };

static bool open_memory(struct storm *m, enum kind kind)
{
	if (kind == ORDINARY)
		scratch_open(&m->s, PAGES, &storm_ops, m);
	return kind == ORDINARY || (kind == HUGETLB ? scratch_open_huge : scratch_open_transparent)(&m->s, PAGES / 512);
}

/* How many pages differ at the end. */
static unsigned rage(const struct rf_tracker_ops *ops, enum kind kind, uint64_t forget)
{
	struct storm *m = calloc(1, sizeof(*m));
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	unsigned wrong = 0;

	assert_non_null(m);
	m->forget = forget;
	if (!open_memory(m, kind)) {
		free(m);
		skip();
	}
	open_storm(m, ops);

	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){m, 7263 + i};
		assert_int_equal(pthread_create(&threads[i], NULL, writer, &writers[i]), 0);
	}
	arm_and_copy_all(m);
	for (double end = now() + seconds; now() < end;)
		pass(m);
	atomic_store(&m->over, true);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	/* Its last write must differ from what was copied first: the storm may leave both all zero. */
	if (forget < PAGES)
		*scratch_page(&m->s, forget) = (char)(m->copy[forget << RF_PAGE_SHIFT] + 1);
	pass(m);

	for (uint64_t page = 0; page < PAGES; page++)
		if (memcmp(scratch_page(&m->s, page), m->copy + (page << RF_PAGE_SHIFT), RF_PAGE_BYTES))
			wrong++;
	print_message("%s: %llu writes, %llu passes, %llu pages copied, %u differ\n", ops->name,
		      (unsigned long long)m->writes, (unsigned long long)m->passes, (unsigned long long)m->copied,
		      wrong);
	assert_true(m->writes > 1000 && m->passes > 1);
	close_storm(m);
	free(m);
	return wrong;
}

static void need(const struct rf_tracker_ops *ops)
{
	struct rf_guest nobody = {0};
	struct rf_error e;

	if (!ops->probe(&nobody, &e))
		return;
	print_message("skipped: %s\n", e.text);
	skip();
}

static void wp_async_loses_nothing(void **state)
{
	need(&rf_track_wp);
	assert_int_equal(rage(&rf_track_wp, ORDINARY, PAGES), 0);
}

static void nor_in_huge_pages(void **state)
{
	need(&rf_track_wp);
	assert_int_equal(rage(&rf_track_wp_huge, HUGETLB, PAGES), 0);
}

static void nor_in_transparent_huge_pages(void **state)
{
	need(&rf_track_wp);
	assert_int_equal(rage(&rf_track_wp_huge, TRANSPARENT, PAGES), 0);
}

static void soft_dirty_loses_nothing(void **state)
{
	need(&rf_track_soft_dirty);
	assert_int_equal(rage(&rf_track_soft_dirty, ORDINARY, PAGES), 0);
}

static void hash_loses_nothing(void **state)
{
	assert_int_equal(rage(&rf_track_hash, ORDINARY, PAGES), 0);
}

static void callback_loses_nothing(void **state)
{
	assert_int_equal(rage(&rf_track_callback, ORDINARY, PAGES), 0);
}

static void a_forgotten_page_would_be_found(void **state)
{
	seconds = 1.0;
	assert_int_equal(rage(&rf_track_callback, ORDINARY, 3000), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wp_async_loses_nothing),
	    cmocka_unit_test(nor_in_huge_pages),
	    cmocka_unit_test(nor_in_transparent_huge_pages),
	    cmocka_unit_test(soft_dirty_loses_nothing),
	    cmocka_unit_test(hash_loses_nothing),
	    cmocka_unit_test(callback_loses_nothing),
	    cmocka_unit_test(a_forgotten_page_would_be_found),
	};

	if (argc > 1)
		seconds = atof(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
