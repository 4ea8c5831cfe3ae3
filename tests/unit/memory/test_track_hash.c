// SPDX-License-Identifier: LGPL-2.1-or-later
/* hash: differs from what was last sent, with "never sent" and "hole" both meaning zeros. */
#include "scratch.h"

#include "common/options.h"
#include "memory/tracker.h"

#include <stdio.h>

enum { PAGES = 2 * RF_SLICE_PAGES };

static struct rf_error e;

static struct rf_tracker *opened(struct scratch *s)
{
	struct rf_tracker *t;

	scratch_open(s, PAGES, NULL, NULL);
	assert_int_equal(rf_track_hash.probe(s->guest, &e), 0);
	assert_true(rf_track_hash.staged);
	assert_good(rf_track_hash.open(s->guest, &t, &e), &e);
	assert_good(t->ops->arm(t, 0, (struct rf_run){0, PAGES}, &e), &e);
	return t;
}

static void end(struct scratch *s, struct rf_tracker *t)
{
	t->ops->drop(t, 0, (struct rf_run){0, PAGES});
	t->ops->close(t);
	scratch_close(s);
}

static void collected_is(struct rf_tracker *t, uint64_t first, uint64_t count, const char *text)
{
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, (struct rf_run){first, count}, &dirty, &e), &e);
	assert_set(&dirty, text);
	rf_pages_free(&dirty);
}

/* As the engine does: the copy is what counts. */
static void send(struct scratch *s, struct rf_tracker *t, uint64_t first, uint64_t count)
{
	char *copy = aligned_alloc(RF_PAGE_BYTES, count << RF_PAGE_SHIFT);

	assert_non_null(copy);
	s->block->ops->copy(s->block, (struct rf_run){first, count}, copy);
	t->ops->sent(t, 0, (struct rf_run){first, count}, copy);
	free(copy);
}

static void what_differs_from_the_last_copy_is_reported(void **state)
{
	struct scratch s;
	struct rf_tracker *t = opened(&s);

	collected_is(t, 0, PAGES, "");
	scratch_touch(&s, 3, 1);
	scratch_touch(&s, 4, 1);
	scratch_touch(&s, 5000, 1);
	collected_is(t, 0, PAGES, "3-4 5000");
	collected_is(t, 0, RF_SLICE_PAGES, "3-4");
	send(&s, t, 3, 2);
	collected_is(t, 0, PAGES, "5000");
	send(&s, t, 5000, 1);
	collected_is(t, 0, PAGES, "");
	scratch_page(&s, 4)[4095] = 1;
	collected_is(t, 0, PAGES, "4");
	scratch_page(&s, 4)[4095] = 0; /* as it was when it was sent */
	collected_is(t, 0, PAGES, "");
	end(&s, t);
}

static void a_write_between_copy_and_collect_is_reported(void **state)
{
	static _Alignas(RF_PAGE_BYTES) char copy[RF_PAGE_BYTES];
	struct scratch s;
	struct rf_tracker *t = opened(&s);

	scratch_touch(&s, 9, 1);
	s.block->ops->copy(s.block, (struct rf_run){9, 1}, copy);
	scratch_touch(&s, 9, 2);
	t->ops->sent(t, 0, (struct rf_run){9, 1}, copy);
	collected_is(t, 0, PAGES, "9");
	end(&s, t);
}

static void zeros_and_holes_are_the_same(void **state)
{
	static const char zeros[RF_PAGE_BYTES] __attribute__((aligned(32)));
	struct scratch s;
	struct rf_tracker *t = opened(&s);

	/* The destination was emptied: a page of zeros needs no sending. */
	scratch_touch(&s, 1, 0);
	collected_is(t, 0, PAGES, "");
	for (uint64_t page = 10; page < 14; page++)
		scratch_touch(&s, page, 1);
	send(&s, t, 10, 4);
	scratch_touch(&s, 11, 0);
	scratch_punch(&s, 12, 1);
	collected_is(t, 0, PAGES, "11-12");
	t->ops->sent(t, 0, (struct rf_run){11, 1}, zeros);
	t->ops->sent(t, 0, (struct rf_run){12, 1}, zeros);
	collected_is(t, 0, PAGES, "");
	/* The last page of a slice, and all of what was sent punched away. */
	scratch_punch(&s, 0, PAGES);
	collected_is(t, 0, PAGES, "10 13");
	end(&s, t);
}

static void a_sparse_guest_costs_nothing(void **state)
{
	const struct rf_run all = {0, 20ull << 18};
	struct rf_tracker *t;
	struct rf_pages dirty;
	struct scratch s;
	uint64_t allocated, before;

	scratch_open(&s, all.count, NULL, NULL);
	scratch_touch(&s, all.count - 1, 1);
	allocated = scratch_allocated(&s);
	before = resident_anon_kib();
	assert_good(rf_track_hash.open(s.guest, &t, &e), &e);
	assert_good(rf_pages_init(&dirty, all.count, &e), &e);
	assert_good(t->ops->collect(t, 0, all, &dirty, &e), &e);
	assert_int_equal(rf_pages_count(&dirty, 0, all.count), 1);
	assert_true(rf_pages_has(&dirty, all.count - 1));
	assert_int_equal(scratch_allocated(&s), allocated);
	assert_true(resident_anon_kib() < before + 2048);
	rf_pages_free(&dirty);
	t->ops->close(t);
	scratch_close(&s);
}

static int may_not_trace(void *ctx, int *userfaultfd, int *pagemap, struct rf_error *error)
{
	return rf_fail(error, RF_E_REFUSED, "no right to trace it");
}

static void note(void *arg, enum rf_log_level level, const char *sentence)
{
	snprintf(arg, 200, "%s", sentence);
}

static void auto_falls_back_to_it_and_says_why(void **state)
{
	static const struct rf_lifecycle_ops ops = {.open_tracking = may_not_trace};
	char said[200] = "";
	struct rf_log log = {note, said};
	struct scratch s;
	struct rf_tracker *t;

	scratch_open(&s, PAGES, &ops, NULL);
	s.guest->log = &log;
	assert_int_equal(rf_tracker_open(s.guest, RF_TRACKER_WP_ASYNC, &rf_track_wp, &t, &e), -1);
	assert_string_equal(said, "");
	assert_good(rf_tracker_open(s.guest, RF_TRACKER_AUTO, &rf_track_wp, &t, &e), &e);
	assert_ptr_equal(t->ops, &rf_track_hash);
	assert_string_equal(said,
			    "tracker wp-async cannot serve here: no right to trace it; hash reads all of the memory in "
			    "every round instead");
	end(&s, t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_differs_from_the_last_copy_is_reported),
	    cmocka_unit_test(a_write_between_copy_and_collect_is_reported),
	    cmocka_unit_test(zeros_and_holes_are_the_same),
	    cmocka_unit_test(a_sparse_guest_costs_nothing),
	    cmocka_unit_test(auto_falls_back_to_it_and_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
