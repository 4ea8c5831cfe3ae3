// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/chunks.h"
#include "tests/unit/engine/quiet_fabric.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MIB_PAGES = 256, BLOCK_PAGES = 64 * MIB_PAGES };

struct fixture {
	struct quiet_fabric *q;
	struct rf_guest guest;
	struct rf_block block, *blocks[1];
	struct rf_pages pages;
	struct rf_chunks chunks;
	struct rf_error e;
};

static struct fixture *open_chunks(uint64_t chunk_mib, uint64_t max_pinned_mib, uint64_t page_bytes)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->block = (struct rf_block){.name = "ram", .npages = BLOCK_PAGES, .page_bytes = page_bytes};
	f->blocks[0] = &f->block;
	f->guest = (struct rf_guest){.blocks = f->blocks, .nblocks = 1};
	f->q = quiet_fabric_new(&f->guest);
	f->q->options.chunk_size_bytes = chunk_mib << 20;
	f->q->options.max_pinned_bytes = max_pinned_mib << 20;
	assert_int_equal(rf_pages_init(&f->pages, BLOCK_PAGES, &f->e), 0);
	assert_int_equal(rf_chunks_open(&f->chunks, &f->q->peer, &f->q->stats, false, &f->e), 0);
	return f;
}

static void close_chunks(struct fixture *f)
{
	rf_chunks_free(&f->chunks);
	rf_pages_free(&f->pages);
	quiet_fabric_free(f->q);
	free(f);
}

struct asked {
	uint32_t id, block;
	uint64_t first, count;
};

/* What the n-th message asks for. */
static int asked(struct fixture *f, int n, struct asked *a)
{
	struct rf_message m = quiet_sent(f->q, n);
	struct rf_in in = rf_in_body(&m);
	int count = 0;
	assert_int_equal(m.type, RF_MSG_REGISTER);
	for (; rf_in_more(&in); count++) {
		a[count].id = rf_get_u32(&in);
		a[count].block = rf_get_u32(&in);
		a[count].first = rf_get_u64(&in);
		a[count].count = rf_get_u64(&in);
	}
	return count;
}

static int give_key(struct fixture *f, uint32_t id, uint64_t remote)
{
	static struct rf_out o;
	rf_out_begin(&o, RF_MSG_KEYS);
	rf_put_u32(&o, id);
	rf_put_u64(&o, remote);
	rf_put_u64(&o, id + 100);
	rf_put_u64(&o, 0);
	struct rf_message m = quiet_message(&o);
	return rf_chunks_keys(&f->chunks, &m, &f->e);
}

static int say_released(struct fixture *f, uint32_t id)
{
	static struct rf_out o;
	rf_out_begin(&o, RF_MSG_RELEASED);
	rf_put_u32(&o, id);
	struct rf_message m = quiet_message(&o);
	return rf_chunks_released(&f->chunks, &m, &f->e);
}

static int want(struct fixture *f, uint64_t page)
{
	return rf_chunks_want(&f->chunks, 0, page, &f->pages, &f->e);
}

static void span_covers_the_data_not_the_chunk(void **state)
{
	struct fixture *f = open_chunks(64, 0, 4096);
	struct asked a[8];
	rf_pages_add(&f->pages, 100, 3);
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 1);
	assert_int_equal(a[0].first, 100);
	assert_int_equal(a[0].count, 3);

	struct rf_chunk *chunk = rf_chunks_at(&f->chunks, 0, 100);
	assert_null(rf_chunks_span(&f->chunks, chunk, 100)); /* no key yet */
	assert_int_equal(give_key(f, a[0].id, 0x7000), 0);
	const struct rf_span *s = rf_chunks_span(&f->chunks, chunk, 102);
	assert_non_null(s);
	assert_int_equal(s->remote, 0x7000);
	assert_null(rf_chunks_span(&f->chunks, chunk, 99));
	assert_null(rf_chunks_span(&f->chunks, chunk, 103));
	close_chunks(f);
}

