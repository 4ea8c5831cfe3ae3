// SPDX-License-Identifier: LGPL-2.1-or-later
/* wp-async in huge pages: what was written in them is found in pieces of 4 KiB, by comparing with what was sent. Under
 * tests/support/with-huge-pages. */
#include "memory/huge.h"
#include "scratch.h"

#include "common/options.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE = 6, PAGES = HUGE * RF_HUGE_PAGES };

static struct rf_error e;
static const struct rf_run all = {0, PAGES};

struct mover { /* plays the engine */
	struct scratch s;
	struct rf_tracker *t;
	char *copies;
};

static void need_the_kernel(void)
{
	struct rf_guest nobody = {0};

	if (rf_track_wp.probe(&nobody, &e)) {
		print_message("skipped: %s\n", e.text);
		skip();
	}
}

static void send_run(struct mover *m, struct rf_run run)
{
	m->s.block->ops->copy(m->s.block, run, m->copies);
	m->t->ops->sent(m->t, 0, run, m->copies);
}

/* Full of data, which was sent. */
static void begin(struct mover *m, bool (*open_scratch)(struct scratch *, uint64_t))
{
	const struct rf_tracker_ops *ops;

	need_the_kernel();
	if (!open_scratch(&m->s, HUGE))
		skip();
	memset(m->s.memory, 1, PAGES << RF_PAGE_SHIFT);
	m->copies = aligned_alloc(RF_PAGE_BYTES, PAGES << RF_PAGE_SHIFT);
	assert_non_null(m->copies);
	assert_good(rf_tracker_choose(m->s.guest, RF_TRACKER_AUTO, &ops, &e), &e);
	assert_ptr_equal(ops, &rf_track_wp_huge);
	assert_good(ops->open(m->s.guest, &m->t, &e), &e);
	assert_good(ops->arm(m->t, 0, all, &e), &e);
	send_run(m, all);
}

static void end(struct mover *m)
{
	m->t->ops->drop(m->t, 0, all);
	m->t->ops->close(m->t);
	scratch_close(&m->s);
	free(m->copies);
}

/* Reports that, and sends it. */
static void collected_is(struct mover *m, const char *text)
{
	struct rf_pages dirty;
	struct rf_run run;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(m->t->ops->collect(m->t, 0, all, &dirty, &e), &e);
	assert_set(&dirty, text);
	for (uint64_t at = 0; rf_pages_next(&dirty, at, PAGES, &run); at = run.first + run.count)
		send_run(m, run);
	rf_pages_free(&dirty);
}

/* The kernel told of whole huge pages: otherwise there would be nothing to compare, and the test proves nothing. */
static void kernel_tells_of(struct mover *m, uint64_t pages)
{
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(rf_track_wp.collect(m->t, 0, all, &dirty, &e), &e);
	assert_int_equal(rf_pages_count(&dirty, 0, PAGES), pages);
	rf_pages_free(&dirty);
}

static void one_byte_is_one_page(struct mover *m)
{
	collected_is(m, "");
	scratch_touch(&m->s, 100, 2);
	scratch_touch(&m->s, 2 * RF_HUGE_PAGES + 511, 2);
	scratch_touch(&m->s, 3 * RF_HUGE_PAGES, 2);
	collected_is(m, "100 1535-1536");
	collected_is(m, "");
	scratch_touch(&m->s, 100, 3);
	kernel_tells_of(m, RF_HUGE_PAGES);
	end(m);
}

static void one_byte_in_hugetlb(void **state)
{
	struct mover m;

	begin(&m, scratch_open_huge);
	one_byte_is_one_page(&m);
}

static void one_byte_in_a_transparent_huge_page(void **state)
{
	struct mover m;

	begin(&m, scratch_open_transparent);
	one_byte_is_one_page(&m);
}

/* 1 is sent while the page holds 1, and afterwards it is as it was before: no hash of the guest's own page taken at a collect
 * would notice that the other side holds something else. */
static void there_and_back_again(void **state)
{
	struct mover m;
	struct rf_pages dirty;

	begin(&m, scratch_open_huge);
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	scratch_touch(&m.s, 7, 5);
	assert_good(m.t->ops->collect(m.t, 0, all, &dirty, &e), &e);
	scratch_touch(&m.s, 7, 6);
	send_run(&m, (struct rf_run){7, 1});
	scratch_touch(&m.s, 7, 5);
	collected_is(&m, "7");
	rf_pages_free(&dirty);
	end(&m);
}

static void written_with_what_was_there(void **state)
{
	struct mover m;

	begin(&m, scratch_open_huge);
	scratch_touch(&m.s, 9, 1);
	kernel_tells_of(&m, RF_HUGE_PAGES);
	scratch_touch(&m.s, 9, 1);
	collected_is(&m, "");
	end(&m);
}

/* It is not read, for that would allocate it; but the other side has to know. */
static void punched(void **state)
{
	struct mover m;

	begin(&m, scratch_open_huge);
	m.s.guest->may_discard = true;
	scratch_touch(&m.s, 0, 2);
	collected_is(&m, "0");
	scratch_punch(&m.s, 0, RF_HUGE_PAGES);
	scratch_touch(&m.s, 5, 1); /* a new page, of zeros but for this */
	scratch_punch(&m.s, RF_HUGE_PAGES, RF_HUGE_PAGES);
	collected_is(&m, "0-511");
	assert_int_equal(scratch_allocated(&m.s), (HUGE - 1) * (2ull << 20));
	end(&m);
}

static void who_wants_no_copies_gets_whole_pages(void **state)
{
	assert_ptr_equal(rf_track_wp_huge.direct, &rf_track_wp);
	assert_string_equal(rf_track_wp_huge.name, rf_track_wp.name);
	assert_true(rf_track_wp_huge.staged && !rf_track_wp.staged);
}

/* What the kernel tells of there differs only later: it must not be left out. */
static void devices_that_write_unseen_get_whole_pages(void **state)
{
	const struct rf_tracker_ops *ops;
	struct scratch s;

	need_the_kernel();
	if (!scratch_open_huge(&s, HUGE))
		skip();
	s.guest->needs_drain = true;
	assert_good(rf_tracker_choose(s.guest, RF_TRACKER_AUTO, &ops, &e), &e);
	assert_ptr_equal(ops, &rf_track_wp);
	assert_good(rf_tracker_choose(s.guest, RF_TRACKER_WP_ASYNC, &ops, &e), &e);
	assert_ptr_equal(ops, &rf_track_wp);
	scratch_close(&s);
}

static void ordinary_memory_is_left_alone(void **state)
{
	const struct rf_tracker_ops *ops;
	struct scratch s;

	need_the_kernel();
	scratch_open(&s, PAGES, NULL, NULL);
	if (s.block->may_be_huge) {
		print_message("skipped: this host puts every memfd into huge pages\n");
		scratch_close(&s);
		skip();
	}
	assert_good(rf_tracker_choose(s.guest, RF_TRACKER_AUTO, &ops, &e), &e);
	assert_ptr_equal(ops, &rf_track_wp);
	scratch_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_byte_in_hugetlb),
	    cmocka_unit_test(one_byte_in_a_transparent_huge_page),
	    cmocka_unit_test(there_and_back_again),
	    cmocka_unit_test(written_with_what_was_there),
	    cmocka_unit_test(punched),
	    cmocka_unit_test(who_wants_no_copies_gets_whole_pages),
	    cmocka_unit_test(devices_that_write_unseen_get_whole_pages),
	    cmocka_unit_test(ordinary_memory_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
