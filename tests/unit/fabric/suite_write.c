// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writes: they arrive, where they should, before the message behind them, and nothing else changes. */
#include "tests/unit/fabric/suite_side.h"

#include <stdlib.h>
#include <string.h>

/* ---- one write, then the message behind it ---- */

static void single_source(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	suite_put(s, &m, 5, 77);
	struct rf_write w = suite_pages(&m, 5, 1);

	NEED(s, suite_write(s, 1, &w, 1));
	NEED(s, suite_send(s, 1, "fence", 5));
	NEED(s, suite_written_and_answered(s));
	NEED(s, suite_unmap(s, &m));
}

static void single_destination(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_offer(s, 16, &m));
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, s->message_lane == 1 && s->message_length == 5 && !memcmp(s->message, "fence", 5));
	NEED(s, suite_holds(s, &m, 5, 77));
	NEED(s, suite_untouched(s, &m, 5, 1));
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- scattered pages on several lanes: at a lane's fence, that lane's pages are there ---- */

enum { SCATTERED_PAGES = 3000 };

static unsigned lane_of(uint64_t page, unsigned lanes)
{
	return 1 + (unsigned)(page * 7 % lanes);
}

static void scattered_source(struct suite_side *s)
{
	unsigned lanes = s->f->limits.lanes;
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	/* Every other page, from the last to the first, so that none continues another. */
	for (uint64_t page = m.pages - 1; page < m.pages; page -= 2) {
		struct rf_write w = suite_pages(&m, page, 1);

		suite_put(s, &m, page, page + 1);
		NEED(s, suite_write(s, lane_of(page, lanes), &w, 1));
	}
	for (unsigned lane = 1; lane <= lanes; lane++)
		NEED(s, suite_send(s, lane, "fence", 5));
	NEED(s, suite_written_and_answered(s));
	NEED(s, suite_unmap(s, &m));
}

