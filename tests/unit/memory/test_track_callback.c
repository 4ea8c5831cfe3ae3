// SPDX-License-Identifier: LGPL-2.1-or-later
/* callback: passes on what the embedding program says, and no more; and the choice among the trackers. */
#include "scratch.h"

#include "common/options.h"

enum { PAGES = RF_SLICE_PAGES + 100 };

static struct rf_error e;

struct program {
	uint64_t bits[RF_SLICE_PAGES / 64 + 2]; /* what the next call gives, from bit 0 */
	const char *failure;
	unsigned calls, stops;
	struct rf_run asked;
};

static int program_collect(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap,
			   struct rf_error *why)
{
	struct program *p = ctx;

	p->calls++;
	p->asked = (struct rf_run){first, count};
	if (p->failure)
		return rf_fail(why, RF_E_FAILED, "%s", p->failure);
	for (uint64_t w = 0; w * 64 < count; w++) {
		assert_int_equal(bitmap[w], 0);
		bitmap[w] |= p->bits[w];
	}
	memset(p->bits, 0, sizeof(p->bits));
	return 0;
}

static void program_stop(void *ctx)
{
	((struct program *)ctx)->stops++;
}

static const struct rf_lifecycle_ops program_ops = {.collect = program_collect, .stop_tracking = program_stop};

static void collected_is(struct rf_tracker *t, struct rf_run slice, const char *text)
{
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, slice, &dirty, &e), &e);
	assert_set(&dirty, text);
	rf_pages_free(&dirty);
}

static void bits_become_pages(void **state)
{
	struct program p = {.bits = {~0ull}};
	struct rf_tracker *t;
	struct scratch s;

	scratch_open(&s, PAGES, &program_ops, &p);
	assert_int_equal(rf_track_callback.probe(s.guest, &e), 0);
	assert_good(rf_track_callback.open(s.guest, &t, &e), &e);
	assert_good(t->ops->arm(t, 0, (struct rf_run){0, RF_SLICE_PAGES}, &e), &e);
	assert_int_equal(p.asked.count, RF_SLICE_PAGES);
	collected_is(t, (struct rf_run){0, RF_SLICE_PAGES}, "");
	p.bits[0] = 1ull << 63 | 5;
	p.bits[1] = ~0ull;
	p.bits[2] = 1;
	p.bits[63] = 1ull << 63;
	collected_is(t, (struct rf_run){0, RF_SLICE_PAGES}, "0 2 63-128 4095");
	/* Bits past the end of the block count for nothing. */
	p.bits[0] = 1;
	p.bits[1] = ~0ull << 35;
	collected_is(t, (struct rf_run){RF_SLICE_PAGES, 100}, "4096 4195");
	assert_int_equal(p.asked.first, RF_SLICE_PAGES);
	t->ops->drop(t, 0, (struct rf_run){0, PAGES});
	assert_int_equal(p.stops, 0);
	t->ops->close(t);
	assert_int_equal(p.stops, 1);
	scratch_close(&s);
}

static void a_failure_is_passed_on(void **state)
{
	struct program p = {.failure = "the ring has overrun"};
	struct rf_tracker *t;
	struct rf_pages dirty;
	struct scratch s;

	scratch_open(&s, PAGES, &program_ops, &p);
	assert_good(rf_track_callback.open(s.guest, &t, &e), &e);
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_fails(t->ops->collect(t, 0, (struct rf_run){0, 64}, &dirty, &e), &e,
		     "block \"ram\": the ring has overrun");
	assert_fails(t->ops->arm(t, 0, (struct rf_run){0, 64}, &e), &e, "the ring has overrun");
	rf_pages_free(&dirty);
	t->ops->close(t);
	scratch_close(&s);
}

static void remember(void *arg, enum rf_log_level level, const char *sentence)
{
	char *text = arg;

	snprintf(text + strlen(text), 1000 - strlen(text), "%s\n", sentence);
}

static void the_choice_is_logged_with_its_reason(void **state)
{
	char text[1000] = "";
	const struct rf_log log = {.write = remember, .arg = text};
	const struct rf_tracker_ops *choice = NULL;
	struct program p = {0};
	struct scratch plain, embedded;

	scratch_open(&plain, 1, NULL, NULL);
	scratch_open(&embedded, 1, &program_ops, &p);
	plain.guest->log = embedded.guest->log = &log;
	/* wp-async is out of the question for either. */
	plain.block->page_bytes = embedded.block->page_bytes = 1 << 30;

	assert_good(rf_tracker_choose(plain.guest, RF_TRACKER_AUTO, &choice, &e), &e);
	assert_ptr_equal(choice, &rf_track_hash);
	assert_non_null(strstr(text, "tracker wp-async cannot serve here: block \"ram\" has pages of 1 GiB"));
	assert_non_null(
	    strstr(text, "tracker callback cannot serve here: the program that runs the guest does not tell"));
	assert_non_null(strstr(text, "writes of the guest are tracked by hash"));
	assert_good(rf_tracker_choose(embedded.guest, RF_TRACKER_AUTO, &choice, &e), &e);
	assert_ptr_equal(choice, &rf_track_callback);
	assert_int_equal(p.calls, 0);

	assert_fails(rf_tracker_choose(plain.guest, RF_TRACKER_CALLBACK, &choice, &e), &e,
		     "tracker callback cannot serve here: the program that runs the guest does not tell");
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_good(rf_tracker_choose(embedded.guest, RF_TRACKER_HASH, &choice, &e), &e);
	assert_ptr_equal(choice, &rf_track_hash);
	scratch_close(&plain);
	scratch_close(&embedded);
}

static void a_guest_with_a_tracker_of_its_own_keeps_it(void **state)
{
	static const struct rf_tracker_ops own = {.name = "versions"};
	const struct rf_tracker_ops *choice = NULL;
	struct scratch s;

	scratch_open(&s, 1, NULL, NULL);
	s.guest->own_tracker = &own;
	assert_good(rf_tracker_choose(s.guest, RF_TRACKER_AUTO, &choice, &e), &e);
	assert_ptr_equal(choice, &own);
	assert_fails(rf_tracker_choose(s.guest, RF_TRACKER_HASH, &choice, &e), &e, "tracker hash cannot serve it");
	scratch_close(&s);
}

static void wp_async_comes_first_where_the_kernel_has_it(void **state)
{
	const struct rf_tracker_ops *choice = NULL;
	struct program p = {0};
	struct scratch s;

	scratch_open(&s, 1, &program_ops, &p);
	assert_good(rf_tracker_choose(s.guest, RF_TRACKER_AUTO, &choice, &e), &e);
	if (rf_track_wp.probe(s.guest, &e))
		assert_ptr_equal(choice, &rf_track_callback);
	else
		assert_ptr_equal(choice, &rf_track_wp);
	scratch_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bits_become_pages),
	    cmocka_unit_test(a_failure_is_passed_on),
	    cmocka_unit_test(the_choice_is_logged_with_its_reason),
	    cmocka_unit_test(a_guest_with_a_tracker_of_its_own_keeps_it),
	    cmocka_unit_test(wp_async_comes_first_where_the_kernel_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
