// SPDX-License-Identifier: LGPL-2.1-or-later
/* A peer past the preamble that breaks every rule: the fabric tells so in one sentence, touches nothing that it was not
 * given, and can always be closed. */
#include "tests/unit/fabric/raw_peer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGE = 4096, FRONT = 4, GIVEN = 8, ALL = 16 }; /* pages: the peer is given [FRONT, FRONT + GIVEN) */

struct target {
	unsigned char *all, *given;
	uint64_t key;
};

static void give(struct rf_fabric *f, struct target *t)
{
	t->all = mmap(NULL, ALL * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t->all, MAP_FAILED);
	t->given = t->all + FRONT * PAGE;
	assert_int_equal(f->ops->reg(f, t->given, GIVEN * PAGE, RF_ACCESS_REMOTE_WRITE, 1), 0);
	struct rf_event ev = raw_event(f);

	assert_int_equal(ev.kind, RF_EV_REGISTERED);
	assert_int_equal(ev.status, 0);
	t->key = ev.key.value[0];
}

static void expect_clean(const struct target *t, bool given_too)
{
	for (size_t i = 0; i < ALL * PAGE; i++)
		if (given_too || t->all + i < t->given || t->all + i >= t->given + GIVEN * PAGE)
			if (t->all[i])
				fail_msg("byte %zu was touched", i);
}

struct frame {
	struct rf_tcp_frame head;
	struct rf_tcp_vector vectors[4];
	unsigned char bytes[4 * PAGE];
} __attribute__((packed));

/* One write of a page to the start of what was given, all as it should be. */
static struct frame good_frame(const struct target *t)
{
	struct frame f = {
	    .head = {.kind = RF_TCP_WRITES, .count = 1, .bytes = PAGE},
	    .vectors = {{.remote = (uintptr_t)t->given, .key = t->key, .length = PAGE}},
	};

	return f;
}

static void send_frame(int fd, const struct frame *f)
{
	raw_send(fd, &f->head, sizeof(f->head));
	raw_send(fd, f->vectors, f->head.count * sizeof(f->vectors[0]));
	raw_send(fd, f->bytes, f->head.bytes);
}

static void test_good(void **state)
{
	struct raw_pair p;
	struct target t;

	raw_pair_open(&p, 1);
	give(p.f, &t);
	struct frame f = good_frame(&t);

	/* Two pieces, the second before the first in memory; in little bits. */
	f.head.count = 2;
	f.head.bytes = 300;
	f.vectors[0] = (struct rf_tcp_vector){.remote = (uintptr_t)t.given + 1000, .key = t.key, .length = 100};
	f.vectors[1] = (struct rf_tcp_vector){.remote = (uintptr_t)t.given + 1, .key = t.key, .length = 200};
	memset(f.bytes, 1, 100);
	memset(f.bytes + 100, 2, 200);
	raw_send(p.fds[1], &f.head, 3);
	raw_send(p.fds[1], (char *)&f.head + 3, sizeof(f.head) - 3);
	raw_send(p.fds[1], f.vectors, 25);
	raw_send(p.fds[1], (char *)f.vectors + 25, 2 * sizeof(f.vectors[0]) - 25);
	for (int i = 0; i < 300; i++)
		raw_send(p.fds[1], f.bytes + i, 1);
	raw_send(p.fds[1], &(struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .bytes = 2}, sizeof(struct rf_tcp_frame));
	raw_send(p.fds[1], "hi", 2);
	struct rf_event ev = raw_event(p.f);

	assert_int_equal(ev.kind, RF_EV_MESSAGE);
	assert_int_equal(ev.length, 2);
	assert_memory_equal(ev.data, "hi", 2);
	assert_memory_equal(t.given + 1000, f.bytes, 100);
	assert_memory_equal(t.given + 1, f.bytes + 100, 200);
	assert_int_equal(t.given[0] + t.given[201] + t.given[999] + t.given[1100], 0);
	expect_clean(&t, false);
	raw_pair_close(&p);
	munmap(t.all, ALL * PAGE);
}

