// SPDX-License-Identifier: LGPL-2.1-or-later
/* Everything by chance: guest, link, options, one fault, one cancellation. Whatever comes of it, what harness.h says must
 * hold in every story holds. SEED=n replays one, SEEDS=n tries that many, from FROM on. */
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state_of_chance;

static uint64_t chance(uint64_t limit)
{
	uint64_t z = (state_of_chance += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % limit;
}

static void any_guest(struct story *s)
{
	struct rf_versions_spec *from = &s->source.spec, *to = &s->destination.spec;
	unsigned i;

	from->nblocks = to->nblocks = 1 + (unsigned)chance(RF_VERSIONS_MAX_BLOCKS);
	for (i = 0; i < from->nblocks; i++)
		from->block_pages[i] = to->block_pages[i] = 1 + chance(1 + chance(40 * PAGES_PER_MIB));
	from->data_percent = (unsigned)chance(101);
	from->zero_percent = (unsigned)chance(2) ? (unsigned)chance(101) : 5;
	to->data_percent = (unsigned)chance(60);
	from->paused = !chance(8);
	from->load = to->load = (enum rf_versions_load)chance(3);
	from->writes_per_s = to->writes_per_s = 1 + chance(chance(2) ? 20000 : 2000);
	from->working_pages = to->working_pages = chance(20 * PAGES_PER_MIB);
	from->zeroing_percent = (unsigned)chance(3) ? 5 : (unsigned)chance(101);
	from->early_bytes = chance(2) ? chance(300000) : 0;
	from->state_bytes = chance(2) ? chance(200000) : chance(100);
	from->save_writes = (unsigned)chance(20);
	from->pause_holes = from->save_writes * (from->save_writes % 3);
}

/* Direct I/O, or none. */
static void any_disk(struct story *s)
{
	if (chance(2))
		return;
	story_reads(s, 1 + chance(chance(3) ? 500 : 5000), 1 + (int64_t)(chance(chance(4) ? 50 : 400) * RF_MS));
	s->source.spec.cost_ns[RF_VERSIONS_DRAIN] = (int64_t)chance(20) * RF_MS;
	s->source.spec.fails[RF_VERSIONS_DRAIN] = chance(20) == 0;
}

static void any_world(struct story *s)
{
	struct rf_sim_model *m = &s->model;

	m->bytes_per_second = (10 + chance(1000)) * MIB;
	m->delay_ns = (int64_t)chance(2) ? (int64_t)chance(200000) : (int64_t)chance(5000000);
	m->jitter_ns = (int64_t)chance(2) ? (int64_t)chance(50000) : (int64_t)chance(3000000);
	m->lane_skew_ns = (int64_t)chance(1000000);
	m->local_keys = chance(2);
	m->max_spans = 1 + (unsigned)chance(16);
	m->max_write_bytes = (uint32_t)(4096 << chance(9));
}

static void any_options(struct story *s)
{
	struct rf_options *o = &s->source.options;

	o->chunk_size_bytes = MIB << chance(11);
	o->register_mode = chance(6) ? RF_REGISTER_ON_DEMAND : RF_REGISTER_PIN_ALL;
	o->register_ahead_bytes = chance(3) ? chance(64) * MIB : 0;
	o->writes_per_chunk = chance(4) ? 0 : 1 + chance(4);
	o->switchover = chance(4) ? RF_SWITCHOVER_LOW_POINT : RF_SWITCHOVER_THRESHOLD;
	o->queue_depth = 16 + chance(200);
	o->max_write_bytes = UINT64_C(4096) << chance(9);
	o->lanes = chance(8);
	o->workers = chance(4);
	o->max_bandwidth = chance(4) ? 0 : (20 + chance(500)) * MIB;
	o->max_pinned_bytes = chance(3) ? 0 : 64 * MIB; /* at least a chunk */
	if (o->max_pinned_bytes && o->max_pinned_bytes < o->chunk_size_bytes)
		o->max_pinned_bytes = o->chunk_size_bytes;
	o->source_memory = chance(4) ? RF_SOURCE_AUTO : RF_SOURCE_STAGED;
	o->downtime_limit_ns = (uint64_t)(20 + chance(500)) * RF_MS;
	o->on_stall = RF_ON_STALL_FORCE; /* so that all come to an end */
	o->timeout_ns = chance(10) ? 0 : (uint64_t)(1 + chance(20)) * RF_S;
	o->verify = chance(3) == 0;
}

/* Pinning little, or nothing. The rings of staged pages have to find their place in any case. */
static void any_limits(struct story *s)
{
	struct rf_sim_model *m = &s->model;

	if (s->source.options.source_memory == RF_SOURCE_AUTO && chance(4) == 0)
		m->pinnable_bytes[RF_SIM_SOURCE] = MIB + chance(60 * 256) * RF_PAGE_BYTES;
	if (chance(4) == 0)
		m->pinnable_bytes[RF_SIM_DESTINATION] = MIB + chance(60 * 256) * RF_PAGE_BYTES;
	m->on_demand[0] = m->on_demand[1] = chance(2);
	if (m->on_demand[0] && chance(3) == 0)
		s->source.options.register_mode = RF_REGISTER_ODP;
}

static void any_fault(struct story *s, char *fault, size_t length)
{
	static const char *const kinds[] = {"drop-message", "vanish", "mute", "freeze"};
	struct story_side *side = chance(2) ? &s->source : &s->destination;
	const char *kind = kinds[chance(4)];

	if (chance(3) == 0)
		return;
	switch (chance(6)) {
	case 0:
		snprintf(fault, length, "fail-register=%" PRIu64, 1 + chance(10));
		break;
	case 1:
		snprintf(fault, length, "fail-write=%" PRIu64, 1 + chance(100));
		break;
	case 2:
		snprintf(fault, length, "%s=%" PRIu64, kind, 1 + chance(40));
		break;
	case 3:
		snprintf(fault, length, "%s=%" PRIu64 "us", kinds[1 + chance(3)], chance(1000000));
		break;
	default:
		snprintf(fault, length, "%s=1@%" PRIu64, kind, 1 + chance(RF_MSG_TYPES - 1));
		break;
	}
	side->fault = fault;
	s->faults_cut = chance(2);
}

static void any_trouble(struct story *s)
{
	if (chance(6) == 0)
		story_at(s, (int64_t)chance(1000) * RF_MS, cancel_source);
	if (chance(10) == 0)
		story_at(s, (int64_t)chance(1000) * RF_MS, cancel_destination);
	if (chance(6) == 0)
		s->source.spec.fails[RF_VERSIONS_PREPARE + chance(3)] = true;
	if (chance(6) == 0)
		s->destination.spec.fails[RF_VERSIONS_LOAD_EARLY + chance(3)] = true;
	if (chance(12) == 0)
		s->destination.spec.fails[RF_VERSIONS_DISCARD] = true;
	if (chance(12) == 0)
		s->destination.spec.cost_ns[RF_VERSIONS_LOAD] = 30 * RF_S;
}

static bool is_clean(const struct story *s)
{
	unsigned i, failing = 0;

	for (i = 0; i < RF_VERSIONS_OPS; i++)
		failing += s->source.spec.fails[i] || s->destination.spec.fails[i];
	return !s->source.fault && !s->destination.fault && !s->nscripts && !failing;
}

static void tell(uint64_t seed)
{
	char fault[64];
	struct story s;

	state_of_chance = seed;
	story_begin(&s, seed);
	any_guest(&s);
	any_world(&s);
	any_options(&s);
	any_limits(&s);
	any_fault(&s, fault, sizeof(fault));
	any_trouble(&s);
	any_disk(&s);
	story_run(&s);
	if (is_clean(&s) && !s.source.options.timeout_ns)
		story_moved(&s);
	story_end(&s);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_seeds(void **state)
{
	for_seeds(number_of("FROM", 10000), number_of("SEEDS", 200), tell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};

	return run_stories("seeds", tests);
}