static void covered_pages_are_not_asked_for_again(void **state)
{
	struct fixture *f = open_chunks(64, 0, 4096);
	struct asked a[8];
	rf_pages_add(&f->pages, 100, 10);
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(want(f, 0), 1);
	rf_pages_add(&f->pages, 90, 30); /* around what is there */
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 3);
	assert_int_equal(a[1].first, 90);
	assert_int_equal(a[1].count, 10);
	assert_int_equal(a[2].first, 110);
	assert_int_equal(a[2].count, 10);
	close_chunks(f);
}

static void scattered_pages_share_a_few_spans(void **state)
{
	struct fixture *f = open_chunks(64, 0, 4096); /* the fabric likes 4 spans per 64 MiB */
	struct asked a[8];
	for (uint64_t page = 0; page < BLOCK_PAGES; page += 7)
		if (page % 4096 < 1000)
			rf_pages_add(&f->pages, page, 1);
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 4);
	struct rf_run run;
	for (uint64_t at = 0; rf_pages_next(&f->pages, at, BLOCK_PAGES, &run); at = run.first + run.count) {
		bool covered = false;
		for (int i = 0; i < 4; i++)
			covered |= run.first >= a[i].first && run.first + run.count <= a[i].first + a[i].count;
		assert_true(covered);
	}
	for (int i = 0; i < 4; i++)
		assert_true(a[i].count <= 1007);
	close_chunks(f);
}

static void huge_pages_are_registered_whole(void **state)
{
	struct fixture *f = open_chunks(1, 0, 2 << 20); /* a chunk is at least a page of the mapping */
	struct asked a[8];
	rf_pages_add(&f->pages, 700, 1);
	assert_int_equal(want(f, 700), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 1);
	assert_int_equal(a[0].first, 512);
	assert_int_equal(a[0].count, 512);
	close_chunks(f);
}

static void least_recently_used_goes_first_and_counts_until_released(void **state)
{
	struct fixture *f = open_chunks(1, 2, 4096); /* room for two chunks */
	struct asked a[8];
	rf_pages_add(&f->pages, 0, 4 * MIB_PAGES);
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(want(f, MIB_PAGES), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 2);
	assert_int_equal(want(f, 2 * MIB_PAGES), 0); /* both are wanted */
	assert_int_equal(f->q->nsent, 1);

	assert_int_equal(give_key(f, a[0].id, 0), 0);
	assert_int_equal(give_key(f, a[1].id, 0), 0);
	struct rf_chunk *first = rf_chunks_at(&f->chunks, 0, 0), *second = rf_chunks_at(&f->chunks, 0, MIB_PAGES);
	rf_chunks_passed(&f->chunks, first);
	rf_chunks_passed(&f->chunks, second);
	first->in_flight = 1;
	assert_int_equal(want(f, 2 * MIB_PAGES), 0); /* the older one is being written: the other goes */
	struct rf_message m = quiet_sent(f->q, 1);
	assert_int_equal(m.type, RF_MSG_RELEASE);
	assert_memory_equal(m.body, &a[1].id, 4);
	assert_null(rf_chunks_span(&f->chunks, second, MIB_PAGES));
	assert_int_equal(want(f, 2 * MIB_PAGES), 0); /* it still counts */
	assert_int_equal(f->q->nsent, 2);
	assert_int_equal(say_released(f, a[1].id), 0);
	assert_int_equal(want(f, 2 * MIB_PAGES), 1);
	assert_true(f->chunks.pinned_bytes <= 2 << 20);
	first->in_flight = 0;
	close_chunks(f);
}