/* ---- bad frames ---- */

static void bad_kind(struct frame *f)
{
	f->head.kind = 3;
}

static void no_vectors(struct frame *f)
{
	f->head.count = 0;
}

static void too_many_vectors(struct frame *f)
{
	f->head.count = RF_TCP_MAX_VECTORS + 1;
}

static void too_many_bytes(struct frame *f)
{
	f->head.bytes = (uint64_t)RF_TCP_MAX_FRAME_BYTES + 1;
}

static void sum_too_small(struct frame *f)
{
	f->head.bytes = PAGE + 1;
}

static void sum_too_large(struct frame *f)
{
	f->head.bytes = PAGE - 1;
}

static void empty_vector(struct frame *f)
{
	f->head.count = 2;
	f->vectors[1] = f->vectors[0];
	f->vectors[0].length = 0;
}

static void second_outside(struct frame *f)
{
	f->head.count = 2;
	f->head.bytes = 2 * PAGE;
	f->vectors[1] = f->vectors[0];
	f->vectors[1].remote += GIVEN * PAGE;
}

static void one_byte_behind(struct frame *f)
{
	f->vectors[0].remote += (GIVEN - 1) * PAGE + 1;
}

static void one_byte_before(struct frame *f)
{
	f->vectors[0].remote -= 1;
}

static void reserved_bits(struct frame *f)
{
	f->vectors[0].zero = 1;
}

static void message_too_long(struct frame *f)
{
	f->head = (struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .bytes = RF_TCP_MAX_MESSAGE_BYTES + 1};
}

static void message_with_count(struct frame *f)
{
	f->head = (struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .count = 1, .bytes = 5};
}

struct bad {
	void (*spoil)(struct frame *f);
	const char *sentence;
	unsigned lane;
};

static void test_bad_frames(void **state)
{
	static const struct bad all[] = {
	    {bad_kind, "a frame of unknown kind", 1},
	    {no_vectors, "a batch of impossible size", 1},
	    {too_many_vectors, "a batch of impossible size", 1},
	    {too_many_bytes, "a batch of impossible size", 1},
	    {sum_too_small, "the lengths of a batch do not add up", 1},
	    {sum_too_large, "the lengths of a batch do not add up", 1},
	    {empty_vector, "the lengths of a batch do not add up", 1},
	    {reserved_bits, "the lengths of a batch do not add up", 1},
	    {second_outside, "which it was not given: nothing was written", 1},
	    {one_byte_behind, "which it was not given: nothing was written", 1},
	    {one_byte_before, "which it was not given: nothing was written", 1},
	    {message_too_long, "a message of impossible size", 1},
	    {message_with_count, "a message of impossible size", 1},
	    {sum_too_small, "writes on the control lane", 0},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct raw_pair p;
		struct target t;

		raw_pair_open(&p, 1);
		give(p.f, &t);
		struct frame f = good_frame(&t);

		memset(f.bytes, 0xee, sizeof(f.bytes));
		all[i].spoil(&f);
		raw_send(p.fds[all[i].lane], &f, sizeof(f));
		raw_expect_loss(p.f, all[i].sentence);
		expect_clean(&t, true);
		raw_pair_close(&p);
		munmap(t.all, ALL * PAGE);
	}
}

/* The end in the middle of something. */
static void test_cut_frames(void **state)
{
	static const size_t cuts[] = {1, 15, 16, 17, 39, 40, 41, 1000, PAGE + 39};

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct raw_pair p;
		struct target t;

		raw_pair_open(&p, 1);
		give(p.f, &t);
		struct frame f = good_frame(&t);
		unsigned char flat[sizeof(f)];

		memcpy(flat, &f.head, sizeof(f.head));
		memcpy(flat + 16, f.vectors, 24);
		memset(flat + 40, 0xee, PAGE);
		raw_send(p.fds[1], flat, cuts[i]);
		shutdown(p.fds[1], SHUT_WR);
		raw_expect_loss(p.f, "closed the connection in the middle of a transfer");
		expect_clean(&t, false);
		raw_pair_close(&p);
		munmap(t.all, ALL * PAGE);
	}
}

