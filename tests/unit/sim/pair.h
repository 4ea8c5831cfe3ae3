// SPDX-License-Identifier: LGPL-2.1-or-later
/* A world with its two fabrics connected, and small things to do with them. */
#ifndef RAMFERRY_TESTS_UNIT_SIM_PAIR_H
#define RAMFERRY_TESTS_UNIT_SIM_PAIR_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "fabric/fault.h"
#include "fabric/sim.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 16, BYTES = PAGES * 4096 };

struct pair {
	struct rf_sim *world;
	struct rf_fabric *source, *destination;
	struct rf_sim_model model;
	unsigned char *from, *to; /* memory of the two sides, registered under these keys */
	struct rf_key from_key, to_key;
	int connected, accepted;
};

static inline void pair_connect(void *arg)
{
	struct pair *p = arg;

	p->connected = p->source->ops->connect(p->source, NULL, NULL);
}

static inline void pair_accept(void *arg)
{
	struct pair *p = arg;

	p->accepted = p->destination->ops->accept(p->destination, -1, NULL);
}

/* The next event, which must be of that kind. */
static inline struct rf_event pair_expect(struct rf_fabric *f, enum rf_event_kind kind)
{
	struct rf_event event;

	assert_int_equal(f->ops->poll(f, &event, 1, -1), 1);
	assert_int_equal(event.kind, kind);
	return event;
}

/* However often it is refused. What comes meanwhile is forgotten. */
static inline void pair_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	struct rf_event event;
	int ret;

	while (!(ret = f->ops->send(f, lane, message, length)))
		f->ops->poll(f, &event, 1, -1);
	assert_int_equal(ret, 1);
}

static inline struct rf_key pair_register(struct rf_fabric *f, void *memory, unsigned access)
{
	assert_int_equal(f->ops->reg(f, memory, BYTES, access, 1), 0);
	return pair_expect(f, RF_EV_REGISTERED).key;
}

static inline void pair_open(struct pair *p, uint64_t seed)
{
	struct rf_fabric_config config = {.lanes = 2};

	assert_int_equal(rf_sim_open(&p->model, seed, &p->world, NULL), 0);
	p->source = rf_sim_fabric(p->world, RF_SIM_SOURCE, &config);
	p->destination = rf_sim_fabric(p->world, RF_SIM_DESTINATION, &config);
	p->from = aligned_alloc(4096, BYTES);
	p->to = aligned_alloc(4096, BYTES);
	memset(p->from, 1, BYTES);
	memset(p->to, 0, BYTES);
}

/* Connected, and both memories registered. */
static inline void pair_start(struct pair *p, uint64_t seed)
{
	memset(p, 0, sizeof(*p));
	rf_sim_model_init(&p->model);
	pair_open(p, seed);
	p->destination->ops->listen(p->destination, NULL, NULL);
	rf_sim_run(p->world, pair_connect, p, pair_accept, p);
	assert_int_equal(p->connected, 0);
	assert_int_equal(p->accepted, 0);
	p->from_key = pair_register(p->source, p->from, RF_ACCESS_LOCAL_READ);
	p->to_key = pair_register(p->destination, p->to, RF_ACCESS_REMOTE_WRITE);
}

static inline struct rf_write pair_write(const struct pair *p, unsigned page, unsigned count)
{
	return (struct rf_write){.local = p->from + page * 4096,
				 .lkey = p->from_key,
				 .remote = (uint64_t)(uintptr_t)(p->to + page * 4096),
				 .rkey = p->to_key,
				 .length = count * 4096};
}

static inline void pair_end(struct pair *p)
{
	p->source->ops->close(p->source);
	p->destination->ops->close(p->destination);
	rf_sim_close(p->world);
	free(p->from);
	free(p->to);
}

#endif
