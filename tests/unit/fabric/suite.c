// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/fabric/suite.h"

#include "tests/unit/fabric/suite_side.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <sys/mman.h>

enum { MAX_CASES = 60 };

struct bound_case {
	const struct suite_fabric *on;
	const struct suite_case *c;
};

void suite_bytes_unmap(const struct suite_fabric *on, void *address, size_t bytes)
{
	munmap(address, bytes);
}

/* Every word of the page depends on the stamp and its place; stamp 0 is all zeros, as a fresh page is. */
static uint64_t word(uint64_t stamp, unsigned i)
{
	return stamp ? (stamp + i) * UINT64_C(0x9e3779b97f4a7c15) : 0;
}

void suite_bytes_put(const struct suite_fabric *on, void *page, uint64_t stamp)
{
	uint64_t *words = page;

	for (unsigned i = 0; i < SUITE_PAGE / sizeof(*words); i++)
		words[i] = word(stamp, i);
}

bool suite_bytes_hold(const struct suite_fabric *on, const void *page, uint64_t stamp)
{
	const uint64_t *words = page;

	for (unsigned i = 0; i < SUITE_PAGE / sizeof(*words); i++)
		if (words[i] != word(stamp, i))
			return false;
	return true;
}

void suite_side_run(struct suite_side *side, struct rf_fabric *f)
{
	side->f = f;
	side->role(side);
}

static void run_case(void **state)
{
	const struct bound_case *b = *state;
	struct suite_side source = {.on = b->on, .role = b->c->source};
	struct suite_side destination = {.on = b->on, .role = b->c->destination};
	struct rf_fabric_config config = b->c->config;

	config.connect_timeout_ns = INT64_C(20000000000);
	bool ran = b->on->run_pair(b->on, &config, &source, &destination);

	free(source.message);
	free(destination.message);
	if (*source.failure)
		print_error("source: %s\n", source.failure);
	if (*destination.failure)
		print_error("destination: %s\n", destination.failure);
	assert_true(ran);
	assert_string_equal(source.failure, "");
	assert_string_equal(destination.failure, "");
}

int suite_run(const struct suite_fabric *on)
{
	static const struct suite_case *const tables[] = {suite_write_cases, suite_message_cases, suite_end_cases};
	static struct bound_case bound[MAX_CASES];
	static struct CMUnitTest tests[MAX_CASES];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct suite_case *c = tables[i]; c->name; c++, n++) {
			if (n == MAX_CASES)
				abort();
			bound[n] = (struct bound_case){on, c};
			tests[n] =
			    (struct CMUnitTest){.name = c->name, .test_func = run_case, .initial_state = &bound[n]};
		}
	return _cmocka_run_group_tests(on->name, tests, n, NULL, NULL);
}