/* Release while a write is half done: RELEASED comes when the write has ended, not before. */
static void test_release_waits_for_write(void **state)
{
	struct raw_pair p;
	struct rf_event ev;
	struct target t;

	raw_pair_open(&p, 1);
	give(p.f, &t);
	struct frame f = good_frame(&t);

	memset(f.bytes, 7, PAGE);
	raw_send(p.fds[1], &f.head, sizeof(f.head));
	raw_send(p.fds[1], f.vectors, sizeof(f.vectors[0]));
	raw_send(p.fds[1], f.bytes, 100);
	/* The first bytes show that the receiver is at it. */
	while (*(volatile unsigned char *)t.given != 7)
		sched_yield();
	assert_int_equal(p.f->ops->dereg(p.f, (struct rf_key){.value = {t.key}}, 4), 0);
	assert_int_equal(p.f->ops->poll(p.f, &ev, 1, MILLIS(20)), 0);
	/* The key is dead already, though. */
	assert_int_equal(p.f->ops->dereg(p.f, (struct rf_key){.value = {t.key}}, 5), -1);
	raw_send(p.fds[1], f.bytes + 100, PAGE - 100);
	ev = raw_event(p.f);
	assert_int_equal(ev.kind, RF_EV_RELEASED);
	assert_int_equal(ev.cookie, 4);
	send_frame(p.fds[1], &f);
	raw_expect_loss(p.f, "which it was not given");
	raw_pair_close(&p);
	munmap(t.all, ALL * PAGE);
}

/* ---- noise ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Good frames and messages, of which some bytes of head and vectors are spoiled now and then. */
static void send_noise(struct raw_pair *p, const struct target *t, uint64_t *state)
{
	for (int i = 0; i < 20; i++) {
		struct frame f = good_frame(t);
		unsigned char *head = (unsigned char *)&f;
		size_t head_bytes = sizeof(f.head) + sizeof(f.vectors);

		f.head.count = 1 + (uint32_t)(next_random(state) % 4);
		f.head.bytes = 0;
		for (unsigned k = 0; k < f.head.count; k++) {
			uint64_t at = next_random(state) % (GIVEN * PAGE - 256);

			f.vectors[k] = (struct rf_tcp_vector){(uintptr_t)t->given + at, t->key,
							      1 + (uint32_t)(next_random(state) % 256), 0};
			f.head.bytes += f.vectors[k].length;
		}
		memset(f.bytes, 0xa5, sizeof(f.bytes));
		if (next_random(state) % 4 == 0)
			f.head = (struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .bytes = next_random(state) % 2000};
		uint64_t bytes = f.head.bytes, count = f.head.kind == RF_TCP_WRITES ? f.head.count : 0;

		if (next_random(state) % 8 == 0)
			head[next_random(state) % head_bytes] ^= (unsigned char)(1 << next_random(state) % 8);
		raw_send(p->fds[1], &f.head, sizeof(f.head));
		raw_send(p->fds[1], f.vectors, count * sizeof(f.vectors[0]));
		raw_send(p->fds[1], f.bytes, bytes);
	}
}

static void drain_until_loss(struct rf_fabric *f)
{
	while (raw_event(f).kind != RF_EV_LOST)
		;
}

static void test_spoiled_frames(void **state)
{
	for (uint64_t seed = 1; seed <= 150; seed++) {
		uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
		struct raw_pair p;
		struct target t;

		raw_pair_open(&p, 1);
		give(p.f, &t);
		send_noise(&p, &t, &random);
		shutdown(p.fds[1], SHUT_WR);
		drain_until_loss(p.f);
		expect_clean(&t, false);
		raw_pair_close(&p);
		munmap(t.all, ALL * PAGE);
	}
}

