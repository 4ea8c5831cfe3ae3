// SPDX-License-Identifier: LGPL-2.1-or-later
/* The impostor's two parts, played well. */
#include "tests/unit/engine/impostor.h"

#include <xxhash.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <string.h>

static const uint64_t MAGIC = 0x59525245464d4152ull;

void impostor_say_hello(struct impostor *i, uint16_t version, const char *facts)
{
	static const char *const names[] = {"peer-timeout", "resolve-timeout"};
	struct rf_out *o = impostor_begin(i, RF_MSG_HELLO);
	rf_put_u64(o, MAGIC);
	rf_put_u16(o, version);
	rf_put_u16(o, version);
	rf_put_bytes(o, i->id, 16);
	rf_put_u32(o, RF_PAGE_BYTES);
	rf_put_u64(o, 0);
	rf_put_u64(o, 0);
	rf_put_text(o, "an impostor");
	rf_put_text(o, facts);
	rf_put_u16(o, 2);
	for (unsigned n = 0; n < 2; n++) {
		rf_put_text(o, names[n]);
		rf_put_u64(o, 5000000000);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

void impostor_say_blocks(struct impostor *i)
{
	struct rf_guest *g = i->player->guest;
	struct rf_out *o = impostor_begin(i, RF_MSG_BLOCKS);
	rf_put_u32(o, g->nblocks);
	for (unsigned n = 0; n < g->nblocks; n++) {
		rf_put_text(o, g->blocks[n]->name);
		rf_put_u64(o, g->blocks[n]->npages);
		rf_put_u64(o, g->blocks[n]->page_bytes);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

/* ---- a source ---- */

static void say_register(struct impostor *i, uint32_t first_id)
{
	struct rf_out *o = impostor_begin(i, RF_MSG_REGISTER);
	for (uint32_t n = 0; n < 3; n++) {
		rf_put_u32(o, first_id + n);
		rf_put_u32(o, n % PLAYER_BLOCKS);
		rf_put_u64(o, n * 100);
		rf_put_u64(o, 50);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

static void say_release(struct impostor *i, uint32_t id)
{
	for (unsigned lane = 1; lane <= STAGE_LANES; lane++) {
		struct rf_out *o = impostor_begin(i, RF_MSG_RELEASE);
		rf_put_u32(o, id);
		rf_put_u32(o, STAGE_LANES);
		impostor_say(i, lane);
	}
}

static void say_zero(struct impostor *i)
{
	struct rf_out *o = impostor_begin(i, RF_MSG_ZERO);
	for (uint32_t n = 0; n < 2; n++) {
		rf_put_u32(o, n);
		rf_put_u64(o, 10 + n);
		rf_put_u64(o, 20);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

static void say_round_end(struct impostor *i, uint64_t zeros, bool final)
{
	for (unsigned lane = 0; lane <= STAGE_LANES; lane++) {
		struct rf_out *o = impostor_begin(i, RF_MSG_ROUND_END);
		rf_put_u64(o, i->rounds);
		rf_put_u64(o, lane ? 7 : zeros);
		rf_put_u8(o, final);
		impostor_say(i, lane);
	}
	i->rounds++;
}

enum { STATE_BYTES = 5000 };
static const struct {
	enum rf_message_type type;
	size_t length;
} pieces[] = {{RF_MSG_EARLY, 1000}, {RF_MSG_EARLY, 1000}, {RF_MSG_STATE, 2000}, {RF_MSG_STATE, 1000}};

static void say_state(struct impostor *i)
{
	uint8_t state[STATE_BYTES];
	memset(state, 's', sizeof(state));
	for (size_t n = 0; n < sizeof(pieces) / sizeof(pieces[0]); n++) {
		rf_put_bytes(impostor_begin(i, pieces[n].type), state, pieces[n].length);
		impostor_say(i, RF_LANE_CONTROL);
	}
}

static void say_load(struct impostor *i)
{
	uint8_t state[STATE_BYTES];
	memset(state, 's', sizeof(state));
	struct rf_out *o = impostor_begin(i, RF_MSG_LOAD);
	rf_put_u64(o, sizeof(state));
	uint64_t hash = 0;
	for (size_t n = 0; n < sizeof(pieces) / sizeof(pieces[0]); n++)
		hash = XXH3_64bits_withSeed(state, pieces[n].length, hash);
	rf_put_u64(o, hash);
	rf_put_u8(o, 1);
	impostor_say(i, RF_LANE_CONTROL);
}

static void say_digest(struct impostor *i)
{
	struct rf_out *o = impostor_begin(i, RF_MSG_DIGEST);
	for (uint32_t n = 0; n < PLAYER_BLOCKS; n++) {
		struct rf_block *b = i->player->guest->blocks[n];
		struct rf_digest digest;
		struct rf_error e;
		assert_int_equal(b->ops->digest(b, (struct rf_run){0, PLAYER_PAGES}, &digest, &e), 0);
		rf_put_u32(o, n);
		rf_put_u64(o, 0);
		rf_put_u64(o, PLAYER_PAGES);
		rf_put_u64(o, digest.low);
		rf_put_u64(o, digest.high);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

static void source_hears(struct impostor *i, unsigned lane, const struct rf_message *m)
{
	if (m->type == RF_MSG_KEYS)
		i->keys += (unsigned)(m->length / 28);
}

/* Waits for the answers that a source waits for, with everything between two of them in one breath. */
static bool source_says(struct impostor *i)
{
	switch (i->step) {
	case 0:
		impostor_say_hello(i, RF_WIRE_VERSION, "machine=stage");
		break;
	case 1:
		if (!i->heard[RF_MSG_HELLO])
			return false;
		impostor_say_blocks(i);
		break;
	case 2:
		if (!i->heard[RF_MSG_BLOCKS_OK])
			return false;
		say_register(i, 0);
		say_register(i, 3);
		say_zero(i);
		say_zero(i);
		say_round_end(i, 4, false);
		break;
	case 3:
		if (!i->heard[RF_MSG_ROUND_OK] || i->keys < 6)
			return false;
		say_release(i, 4);
		say_zero(i);
		say_round_end(i, 2, false);
		break;
	case 4:
		if (i->heard[RF_MSG_ROUND_OK] < 2)
			return false;
		say_state(i);
		say_register(i, 6);
		say_round_end(i, 0, true);
		break;
	case 5:
		if (i->heard[RF_MSG_ROUND_OK] < 3)
			return false;
		say_digest(i);
		break;
	case 6:
		if (!i->heard[RF_MSG_DIGEST_OK])
			return false;
		say_load(i);
		break;
	case 7:
		if (!i->heard[RF_MSG_READY])
			return false;
		rf_put_bytes(impostor_begin(i, RF_MSG_COMMIT), i->id, 16);
		impostor_say(i, RF_LANE_CONTROL);
		break;
	default:
		return false;
	}
	i->step++;
	return true;
}

void impostor_plays_source(struct impostor *i)
{
	i->hear = source_hears;
	i->next = source_says;
}

/* ---- a destination ---- */

static void answer_register(struct impostor *i, const struct rf_message *m)
{
	struct rf_in in = rf_in_body(m);
	struct rf_out *o = impostor_begin(i, RF_MSG_KEYS);
	while (rf_in_more(&in)) {
		uint32_t id = rf_get_u32(&in), block = rf_get_u32(&in);
		uint64_t first = rf_get_u64(&in);
		rf_get_u64(&in);
		rf_put_u32(o, id);
		rf_put_u64(o, (UINT64_C(0x1000000) << block) + (first << RF_PAGE_SHIFT));
		rf_put_u64(o, id + 1);
		rf_put_u64(o, 0);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

static void answer_release(struct impostor *i, const struct rf_message *m)
{
	struct rf_in in = rf_in_body(m);
	struct rf_out *o = impostor_begin(i, RF_MSG_RELEASED);
	while (rf_in_more(&in)) {
		rf_put_u32(o, rf_get_u32(&in));
		rf_get_u32(&in);
	}
	impostor_say(i, RF_LANE_CONTROL);
}

static void say_number(struct impostor *i, enum rf_message_type type, uint64_t number)
{
	rf_put_u64(impostor_begin(i, type), number);
	impostor_say(i, RF_LANE_CONTROL);
}

static void destination_hears(struct impostor *i, unsigned lane, const struct rf_message *m)
{
	switch (m->type) {
	case RF_MSG_HELLO:
		impostor_say_hello(i, RF_WIRE_VERSION, "machine=stage");
		break;
	case RF_MSG_BLOCKS:
		impostor_begin(i, RF_MSG_BLOCKS_OK);
		impostor_say(i, RF_LANE_CONTROL);
		break;
	case RF_MSG_REGISTER:
		answer_register(i, m);
		break;
	case RF_MSG_RELEASE:
		answer_release(i, m);
		break;
	case RF_MSG_ROUND_END:
		if (++i->ended_lanes < STAGE_LANES + 1)
			break;
		i->ended_lanes = 0;
		say_number(i, RF_MSG_ROUND_OK, i->rounds++);
		break;
	case RF_MSG_DIGEST:
		say_number(i, RF_MSG_DIGEST_OK, ++i->digests);
		break;
	case RF_MSG_LOAD:
		say_number(i, RF_MSG_READY, 5);
		break;
	case RF_MSG_COMMIT:
		rf_put_bytes(impostor_begin(i, RF_MSG_RUNNING), i->id, 16);
		impostor_say(i, RF_LANE_CONTROL);
		break;
	default:
		break;
	}
}

static bool destination_says(struct impostor *i)
{
	return false;
}

void impostor_plays_destination(struct impostor *i)
{
	i->hear = destination_hears;
	i->next = destination_says;
}
