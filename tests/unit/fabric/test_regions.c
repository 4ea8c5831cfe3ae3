// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/regions.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

struct table {
	struct rf_events *events;
	struct rf_regions *regions;
};

static struct table table(void)
{
	struct table t;

	assert_int_equal(rf_events_open(&t.events, NULL), 0);
	t.regions = rf_regions_open(t.events);
	assert_non_null(t.regions);
	return t;
}

static void end(struct table *t)
{
	rf_regions_close(t->regions);
	rf_events_close(t->events);
}

static uint64_t add(struct table *t, uint64_t address, uint64_t length)
{
	struct rf_key key;

	assert_int_equal(rf_regions_add(t->regions, (void *)(uintptr_t)address, length, &key), 0);
	assert_int_not_equal(key.value[0], 0);
	return key.value[0];
}

static bool drop(struct table *t, uint64_t key, uint64_t cookie)
{
	struct rf_event_node *node = rf_event_node_new(RF_EV_RELEASED, cookie, 0);

	assert_non_null(node);
	if (rf_regions_remove(t->regions, (struct rf_key){.value = {key}}, node))
		return true;
	rf_event_node_free(node);
	return false;
}

/* The cookie of the region that is told as released, or 0. */
static uint64_t released(struct table *t)
{
	struct rf_event ev;

	return rf_events_poll(t->events, &ev, 1, 0) ? ev.cookie : 0;
}

static bool may_write(struct table *t, uint64_t key, uint64_t address, uint64_t length)
{
	struct rf_target target = {address, key, length};
	struct rf_region *held[1];
	unsigned count, bad;

	if (!rf_regions_hold(t->regions, &target, 1, held, &count, &bad)) {
		assert_int_equal(bad, 0);
		assert_int_equal(count, 0);
		return false;
	}
	assert_int_equal(count, 1);
	rf_regions_let_go(t->regions, held, count);
	return true;
}

static void test_edges(void **state)
{
	struct table t = table();
	uint64_t key = add(&t, 0x10000, 0x1000);

	assert_true(may_write(&t, key, 0x10000, 1));
	assert_true(may_write(&t, key, 0x10000, 0x1000));
	assert_true(may_write(&t, key, 0x10fff, 1));
	assert_false(may_write(&t, key, 0x10000, 0));
	assert_false(may_write(&t, key, 0x10000, 0x1001));
	assert_false(may_write(&t, key, 0x10fff, 2));
	assert_false(may_write(&t, key, 0x11000, 1));
	assert_false(may_write(&t, key, 0xffff, 1));
	assert_false(may_write(&t, key, 0xffff, 0x2000));
	assert_false(may_write(&t, key, 0x10001, UINT64_MAX));
	assert_false(may_write(&t, key, UINT64_MAX, 1));
	assert_false(may_write(&t, key, 0, 1));
	end(&t);
}

static void test_keys(void **state)
{
	struct table t = table();
	uint64_t a = add(&t, 0x10000, 0x1000), b = add(&t, 0x20000, 0x1000);

	assert_int_not_equal(a, b);
	assert_false(may_write(&t, a, 0x20000, 1));
	assert_false(may_write(&t, 0, 0x10000, 1));
	assert_false(may_write(&t, a ^ 1, 0x10000, 1));
	assert_false(may_write(&t, a ^ UINT64_C(1) << 32, 0x10000, 1));
	assert_false(may_write(&t, UINT64_MAX, 0x10000, 1));
	assert_false(may_write(&t, 1000, 0x10000, 1));
	assert_true(drop(&t, a, 1));
	assert_int_equal(released(&t), 1);
	assert_false(drop(&t, a, 2));
	/* The next one may get the slot, but not the key. */
	uint64_t c = add(&t, 0x10000, 0x1000);

	assert_int_not_equal(a, c);
	assert_int_equal((uint32_t)a, (uint32_t)c);
	assert_false(may_write(&t, a, 0x10000, 1));
	assert_true(may_write(&t, c, 0x10000, 1));
	assert_true(may_write(&t, b, 0x20000, 1));
	end(&t);
}

static void test_removal_waits_for_users(void **state)
{
	struct table t = table();
	uint64_t a = add(&t, 0x10000, 0x1000), b = add(&t, 0x20000, 0x1000);
	struct rf_target batch[5] = {
	    {0x10000, a, 1}, {0x10800, a, 1}, {0x20000, b, 1}, {0x10001, a, 1}, {0x10002, a, 1}};
	struct rf_region *held[5], *more[5];
	unsigned count, more_count, bad;

	assert_true(rf_regions_hold(t.regions, batch, 5, held, &count, &bad));
	assert_int_equal(count, 3);
	assert_true(rf_regions_hold(t.regions, batch, 1, more, &more_count, &bad));
	assert_true(drop(&t, a, 9));
	assert_false(drop(&t, a, 10));
	assert_int_equal(released(&t), 0);
	assert_false(may_write(&t, a, 0x10000, 1));
	rf_regions_let_go(t.regions, held, count);
	assert_int_equal(released(&t), 0);
	rf_regions_let_go(t.regions, more, more_count);
	assert_int_equal(released(&t), 9);
	assert_true(may_write(&t, b, 0x20000, 1));
	end(&t);
}

static void test_a_bad_batch_holds_nothing(void **state)
{
	struct table t = table();
	uint64_t a = add(&t, 0x10000, 0x1000);
	struct rf_target batch[3] = {{0x10000, a, 1}, {0x10800, a, 1}, {0x11000, a, 1}};
	struct rf_region *held[3];
	unsigned count, bad;

	assert_false(rf_regions_hold(t.regions, batch, 3, held, &count, &bad));
	assert_int_equal(bad, 2);
	assert_int_equal(count, 0);
	assert_true(drop(&t, a, 3));
	assert_int_equal(released(&t), 3);
	end(&t);
}

static void test_many(void **state)
{
	enum { MANY = 3000 };
	static uint64_t keys[MANY];
	struct table t = table();

	for (uint64_t i = 0; i < MANY; i++)
		keys[i] = add(&t, (i + 1) << 20, 1 << 20);
	for (uint64_t i = 0; i < MANY; i += 3) {
		assert_true(drop(&t, keys[i], i + 1));
		assert_int_equal(released(&t), i + 1);
	}
	for (uint64_t i = 0; i < MANY; i += 3)
		keys[i] = add(&t, (i + 1) << 20, 1 << 20);
	for (uint64_t i = 0; i < MANY; i++) {
		assert_true(may_write(&t, keys[i], (i + 1) << 20, 1 << 20));
		assert_false(may_write(&t, keys[i], (i + 2) << 20, 1));
	}
	end(&t);
	rf_regions_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_edges),
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_removal_waits_for_users),
	    cmocka_unit_test(test_a_bad_batch_holds_nothing),
	    cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
