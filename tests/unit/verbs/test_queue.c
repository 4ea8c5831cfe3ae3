// SPDX-License-Identifier: LGPL-2.1-or-later
/* Limits of the card, full queues, completions that are asked for, and credits. The card itself watches that no queue is
 * filled beyond its size and that every message finds a receive. */
#include "tests/unit/verbs/pair.h"

#include <string.h>

#define MS INT64_C(1000000)

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void limits(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct pair pair;

	fake_reset();
	fake.max_qp_wr = 40;
	fake.max_msg_sz = 1 << 20;
	pair_open(&pair, NULL);
	assert_in_range(pair.p.source->limits.queue_depth, 1, 40 - 16);
	assert_int_equal(pair.p.source->limits.max_write_bytes, 1 << 20);
	assert_true(pair.p.source->limits.local_keys && pair.p.source->limits.pins);
	assert_false(pair.p.source->limits.on_demand);
	pair_close(&pair);

	fake_reset();
	fake.max_cqe = 120;
	config.lanes = 2;
	config.max_write_bytes = 64 << 10;
	pair_open(&pair, &config);
	assert_in_range(pair.p.source->limits.queue_depth, 1, 40);
	assert_int_equal(pair.p.destination->limits.queue_depth, pair.p.source->limits.queue_depth);
	assert_int_equal(pair.p.source->limits.max_write_bytes, 64 << 10);
	pair_close(&pair);

	fake_reset();
	fake.max_msg_sz = (1 << 20) - 1;
	pair_open(&pair, &(struct rf_fabric_config){.lanes = 1, .rdma_retry = 7, .gid_index = -1});
	assert_int_equal(pair.p.source->limits.max_write_bytes, (1 << 20) - PAGE);
	pair_close(&pair);

	fake_reset();
	fake.max_msg_sz = 4096;
	struct verbs_pair p;

	assert_false(verbs_pair_open(&p, &config));
	pair_contains(p.e.text, "port 1 of fake0 takes no more than 4096 bytes at once, which is too few");
	verbs_pair_close(&p);

	fake_reset();
	fake.max_cqe = 50;

	assert_false(verbs_pair_open(&p, &config));
	pair_contains(p.e.text, "fake0 takes 1024 requests per queue and 50 completions: too few for 2 lanes");
	verbs_pair_close(&p);
	assert_int_equal(fake.things, 0);
}

/* Every third write asks for a completion, and the last of a batch; together they tell of all, in order. */
static void completions(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct rf_write w[20];
	struct rf_event ev;
	struct pair pair;
	unsigned told = 0;

	fake_reset();
	config.lanes = 1;
	config.queue_depth = 16;
	config.signal_interval = 3;
	pair_open(&pair, &config);
	struct rf_fabric *f = pair.p.source;

	for (unsigned i = 0; i < 20; i++) {
		w[i] = pair_write(&pair, i);
		memset(pair.from + i * PAGE, (int)i + 1, PAGE);
	}
	fake.signaled = fake.unsignaled = fake.chains = 0;
	assert_int_equal(f->ops->write(f, 1, w, 20), 16);
	assert_int_equal(fake.chains, 1);
	assert_int_equal(fake.signaled, 6); /* 3, 6, 9, 12, 15 and the last */
	assert_int_equal(fake.unsignaled, 10);
	assert_int_equal(f->ops->write(f, 1, w + 16, 4), 0);
	assert_int_equal(f->ops->poll(f, &ev, 1, 0), 0);
	assert_true(fake_step(0) && fake_step(0));
	assert_int_equal(f->ops->poll(f, &ev, 1, 0), 0);
	assert_true(fake_step(0));
	assert_int_equal(f->ops->poll(f, &ev, 1, 0), 1);
	assert_int_equal(ev.kind, RF_EV_WRITTEN);
	assert_int_equal(ev.lane, 1);
	assert_int_equal(ev.count, 3);
	assert_int_equal(f->ops->write(f, 1, w + 16, 4), 3);
	for (told = 3; told < 19; told += ev.count) {
		while (fake_step(0))
			;
		assert_int_equal(f->ops->poll(f, &ev, 1, 1000 * MS), 1);
		assert_int_equal(ev.kind, RF_EV_WRITTEN);
	}
	assert_int_equal(told, 19);
	assert_memory_equal(pair.from, pair.to, 19 * PAGE);
	pair_close(&pair);
}

/* A message can be sent while the queue is full of writes, and what it is behind of is told with it. */
static void room_for_messages(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct rf_event ev[8];
	struct pair pair;

	fake_reset();
	config.lanes = 1;
	config.queue_depth = 4;
	pair_open(&pair, &config);
	struct rf_fabric *f = pair.p.source;

	for (unsigned i = 0; i < 4; i++) {
		struct rf_write w = pair_write(&pair, i);

		assert_int_equal(f->ops->write(f, 1, &w, 1), 1);
	}
	int sent = 0;

	while (f->ops->send(f, 1, "behind", 6) == 1)
		sent++;
	assert_int_equal(sent, 4); /* the peer's buffers */
	while (fake_step(0))
		;
	assert_int_equal(f->ops->poll(f, ev, 8, 0), 1);
	assert_int_equal(ev[0].kind, RF_EV_WRITTEN);
	assert_int_equal(ev[0].count, 4);
	/* Done is not room: the peer has not read them yet. */
	assert_int_equal(f->ops->poll(f, ev, 8, 0), 0);
	assert_int_equal(pair.p.destination->ops->poll(pair.p.destination, ev, 8, 0), sent);
	for (int i = 0; i < sent; i++)
		assert_int_equal(ev[i].kind, RF_EV_MESSAGE);
	assert_int_equal(pair.p.destination->ops->poll(pair.p.destination, ev, 8, 0), 0);
	while (fake_step(0))
		;
	assert_int_equal(f->ops->poll(f, ev, 8, 0), 1);
	assert_int_equal(ev[0].kind, RF_EV_WRITTEN);
	assert_int_equal(ev[0].count, 0);
	assert_int_equal(f->ops->send(f, 1, "behind", 6), 1);
	pair_close(&pair);
}