static void test_pure_noise(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15), noise[500];
		struct raw_pair p;
		struct target t;

		raw_pair_open(&p, 1);
		give(p.f, &t);
		for (size_t i = 0; i < 500; i++)
			noise[i] = next_random(&random);
		/* A known kind in front gets further in. */
		if (seed % 2)
			noise[0] = 1 + seed % 4 / 2 + ((random % 1023) << 32);
		raw_send(p.fds[seed % 2], noise, sizeof(noise));
		shutdown(p.fds[seed % 2], SHUT_WR);
		drain_until_loss(p.f);
		expect_clean(&t, true);
		raw_pair_close(&p);
		munmap(t.all, ALL * PAGE);
	}
}

/* ---- greed and silence ---- */

/* Messages that nobody polls away must not fill our memory. */
static void test_inbox_is_bounded(void **state)
{
	enum { LENGTH = 1 << 20, LIMIT = 200 };
	struct rf_tcp_frame head = {.kind = RF_TCP_MESSAGE, .bytes = LENGTH};
	unsigned char *bytes = calloc(1, sizeof(head) + LENGTH);
	size_t sent = 0, whole = sizeof(head) + LENGTH;
	struct raw_pair p;
	int quiet = 0;

	assert_non_null(bytes);
	memcpy(bytes, &head, sizeof(head));
	raw_pair_open(&p, 1);
	while (quiet < 20 && sent < LIMIT * whole) {
		size_t at = sent % whole;
		ssize_t n = send(p.fds[1], bytes + at, whole - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			sent += (size_t)n;
			quiet = 0;
		} else {
			assert_int_equal(errno, EAGAIN);
			quiet++;
			usleep(5000);
		}
	}
	assert_true(sent < LIMIT * whole);
	/* The control lane still works. */
	raw_send(p.fds[0], &(struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .bytes = 2}, sizeof(head));
	raw_send(p.fds[0], "hi", 2);
	struct rf_event ev;

	do {
		ev = raw_event(p.f);
		assert_int_equal(ev.kind, RF_EV_MESSAGE);
	} while (ev.lane != 0);
	raw_pair_close(&p);
	free(bytes);
}

/* A peer that reads nothing: the queue fills, close() takes its second and not more. */
static void test_frozen_peer(void **state)
{
	unsigned char *bytes = calloc(1, 1 << 20);
	struct raw_pair p;
	unsigned taken = 0;
	int r;

	assert_non_null(bytes);
	raw_pair_open(&p, 1);
	while ((r = p.f->ops->send(p.f, 1, bytes, 1 << 20)) == 1 ||
	       p.f->ops->poll(p.f, &(struct rf_event){0}, 1, MILLIS(200)))
		assert_true((taken += r == 1) < 200);
	assert_int_equal(r, 0);
	int64_t before = p.f->ops->now(p.f);

	p.f->ops->close(p.f);
	int64_t lasted = rf_fabric_tcp.now(NULL) - before;

	assert_true(lasted >= MILLIS(900) && lasted < MILLIS(3000));
	for (unsigned i = 0; i < p.count; i++)
		close(p.fds[i]);
	free(bytes);
}

/* A peer that vanishes with a reset, while we wait for it. */
static void test_reset(void **state)
{
	struct linger reset = {.l_onoff = 1, .l_linger = 0};
	struct raw_pair p;

	raw_pair_open(&p, 1);
	assert_int_equal(setsockopt(p.fds[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	close(p.fds[1]);
	p.fds[1] = -1;
	raw_expect_loss(p.f, "Connection reset by peer");
	raw_pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_bad_frames),
	    cmocka_unit_test(test_cut_frames),
	    cmocka_unit_test(test_release_waits_for_write),
	    cmocka_unit_test(test_spoiled_frames),
	    cmocka_unit_test(test_pure_noise),
	    cmocka_unit_test(test_inbox_is_bounded),
	    cmocka_unit_test(test_frozen_peer),
	    cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
