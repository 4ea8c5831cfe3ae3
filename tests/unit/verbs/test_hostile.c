// SPDX-License-Identifier: LGPL-2.1-or-later
/* Frames and introductions that no ramferry sends. */
#include "fabric/verbs_wire.h"
#include "tests/unit/verbs/pair.h"

#include <endian.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MS INT64_C(1000000)

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

struct frame {
	struct rf_verbs_frame head;
	unsigned char body[RF_VERBS_MIN_MESSAGE_BYTES + 48];
};

static void frame_is_refused(unsigned lane, const struct frame *frame, uint32_t bytes, const char *sentence)
{
	struct pair pair;

	fake_reset();
	pair_open(&pair, NULL);
	assert_true(fake_deliver(destination_lane(lane), frame, bytes));
	pair_is_lost(pair.p.destination, sentence);
	pair_close(&pair);
}

static void frames(void **state)
{
	static struct frame f;
	uint32_t counts[2] = {1, 0};

	f.head = (struct rf_verbs_frame){.kind = RF_VERBS_MESSAGE, .length = 4};
	frame_is_refused(0, &f, 15, "broke the rules on lane 0: it sent a frame of another length than it says");
	frame_is_refused(1, &f, 16, "broke the rules on lane 1: it sent a frame of another length than it says");
	frame_is_refused(1, &f, 21, "a frame of another length than it says");
	f.head.length = UINT32_MAX;
	frame_is_refused(1, &f, 20, "a frame of another length than it says");
	f.head = (struct rf_verbs_frame){.kind = 3, .length = 4};
	frame_is_refused(0, &f, 20, "a frame of no kind that we know");
	f.head = (struct rf_verbs_frame){.kind = RF_VERBS_MESSAGE, .length = RF_VERBS_MIN_MESSAGE_BYTES + 1};
	frame_is_refused(0, &f, sizeof(f.head) + f.head.length, "too long a message");
	f.head = (struct rf_verbs_frame){.kind = RF_VERBS_MESSAGE, .length = 4, .zero = 1};
	frame_is_refused(0, &f, 20, "something in it that is always zero");
	f.head = (struct rf_verbs_frame){.kind = RF_VERBS_MESSAGE, .length = 4, .given_back = 1};
	frame_is_refused(1, &f, 20, "something in it that is always zero");
	frame_is_refused(0, &f, 20, "more credits than it was ever asked for");
	f.head = (struct rf_verbs_frame){.kind = RF_VERBS_CREDITS, .length = 8};
	frame_is_refused(1, &f, 24, "a frame of no kind that we know");
	memcpy(f.body, counts, sizeof(counts));
	frame_is_refused(0, &f, 24, "more credits than it was ever asked for");
	f.head.length = 4;
	frame_is_refused(0, &f, 20, "a frame of credits of another length than it has");
}

/* A write that tells a number takes a receive, in whose buffer an older message may still stand. */
static void no_messages(void **state)
{
	static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_SEND};
	struct frame f = {.head = {.kind = RF_VERBS_MESSAGE, .length = 4}};

	for (unsigned i = 0; i < 2; i++) {
		struct pair pair;

		fake_reset();
		pair_open(&pair, NULL);
		fake.receive_opcode = opcodes[i];
		assert_true(fake_deliver(destination_lane(1), &f, 20));
		pair_is_lost(pair.p.destination, "broke the rules on lane 1: it sent something that is no message");
		pair_close(&pair);
	}
}

/* Whatever comes, it is a message of the length it says, or the end. */
static void random_frames(void **state)
{
	uint64_t random = 77;
	static struct frame f;

	for (int round = 0; round < 300; round++) {
		struct pair pair;
		struct rf_event ev;

		fake_reset();
		pair_open(&pair, NULL);
		unsigned lane = (unsigned)(next_random(&random) % 2);
		uint32_t bytes = (uint32_t)(next_random(&random) % 64);

		f.head = (struct rf_verbs_frame){
		    .kind = (uint32_t)(next_random(&random) % 4),
		    .length = next_random(&random) % 4 ? bytes - 16 : (uint32_t)next_random(&random),
		    .given_back = (uint32_t)(next_random(&random) % 3 ? 0 : next_random(&random)),
		    .zero = next_random(&random) % 8 == 0,
		};
		memset(f.body, next_random(&random) % 2 ? 0 : 0xff, 64);
		assert_true(fake_deliver(destination_lane(lane), &f, bytes));
		int n = pair.p.destination->ops->poll(pair.p.destination, &ev, 1, 0);

		if (n && ev.kind == RF_EV_MESSAGE)
			assert_true(ev.length == bytes - 16 && ev.lane == lane && f.head.kind == RF_VERBS_MESSAGE);
		else
			assert_true(!n || ev.kind == RF_EV_LOST);
		pair_close(&pair);
	}
}

/* ---- introductions at our door ---- */

struct waiting {
	struct rf_fabric *f;
	struct rf_error e;
	bool accepted;
};

static void *accept_main(void *arg)
{
	struct waiting *w = arg;

	w->accepted = w->f->ops->accept(w->f, 60000 * MS, &w->e) == 0;
	return NULL;
}

static int knock(uint16_t port, const void *data, size_t length, struct rf_verbs_hello *said)
{
	int result;

	fake_knock(port, data, length);
	while (!(result = fake_knock_answer(said, sizeof(*said))))
		sched_yield();
	return result;
}

