// SPDX-License-Identifier: LGPL-2.1-or-later
/* The guest of versions: what it writes, what it tells of it, and that it notices what must not be. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "guests/versions.h"

#include <stdlib.h>
#include <string.h>

static const int64_t ms = 1000000, s = 1000000000;

struct fixture {
	struct rf_versions_world world;
	struct rf_versions *guest;
	struct rf_tracker *tracker;
	char violation[300];
};

static void violate(void *ctx, const char *sentence)
{
	struct fixture *f = ctx;

	if (!f->violation[0])
		strncpy(f->violation, sentence, sizeof(f->violation) - 1);
}

static void spend(void *ctx, int64_t ns)
{
}

static void spec_of(struct rf_versions_spec *spec)
{
	rf_versions_spec_init(spec, RF_ROLE_SOURCE, 42);
	spec->load = RF_VERSIONS_UNIFORM;
	spec->writes_per_s = 1000;
}

static void start(struct fixture *f, const struct rf_versions_spec *spec)
{
	memset(f, 0, sizeof(*f));
	f->world = (struct rf_versions_world){.spend = spend, .violate = violate, .ctx = f};
	assert_int_equal(rf_versions_open(spec, &f->world, &f->guest, NULL), 0);
	assert_int_equal(rf_versions_tracker.open(f->guest->guest, &f->tracker, NULL), 0);
}

static int keep_none(void *arg, const void *data, size_t length)
{
	return 0;
}

static int pause_of(struct rf_versions *g, bool *ran, struct rf_error *e)
{
	const struct rf_state_sink early = {keep_none, NULL};
	enum rf_stand stand = RF_STAND_RUNS;

	while (stand != RF_STAND_STILL)
		if (rf_versions_lifecycle.pause(g, &early, &stand, ran, e))
			return -1;
	return 0;
}

static struct rf_run all_of(const struct fixture *f)
{
	return (struct rf_run){0, f->guest->blocks[0]->block.npages};
}

static void end(struct fixture *f, const char *violation)
{
	rf_versions_tracker.drop(f->tracker, 0, all_of(f));
	rf_versions_tracker.close(f->tracker);
	rf_versions_close(f->guest);
	if (violation)
		assert_non_null(strstr(f->violation, violation));
	else
		assert_string_equal(f->violation, "");
}

/* a thousand writes a second for two seconds -> two thousand, each reported once */
static void test_writes_are_tracked(void **state)
{
	struct rf_versions_spec spec;
	struct fixture f;
	struct rf_pages dirty;
	uint64_t before;

	spec_of(&spec);
	spec.load = RF_VERSIONS_SWEEP;
	start(&f, &spec);
	before = f.guest->writes;
	rf_versions_tracker.arm(f.tracker, 0, all_of(&f), NULL);
	rf_versions_advance(f.guest, 2 * s - ms);
	assert_int_equal(f.guest->writes - before, 2000);
	assert_int_equal(rf_pages_init(&dirty, all_of(&f).count, NULL), 0);
	rf_versions_tracker.collect(f.tracker, 0, all_of(&f), &dirty, NULL);
	assert_int_equal(rf_pages_count(&dirty, 0, dirty.npages), 2000);
	assert_int_equal(rf_pages_count(&dirty, 0, 2000), 2000);
	rf_pages_remove(&dirty, 0, dirty.npages);
	rf_versions_tracker.collect(f.tracker, 0, all_of(&f), &dirty, NULL);
	assert_int_equal(rf_pages_count(&dirty, 0, dirty.npages), 0);
	rf_pages_free(&dirty);
	end(&f, NULL);
}

/* paused -> it writes no more; undone -> it goes on */
static void test_pause_and_undo(void **state)
{
	struct rf_versions_spec spec;
	struct fixture f;
	uint64_t writes;
	bool ran = false;

	spec_of(&spec);
	start(&f, &spec);
	rf_versions_advance(f.guest, 100 * ms);
	assert_int_equal(pause_of(f.guest, &ran, NULL), 0);
	assert_true(ran);
	assert_int_equal(f.world.runners, 0);
	writes = f.guest->writes;
	rf_versions_advance(f.guest, 200 * ms);
	assert_int_equal(f.guest->writes, writes);
	assert_int_equal(rf_versions_lifecycle.undo(f.guest, NULL), 0);
	assert_int_equal(f.world.runners, 1);
	rf_versions_advance(f.guest, 300 * ms);
	assert_true(f.guest->writes > writes + 90);
	end(&f, NULL);
}

