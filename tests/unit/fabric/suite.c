// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/fabric/suite.h"

#include "tests/unit/fabric/suite_side.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>

enum { MAX_CASES = 60 };

struct bound_case {
	const struct suite_fabric *on;
	const struct suite_case *c;
};

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
