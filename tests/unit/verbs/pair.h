// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the tests of verbs on the card of software have in common: a pair with one lane, whose card holds what is posted. */
#ifndef RAMFERRY_TESTS_UNIT_VERBS_PAIR_H
#define RAMFERRY_TESTS_UNIT_VERBS_PAIR_H

#include "tests/rdma/verbs_pair.h"
#include "tests/unit/verbs/fake.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on

enum { PAGE = 4096, PAIR_PAGES = 64 };

struct pair {
	struct verbs_pair p;
	unsigned char *from, *to; /* PAIR_PAGES each */
	struct rf_key lkey, rkey;
};

/* fake_reset() comes first, then what the test wants of the card, then this. `config` may be NULL: one lane. */
void pair_open(struct pair *pair, const struct rf_fabric_config *config);
/* All is closed, and the card has nothing left. */
void pair_close(struct pair *pair);

struct rf_write pair_write(const struct pair *pair, unsigned page);

static inline struct fake_qp *source_lane(unsigned lane)
{
	return fake_queue_pair(2 * lane);
}

static inline struct fake_qp *destination_lane(unsigned lane)
{
	return fake_queue_pair(2 * lane + 1);
}

/* The next events of `f` are none but RF_EV_LOST, told once, with this in its sentence. */
void pair_is_lost(struct rf_fabric *f, const char *sentence);

void pair_contains(const char *text, const char *part);

#endif
