// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/verbs/pair.h"

#include <string.h>
#include <sys/mman.h>

#define MS INT64_C(1000000)

void pair_contains(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		print_error("\"%s\" is not in \"%s\"\n", part, text ? text : "nothing");
	assert_true(text && strstr(text, part));
}

static struct rf_key registered(struct rf_fabric *f, void *address, unsigned access)
{
	struct rf_event ev;

	assert_int_equal(f->ops->reg(f, address, PAIR_PAGES * PAGE, access, 1), 0);
	assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, 0);
	return ev.key;
}

void pair_open(struct pair *pair, const struct rf_fabric_config *config)
{
	struct rf_fabric_config one_lane = verbs_config();

	one_lane.lanes = 1;
	*pair = (struct pair){0};
	if (!verbs_pair_open(&pair->p, config ? config : &one_lane))
		print_error("%s\n", pair->p.e.text);
	assert_true(pair->p.source && pair->p.destination && pair->p.source->limits.lanes);
	pair->from = verbs_map(PAIR_PAGES * PAGE, PROT_READ | PROT_WRITE, NULL);
	pair->to = verbs_map(PAIR_PAGES * PAGE, PROT_READ | PROT_WRITE, NULL);
	assert_true(pair->from && pair->to);
	pair->lkey = registered(pair->p.source, pair->from, RF_ACCESS_LOCAL_READ);
	pair->rkey = registered(pair->p.destination, pair->to, RF_ACCESS_REMOTE_WRITE);
	fake.holds = true;
}

void pair_close(struct pair *pair)
{
	fake.holds = false;
	while (fake_step(0)) /* or closing would wait for it */
		;
	verbs_pair_close(&pair->p);
	munmap(pair->from, PAIR_PAGES * PAGE);
	munmap(pair->to, PAIR_PAGES * PAGE);
	assert_int_equal(fake.registered, 0);
	assert_int_equal(fake.things, 0);
}

struct rf_write pair_write(const struct pair *pair, unsigned page)
{
	assert_true(page < PAIR_PAGES);
	return (struct rf_write){
	    .local = pair->from + (size_t)page * PAGE,
	    .lkey = pair->lkey,
	    .remote = (uintptr_t)pair->to + (uint64_t)page * PAGE,
	    .rkey = pair->rkey,
	    .length = PAGE,
	};
}

void pair_is_lost(struct rf_fabric *f, const char *sentence)
{
	struct rf_write w = {.length = 1};
	struct rf_event ev;

	assert_int_equal(f->ops->poll(f, &ev, 1, 5000 * MS), 1);
	assert_int_equal(ev.kind, RF_EV_LOST);
	pair_contains(ev.text, sentence);
	assert_int_equal(f->ops->poll(f, &ev, 1, 5 * MS), 0);
	assert_int_equal(f->ops->send(f, 0, "x", 1), -1);
	assert_int_equal(f->ops->write(f, 1, &w, 1), -1);
}