static void room_is_made_ahead_in_one_message(void **state)
{
	struct fixture *f = open_chunks(1, 8, 4096);
	struct asked a[8];
	rf_pages_add(&f->pages, 0, 9 * MIB_PAGES);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(want(f, i * MIB_PAGES), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 8);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(give_key(f, a[i].id, 0), 0);
		rf_chunks_passed(&f->chunks, rf_chunks_at(&f->chunks, 0, (uint64_t)i * MIB_PAGES));
	}
	assert_int_equal(want(f, 8 * MIB_PAGES), 0);
	/* The one that is needed, and a quarter. */
	assert_int_equal(f->q->nsent, 2);
	struct rf_message m = quiet_sent(f->q, 1);
	assert_int_equal(m.type, RF_MSG_RELEASE);
	assert_int_equal(m.length, 3 * 8);
	for (int i = 0; i < 3; i++)
		assert_int_equal(say_released(f, a[i].id), 0);
	assert_int_equal(want(f, 8 * MIB_PAGES), 1);
	close_chunks(f);
}

static void less_room_than_one_chunk_is_refused_beforehand(void **state)
{
	struct fixture *f = open_chunks(64, 0, 4096);
	assert_int_equal(rf_chunks_check(&f->guest, &f->q->options, &f->e), 0);
	f->q->options.max_pinned_bytes = 64 << 20;
	assert_int_equal(rf_chunks_check(&f->guest, &f->q->options, &f->e), 0);
	f->q->options.chunk_size_bytes = 128 << 20;
	assert_int_equal(rf_chunks_check(&f->guest, &f->q->options, &f->e), -1);
	assert_int_equal(f->e.code, RF_E_USAGE);
	assert_string_equal(f->e.text, "max-pinned is smaller than one chunk of the block ram");
	close_chunks(f);
}

static void peer_cannot_make_up_registrations(void **state)
{
	struct fixture *f = open_chunks(1, 0, 4096);
	struct asked a[8];
	assert_int_equal(give_key(f, 0, 0), -1);
	assert_string_equal(f->e.text, "the peer's KEYS name a registration that nobody asked for");
	rf_pages_add(&f->pages, 0, 1);
	assert_int_equal(want(f, 0), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	assert_int_equal(asked(f, 0, a), 1);
	assert_int_equal(give_key(f, a[0].id, 0), 0);
	assert_int_equal(give_key(f, a[0].id, 0), -1);
	assert_int_equal(give_key(f, 0xffffffff, 0), -1);
	assert_int_equal(say_released(f, a[0].id), -1);
	assert_string_equal(f->e.text, "the peer released a registration that nobody gave up");
	close_chunks(f);
}

static void many_asks_fit_into_messages(void **state)
{
	struct fixture *f = open_chunks(1, 0, 4096);
	f->q->base.limits.max_spans = 64 * 128;
	f->chunks.max_spans = 64 * 128;
	for (uint64_t page = 0; page < BLOCK_PAGES; page += 2)
		rf_pages_add(&f->pages, page, 1);
	for (uint64_t page = 0; page < BLOCK_PAGES; page += MIB_PAGES)
		assert_int_equal(want(f, page), 1);
	assert_int_equal(rf_chunks_flush(&f->chunks, &f->e), 0);
	int total = 0;
	static struct asked a[RF_BODY_BYTES_MAX / 24];
	for (int i = 0; i < f->q->nsent; i++)
		total += asked(f, i, a);
	assert_int_equal(total, BLOCK_PAGES / 2);
	close_chunks(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(span_covers_the_data_not_the_chunk),
	    cmocka_unit_test(covered_pages_are_not_asked_for_again),
	    cmocka_unit_test(scattered_pages_share_a_few_spans),
	    cmocka_unit_test(huge_pages_are_registered_whole),
	    cmocka_unit_test(least_recently_used_goes_first_and_counts_until_released),
	    cmocka_unit_test(room_is_made_ahead_in_one_message),
	    cmocka_unit_test(less_room_than_one_chunk_is_refused_beforehand),
	    cmocka_unit_test(peer_cannot_make_up_registrations),
	    cmocka_unit_test(many_asks_fit_into_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
