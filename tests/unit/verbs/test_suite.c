// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite on a card of software that watches every rule of a real one. */
#include "tests/rdma/verbs_pair.h"
#include "tests/unit/fabric/suite.h"
#include "tests/unit/verbs/fake.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>

int main(void)
{
	/* What is posted is carried out at once, so that data is never in front of anything. */
	cmocka_set_skip_filter("control does not wait behind data");
	if (suite_run(&verbs_suite_fabric))
		return 1;
	if (fake.registered || fake.things)
		fprintf(stderr, "%u registrations and %u other things were left behind\n", fake.registered,
			fake.things);
	return fake.registered || fake.things ? 1 : 0;
}