static void test_two_runners(void **state)
{
	struct rf_versions_spec spec;
	struct rf_versions *other;
	struct fixture f;

	spec_of(&spec);
	start(&f, &spec);
	assert_int_equal(rf_versions_open(&spec, &f.world, &other, NULL), 0);
	rf_versions_close(other);
	end(&f, "two guests run at once");
}

static void test_resume_without_memory(void **state)
{
	struct rf_versions_spec spec;
	struct rf_versions *to;
	struct fixture f;
	bool ran;

	spec_of(&spec);
	start(&f, &spec);
	rf_versions_spec_init(&spec, RF_ROLE_DESTINATION, 43);
	assert_int_equal(rf_versions_open(&spec, &f.world, &to, NULL), 0);
	to->origin = f.guest;
	pause_of(f.guest, &ran, NULL);
	to->successes[RF_VERSIONS_LOAD]++;
	rf_versions_lifecycle.resume(to, true, NULL);
	rf_versions_close(to);
	end(&f, "when the guest is resumed");
}

/* copy every page through an image -> no differences, the same digest */
static void test_images(void **state)
{
	struct rf_versions_spec spec;
	struct rf_versions *to;
	struct rf_digest a, b;
	struct rf_run run = {0, 0};
	struct fixture f;
	uint32_t image[4096];
	bool ran;

	spec_of(&spec);
	start(&f, &spec);
	rf_versions_spec_init(&spec, RF_ROLE_DESTINATION, 43);
	assert_int_equal(rf_versions_open(&spec, &f.world, &to, NULL), 0);
	to->origin = f.guest;
	pause_of(f.guest, &ran, NULL);
	rf_versions_block_ops.clear(&to->blocks[0]->block, all_of(&f), false, NULL);
	assert_int_not_equal(rf_versions_differences(to, NULL, 0), 0);
	while (rf_pages_next(&f.guest->blocks[0]->present, run.first + run.count, 4096, &run)) {
		rf_versions_load_image(f.guest, rf_block_at(&f.guest->blocks[0]->block, run.first),
				       run.count << RF_PAGE_SHIFT, image);
		rf_versions_store_image(to, to->blocks[0]->block.guest_address + (run.first << RF_PAGE_SHIFT),
					run.count << RF_PAGE_SHIFT, image);
	}
	assert_int_equal(rf_versions_differences(to, NULL, 0), 0);
	assert_int_equal(rf_versions_present(to), rf_versions_present(f.guest));
	rf_versions_block_ops.digest(&f.guest->blocks[0]->block, all_of(&f), &a, NULL);
	rf_versions_block_ops.digest(&to->blocks[0]->block, all_of(&f), &b, NULL);
	assert_memory_equal(&a, &b, sizeof(a));
	rf_versions_close(to);
	end(&f, NULL);
}

static void test_hole_is_read(void **state)
{
	struct rf_versions_spec spec;
	struct fixture f;
	char *copy = malloc(4096 * 4096);

	spec_of(&spec);
	spec.data_percent = 20;
	start(&f, &spec);
	rf_versions_block_ops.copy(&f.guest->blocks[0]->block, all_of(&f), copy);
	free(copy);
	end(&f, "a copy reads a hole");
}

static void test_failing_operation(void **state)
{
	struct rf_versions_spec spec;
	struct rf_error e;
	struct fixture f;
	bool ran;

	spec_of(&spec);
	spec.fails[RF_VERSIONS_PAUSE] = true;
	start(&f, &spec);
	assert_int_equal(pause_of(f.guest, &ran, &e), -1);
	assert_string_equal(e.text, "pause fails on purpose");
	assert_int_equal(f.world.runners, 0);
	end(&f, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_writes_are_tracked),
	    cmocka_unit_test(test_pause_and_undo),
	    cmocka_unit_test(test_two_runners),
	    cmocka_unit_test(test_resume_without_memory),
	    cmocka_unit_test(test_images),
	    cmocka_unit_test(test_hole_is_read),
	    cmocka_unit_test(test_failing_operation),
	};

	return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