static void scattered_destination(struct suite_side *s)
{
	unsigned lanes = s->f->limits.lanes;
	struct suite_memory m;

	NEED(s, lanes >= 1);
	NEED(s, suite_offer(s, SCATTERED_PAGES, &m));
	for (unsigned fences = 0; fences < lanes; fences++) {
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		for (uint64_t page = m.pages - 1; page < m.pages; page -= 2)
			NEED(s, lane_of(page, lanes) != s->message_lane || suite_holds(s, &m, page, page + 1));
	}
	for (uint64_t page = 0; page < m.pages; page += 2)
		NEED(s, suite_holds(s, &m, page, 0));
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- message k follows page k, on every lane ---- */

enum { FOLLOWED_PAGES = 240 };

static void order_source(struct suite_side *s)
{
	unsigned lanes = s->f->limits.lanes;
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	for (uint32_t page = 0; page < m.pages; page++) {
		struct rf_write w = suite_pages(&m, page, 1);

		suite_put(s, &m, page, 1000 + page);
		NEED(s, suite_write(s, 1 + page % lanes, &w, 1));
		NEED(s, suite_send(s, 1 + page % lanes, &page, sizeof(page)));
	}
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	NEED(s, suite_unmap(s, &m));
}

static void order_destination(struct suite_side *s)
{
	uint32_t expected[1 + SUITE_MAX_LANES], page, lanes = s->f->limits.lanes;
	struct suite_memory m;

	for (unsigned lane = 1; lane <= lanes; lane++)
		expected[lane] = lane - 1;
	NEED(s, suite_offer(s, FOLLOWED_PAGES, &m));
	for (unsigned i = 0; i < m.pages; i++) {
		NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		NEED(s, s->message_length == sizeof(page));
		memcpy(&page, s->message, sizeof(page));
		NEED(s, page == expected[s->message_lane]);
		NEED(s, suite_holds(s, &m, page, 1000 + page));
		expected[s->message_lane] += lanes;
	}
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- a full queue takes what fits, and says when there is room ---- */

enum { QUEUED_WRITES = 500 };

static void full_source(struct suite_side *s)
{
	struct rf_write w[QUEUED_WRITES];
	struct suite_memory m;

	NEED(s, s->f->limits.queue_depth == 4);
	NEED(s, suite_take_offer(s, &m));
	for (unsigned i = 0; i < QUEUED_WRITES; i++) {
		w[i] = suite_pages(&m, i, 1);
		suite_put(s, &m, i, i + 1);
	}
	int first = s->f->ops->write(s->f, 1, w, QUEUED_WRITES);

	NEED(s, first >= 1 && first <= 4);
	s->posted[1] = (unsigned)first;
	NEED(s, suite_write(s, 1, w + first, QUEUED_WRITES - first));
	NEED(s, suite_send(s, 1, "fence", 5));
	NEED(s, suite_written_and_answered(s));
	NEED(s, suite_unmap(s, &m));
}

static void full_destination(struct suite_side *s)
{
	struct suite_memory m;

	NEED(s, suite_offer(s, QUEUED_WRITES, &m));
	NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
	for (unsigned i = 0; i < QUEUED_WRITES; i++)
		NEED(s, suite_holds(s, &m, i, i + 1));
	NEED(s, suite_send(s, 0, "seen", 4));
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

/* ---- rounds of random runs, checked against what both sides can compute ---- */

enum { STRESS_PAGES = 4096, STRESS_ROUNDS = 6 };

/* What one round changes: runs of 1 to 8 pages with gaps, each to a random lane, in an order that is not the memory's. */
struct stress_run {
	uint32_t first, count, lane;
};

static unsigned stress_round(unsigned round, unsigned lanes, struct stress_run *runs)
{
	uint64_t state = 0x9e3779b97f4a7c15 + round;
	unsigned n = 0;

	for (uint32_t page = 0; page < STRESS_PAGES;) {
		uint32_t count = 1 + (uint32_t)suite_random(&state, 8);

		if (page + count > STRESS_PAGES)
			break;
		runs[n++] = (struct stress_run){page, count, 1 + (uint32_t)suite_random(&state, lanes)};
		page += count + (uint32_t)suite_random(&state, 6);
	}
	for (unsigned i = n; i > 1; i--) {
		unsigned j = (unsigned)suite_random(&state, i);
		struct stress_run swap = runs[i - 1];

		runs[i - 1] = runs[j];
		runs[j] = swap;
	}
	return n;
}

static uint64_t stress_stamp(unsigned round, uint32_t page)
{
	return ((uint64_t)round + 1) << 32 | page;
}

static void stress_source(struct suite_side *s)
{
	static const char fence[] = "round";
	struct stress_run runs[STRESS_PAGES];
	struct suite_memory m;

	NEED(s, suite_take_offer(s, &m));
	for (unsigned round = 0; round < STRESS_ROUNDS; round++) {
		unsigned n = stress_round(round, s->f->limits.lanes, runs);

		for (unsigned i = 0; i < n; i++) {
			struct rf_write w = suite_pages(&m, runs[i].first, runs[i].count);

			for (uint32_t k = 0; k < runs[i].count; k++)
				suite_put(s, &m, runs[i].first + k, stress_stamp(round, runs[i].first + k));
			NEED(s, suite_write(s, runs[i].lane, &w, 1));
		}
		for (unsigned lane = 1; lane <= s->f->limits.lanes; lane++)
			NEED(s, suite_send(s, lane, fence, sizeof(fence)));
		NEED(s, suite_written_and_answered(s));
	}
	NEED(s, suite_unmap(s, &m));
}

static void stress_destination(struct suite_side *s)
{
	static uint64_t oracle[STRESS_PAGES];
	struct stress_run runs[STRESS_PAGES];
	struct suite_memory m;

	memset(oracle, 0, sizeof(oracle));
	NEED(s, suite_offer(s, STRESS_PAGES, &m));
	for (unsigned round = 0; round < STRESS_ROUNDS; round++) {
		unsigned n = stress_round(round, s->f->limits.lanes, runs);

		for (unsigned i = 0; i < n; i++)
			for (uint32_t k = 0; k < runs[i].count; k++)
				oracle[runs[i].first + k] = stress_stamp(round, runs[i].first + k);
		for (unsigned lane = 1; lane <= s->f->limits.lanes; lane++)
			NEED(s, suite_await(s, RF_EV_MESSAGE, NULL));
		for (uint32_t page = 0; page < STRESS_PAGES; page++)
			NEED(s, suite_holds(s, &m, page, oracle[page]));
		NEED(s, suite_send(s, 0, "ok", 2));
	}
	NEED(s, suite_await_loss(s));
	NEED(s, suite_unmap(s, &m));
}

const struct suite_case suite_write_cases[] = {
    {"one write and the message behind it", {0}, single_source, single_destination},
    {"scattered pages, lanes as the fabric likes", {0}, scattered_source, scattered_destination},
    {"scattered pages, one lane", {.lanes = 1}, scattered_source, scattered_destination},
    {"scattered pages, five lanes", {.lanes = 5}, scattered_source, scattered_destination},
    {"each message follows its page", {.lanes = 3}, order_source, order_destination},
    {"a full queue", {.lanes = 1, .queue_depth = 4}, full_source, full_destination},
    {"rounds of random runs, one lane", {.lanes = 1}, stress_source, stress_destination},
    {"rounds of random runs, four lanes", {.lanes = 4, .queue_depth = 64}, stress_source, stress_destination},
    {0},
};