static struct rf_verbs_hello hello(void)
{
	return (struct rf_verbs_hello){
	    .magic = {'r', 'a', 'm', 'f', 'e', 'r', 'r', 'y'},
	    .version = RF_VERBS_VERSION,
	    .status = RF_VERBS_HELLO,
	    .lanes = 2,
	    .token = "stranger",
	    .buffers = 4,
	    .max_message_bytes = RF_VERBS_MIN_MESSAGE_BYTES,
	};
}

static void refused(uint16_t port, struct rf_verbs_hello h, enum rf_verbs_status status)
{
	struct rf_verbs_hello said = {0};

	assert_int_equal(knock(port, &h, sizeof(h), &said), 2);
	assert_int_equal(said.status, status);
	assert_memory_equal(said.magic, RF_VERBS_MAGIC, 8);
}

static void introductions(void **state)
{
	struct rf_verbs_hello h, said;
	uint32_t qemu[2] = {htobe32(1), 0};
	struct waiting w = {0};
	struct rf_uri where;
	uint64_t random = 5;
	pthread_t thread;

	fake_reset();
	*verbs_log = '\0';
	w.f = verbs_listen(&where, &w.e);
	assert_non_null(w.f);
	pthread_create(&thread, NULL, accept_main, &w);
	assert_int_equal(knock(where.port, qemu, sizeof(qemu), &said), 2);
	h = hello();
	h.version = 2;
	refused(where.port, h, RF_VERBS_VERSION_DIFFERS);
	h = hello();
	h.lane = 3;
	refused(where.port, h, RF_VERBS_BAD);
	h = hello();
	h.lanes = 65;
	refused(where.port, h, RF_VERBS_BAD);
	h = hello();
	h.buffers = UINT32_MAX;
	refused(where.port, h, RF_VERBS_BAD);
	h = hello();
	h.status = RF_VERBS_WELCOME;
	refused(where.port, h, RF_VERBS_BAD);
	/* Bytes at random behind the magic. */
	for (int i = 0; i < 300; i++) {
		h = hello();
		for (unsigned k = 8; k < sizeof(h); k++)
			((unsigned char *)&h)[k] = (unsigned char)next_random(&random);
		assert_int_equal(knock(where.port, &h, sizeof(h), &said), 2);
	}
	/* The first that fits holds the door for 5 s; another one is told so. */
	h = hello();
	assert_int_equal(knock(where.port, &h, sizeof(h), &said), 1);
	assert_int_equal(said.status, RF_VERBS_WELCOME);
	h.token[0] ^= 1;
	h.lane = 1;
	refused(where.port, h, RF_VERBS_BUSY);
	w.f->ops->wake(w.f);
	pthread_join(thread, NULL);
	assert_false(w.accepted);
	assert_int_equal(w.e.code, RF_E_CANCELLED);
	w.f->ops->close(w.f);
	assert_int_equal(fake.things, 0);
	pair_contains(verbs_log, "it looks like QEMU's own rdma: migration");
	pair_contains(verbs_log, "it speaks version 2 of ramferry's rdma fabric, we speak 1");
}

/* ---- introductions of those we call ---- */

static void call(const char *sentence)
{
	struct rf_uri where = {.scheme = "rdma", .host = "10.0.0.1", .port = 9};
	struct rf_fabric_config config = verbs_config();
	struct rf_error e = {0};
	struct rf_fabric *f;

	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	assert_int_equal(f->ops->connect(f, &where, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	pair_contains(e.text, "10.0.0.1:9");
	pair_contains(e.text, sentence);
	f->ops->close(f);
	assert_int_equal(fake.things, 0);
	assert_int_equal(fake.registered, 0);
}

static void answers(void **state)
{
	struct rf_verbs_hello h;
	uint32_t qemu[2] = {htobe32(1), htobe32(1)};

	fake_reset();
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, qemu, sizeof(qemu));
	call("is no ramferry: it looks like QEMU's own rdma: migration");
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	call("is no ramferry: what it says of itself is nothing that we know");
	h = hello();
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, &h, sizeof(h));
	call("answers with something that makes no sense (status 0)");
	h.status = RF_VERBS_WELCOME;
	h.max_message_bytes = 100;
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, &h, sizeof(h));
	call("answers with something that makes no sense (status 1)");
	h.version = 3;
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, &h, sizeof(h));
	call("speaks version 3 of ramferry's rdma fabric, we speak 1");
	fake_answer(RDMA_CM_EVENT_REJECTED, 28, &h, sizeof(h));
	call("speaks version 3 of ramferry's rdma fabric, we speak 1");
	h = hello();
	h.status = RF_VERBS_BUSY;
	fake_answer(RDMA_CM_EVENT_REJECTED, 28, &h, sizeof(h));
	call("is busy with another source");
	fake_answer(RDMA_CM_EVENT_REJECTED, 28, NULL, 0);
	call("sent us away without a word: it is no ramferry (a QEMU's own rdma: perhaps), or has stopped waiting");
	fake_answer(RDMA_CM_EVENT_REJECTED, 4, NULL, 0);
	call("rejected the connection (reason 4)");
	fake_answer(RDMA_CM_EVENT_UNREACHABLE, -110, NULL, 0);
	call("does not answer");
	fake_answer(0, 0, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames),        cmocka_unit_test(no_messages), cmocka_unit_test(random_frames),
	    cmocka_unit_test(introductions), cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