/* The peer's answer to a write comes behind the news that it is done, also in one look at both. */
static void written_before_its_answer(void **state)
{
	struct rf_event ev[8];
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	struct rf_fabric *f = pair.p.source;
	struct rf_write w = pair_write(&pair, 0);

	assert_int_equal(f->ops->write(f, 1, &w, 1), 1);
	assert_true(fake_step(0));
	assert_int_equal(pair.p.destination->ops->send(pair.p.destination, 0, "seen", 4), 1);
	assert_true(fake_step(0));
	assert_int_equal(f->ops->poll(f, ev, 8, 0), 2);
	assert_int_equal(ev[0].kind, RF_EV_WRITTEN);
	assert_int_equal(ev[1].kind, RF_EV_MESSAGE);
	pair_close(&pair);
}

/* A message's bytes stay as they are until the next poll, whatever arrives meanwhile. */
static void message_stays(void **state)
{
	struct rf_event ev[64];
	struct pair pair;
	unsigned char byte = 0;

	fake_reset();
	pair_open(&pair, NULL);
	struct rf_fabric *s = pair.p.source, *d = pair.p.destination;

	for (int round = 0; round < 200; round++) {
		int n = d->ops->poll(d, ev, 64, 0);

		while (s->ops->send(s, 0, &byte, 1) == 1 && fake_step(0))
			byte++;
		for (int i = 1; i < n; i++)
			assert_int_equal(*(const unsigned char *)ev[i].data,
					 (unsigned char)(*(const unsigned char *)ev[i - 1].data + 1));
		while (fake_step(0))
			;
		s->ops->poll(s, ev, 64, 0);
	}
	assert_true(byte > 50);
	pair_close(&pair);
}

/* ---- both sides talk at random, on all lanes, over a wire that takes its time ---- */

enum { LANES = 3, WORDS = 600 };

struct talker {
	struct rf_fabric *f;
	uint32_t said[1 + LANES], heard[1 + LANES];
};

static void speak(struct talker *t, unsigned lane)
{
	if (t->said[lane] < WORDS && t->f->ops->send(t->f, lane, &t->said[lane], sizeof(uint32_t)) == 1)
		t->said[lane]++;
}

static void listen_up(struct talker *t, int max)
{
	struct rf_event ev[8];
	uint32_t word;
	int n = t->f->ops->poll(t->f, ev, max, 0);

	for (int i = 0; i < n; i++) {
		assert_true(ev[i].kind == RF_EV_MESSAGE || ev[i].kind == RF_EV_WRITTEN);
		if (ev[i].kind == RF_EV_WRITTEN)
			continue;
		memcpy(&word, ev[i].data, sizeof(word));
		assert_int_equal(word, t->heard[ev[i].lane]++);
	}
}

static bool all_heard(const struct talker *t)
{
	for (unsigned lane = 0; lane <= LANES; lane++)
		if (t->heard[lane] < WORDS)
			return false;
	return true;
}

static void talk(uint64_t seed)
{
	struct rf_fabric_config config = verbs_config();
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct pair pair;

	fake_reset();
	config.lanes = LANES;
	pair_open(&pair, &config);
	struct talker sides[2] = {{.f = pair.p.source}, {.f = pair.p.destination}};
	/* Some sides are eager to speak, some to hear, some wires are slow. */
	unsigned eager = 1 + next_random(&random) % 8, deaf = 1 + next_random(&random) % 8,
		 slow = next_random(&random) % 8;

	for (unsigned steps = 0; !all_heard(&sides[0]) || !all_heard(&sides[1]); steps++) {
		struct talker *t = &sides[next_random(&random) % 2];

		assert_true(steps < 4000000); /* nobody waits for the other for ever */
		for (unsigned i = 0; i < eager; i++)
			speak(t, (unsigned)(next_random(&random) % (1 + LANES)));
		if (next_random(&random) % 8 >= slow)
			fake_step(next_random(&random));
		if (next_random(&random) % deaf == 0)
			listen_up(t, 1 + (int)(next_random(&random) % 8));
	}
	pair_close(&pair);
}

static void talks(void **state)
{
	for (uint64_t seed = 1; seed <= 40; seed++)
		talk(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits),
	    cmocka_unit_test(completions),
	    cmocka_unit_test(room_for_messages),
	    cmocka_unit_test(written_before_its_answer),
	    cmocka_unit_test(message_stays),
	    cmocka_unit_test(talks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
