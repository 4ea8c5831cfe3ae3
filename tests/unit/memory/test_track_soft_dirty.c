// SPDX-License-Identifier: LGPL-2.1-or-later
/* soft-dirty: when it is taken, what it reports, and that the guest goes on whatever fails. What needs the kernel's bits is skipped
 * where there are none; tests/rdma runs all of it in a VM that has them. */
#include "scratch.h"

#include "memory/soft_dirty.h"

#include <fcntl.h>
#include <unistd.h>

enum { SLICES = 3, PAGES = SLICES * RF_SLICE_PAGES };

static struct rf_error e;

struct guest { /* counts how it was held */
	unsigned holds, releases;
	bool still, refuse;
	int clear_refs;
};

static int hold(void *ctx, bool still, struct rf_error *why)
{
	struct guest *g = ctx;

	assert_int_not_equal(g->still, still);
	if (still && g->refuse)
		return rf_fail(why, RF_E_FAILED, "it does not stop");
	g->still = still;
	*(still ? &g->holds : &g->releases) += 1;
	return 0;
}

static int open_files(void *ctx, int *pagemap, int *clear_refs, struct rf_error *why)
{
	struct guest *g = ctx;

	*pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	*clear_refs = g->clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	assert_true(*pagemap >= 0 && *clear_refs >= 0);
	return 0;
}

static const struct rf_lifecycle_ops guest_ops = {.hold = hold, .open_soft_dirty = open_files};

static struct rf_run slice(unsigned i)
{
	return (struct rf_run){i * RF_SLICE_PAGES, RF_SLICE_PAGES};
}

static struct rf_tracker *begin(struct scratch *s, struct guest *g)
{
	struct rf_tracker *t;

	scratch_open(s, PAGES, &guest_ops, g);
	memset(s->memory, 1, PAGES << RF_PAGE_SHIFT);
	assert_good(rf_track_soft_dirty.open(s->guest, &t, &e), &e);
	for (unsigned i = 0; i < SLICES; i++)
		assert_good(t->ops->arm(t, 0, slice(i), &e), &e);
	return t;
}

static void end(struct scratch *s, struct rf_tracker *t)
{
	for (unsigned i = 0; i < SLICES; i++)
		t->ops->drop(t, 0, slice(i));
	t->ops->close(t);
	scratch_close(s);
}

static void need_the_kernel(void)
{
	if (rf_soft_dirty_self_test(&e)) {
		print_message("skipped: %s\n", e.text);
		skip();
	}
}

static void collected_is(struct rf_tracker *t, struct rf_run run, const char *text)
{
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, run, &dirty, &e), &e);
	assert_set(&dirty, text);
	rf_pages_free(&dirty);
}

static void a_write_is_reported_once(void **state)
{
	struct guest g = {0};
	struct scratch s;

	need_the_kernel();
	struct rf_tracker *t = begin(&s, &g);

	collected_is(t, slice(0), "");
	collected_is(t, slice(1), "");
	collected_is(t, slice(2), "");
	scratch_touch(&s, 5, 2);
	scratch_touch(&s, 5, 3);
	scratch_touch(&s, RF_SLICE_PAGES, 2);
	scratch_touch(&s, PAGES - 1, 2);
	collected_is(t, slice(0), "5");
	collected_is(t, slice(2), "12287");
	collected_is(t, slice(1), "4096");
	collected_is(t, slice(1), "");
	end(&s, t);
}

/* What is written behind the take waits for the next, and is not lost with the slices that were not asked for yet. */
static void between_two_slices(void **state)
{
	struct guest g = {0};
	struct scratch s;

	need_the_kernel();
	struct rf_tracker *t = begin(&s, &g);

	scratch_touch(&s, RF_SLICE_PAGES + 1, 2);
	collected_is(t, slice(0), "");
	scratch_touch(&s, 0, 2);
	scratch_touch(&s, RF_SLICE_PAGES + 2, 2);
	collected_is(t, slice(1), "4097");
	collected_is(t, slice(2), "");
	collected_is(t, slice(1), "4098");
	collected_is(t, slice(0), "0");
	end(&s, t);
}

static void a_sync_is_one_take(void **state)
{
	struct guest g = {0};
	struct scratch s;
	struct rf_tracker *t = begin(&s, &g);
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_int_equal(g.holds, 1);
	for (unsigned sync = 0; sync < 4; sync++) {
		for (unsigned i = 0; i < SLICES; i++)
			assert_good(t->ops->collect(t, 0, slice((i + sync) % SLICES), &dirty, &e), &e);
		assert_int_equal(g.holds, 2 + sync);
		assert_int_equal(g.releases, g.holds);
	}
	rf_pages_free(&dirty);
	end(&s, t);
}

static void it_goes_on_whatever_fails(void **state)
{
	struct guest g = {0};
	struct scratch s;
	struct rf_tracker *t = begin(&s, &g);
	struct rf_pages dirty;
	int nothing = open("/dev/full", O_WRONLY | O_CLOEXEC);

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_int_equal(dup2(nothing, g.clear_refs), g.clear_refs);
	assert_fails(t->ops->collect(t, 0, slice(0), &dirty, &e), &e, "cannot clear the soft-dirty bits");
	assert_false(g.still);
	g.refuse = true;
	assert_fails(t->ops->collect(t, 0, slice(0), &dirty, &e), &e, "cannot be held still");
	assert_int_equal(g.releases, g.holds);
	rf_pages_free(&dirty);
	close(nothing);
	end(&s, t);
}

static void what_it_cannot_serve(void **state)
{
	static const struct rf_lifecycle_ops unheld;
	struct guest g = {0};
	struct scratch s;

	scratch_open(&s, PAGES, &guest_ops, &g);
	s.block->page_bytes = 2 << 20;
	assert_fails(rf_track_soft_dirty.probe(s.guest, &e), &e, "hugetlbfs");
	s.block->page_bytes = RF_PAGE_BYTES;
	s.guest->ops = &unheld;
	assert_fails(rf_track_soft_dirty.probe(s.guest, &e), &e, "cannot hold it still");
	s.guest->ops = &guest_ops;
	s.block->may_be_huge = true;
	assert_int_equal(rf_track_soft_dirty.by_itself(s.guest, &e), -1);
	scratch_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_write_is_reported_once), cmocka_unit_test(between_two_slices),
	    cmocka_unit_test(a_sync_is_one_take),       cmocka_unit_test(it_goes_on_whatever_fails),
	    cmocka_unit_test(what_it_cannot_serve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
