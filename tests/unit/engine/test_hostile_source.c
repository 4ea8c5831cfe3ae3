// SPDX-License-Identifier: LGPL-2.1-or-later
/* A destination whose source does not keep to the rules. Whatever comes: no crash, no wait without end, the guest is never
 * resumed without a good COMMIT for this migration, and memory that was touched is discarded. */
#include "tests/unit/engine/impostor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 4000, MESSAGES = 32 }; /* a good source says about 30 */

static struct player player;

/* ---- what must hold, whatever the source did ---- */

static void assert_destination_safe(const struct impostor *i, const struct run *r)
{
	const unsigned *calls = player.calls;

	if (r->result)
		assert_sentence(&r->error);
	if (calls[PLAYER_RESUME])
		assert_true(i->gave_commit);
	assert_true(calls[PLAYER_RESUME] <= 1 && calls[PLAYER_LOAD] <= 1 && calls[PLAYER_DISCARD] <= 1);
	assert_int_equal(!r->result, calls[PLAYER_RESUME] && !calls[PLAYER_DISCARD]);
	if (r->result)
		assert_int_equal(calls[PLAYER_DISCARD], calls[PLAYER_PREPARE]);
	/* A prober comes near no guest. */
	if (r->engine.probed)
		assert_int_equal(calls[PLAYER_PREPARE] + calls[PLAYER_LOAD] + calls[PLAYER_RESUME], 0);
	/* DISCARDED is true when it is said. */
	if (i->heard[RF_MSG_DISCARDED])
		assert_int_equal(calls[PLAYER_DISCARD], 1);
	assert_true(i->heard[RF_MSG_RUNNING] == !r->result || (!r->result && i->stage.lost));
	assert_true(i->stage.registered <= 9);
}

static void run(struct impostor *i, struct run *r)
{
	r->result = rf_destination_run(&r->engine, &r->error);
	assert_destination_safe(i, r);
	run_close(r, i);
}

static void test_good_source(void **state)
{
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct impostor i;
		struct run r;

		player_rewind(&player);
		impostor_open(&i, &player, seed);
		impostor_plays_source(&i);
		run_open(&r, &i);
		i.stage.tidy = seed == 0;
		i.stage.refuse_some = seed % 2;
		run(&i, &r);
		if (r.result)
			fail_msg("seed %llu: %s", (unsigned long long)seed, r.error.text);
		assert_int_equal(player.calls[PLAYER_RESUME], 1);
		assert_int_equal(i.heard[RF_MSG_RUNNING], 1);
	}
}

static void test_random_mischief(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct impostor i;
		struct run r;

		player_rewind(&player);
		impostor_open(&i, &player, seed);
		impostor_plays_source(&i);
		run_open(&r, &i);
		i.stage.refuse_some = stage_random(&i.stage, 2);
		i.ntricks = 1 + (unsigned)stage_random(&i.stage, IMPOSTOR_TRICKS);
		for (unsigned n = 0; n < i.ntricks; n++) {
			i.tricks[n].at = (unsigned)stage_random(&i.stage, MESSAGES);
			i.tricks[n].kind = (enum mischief)stage_random(&i.stage, MISCHIEFS);
		}
		for (unsigned op = 0; op < PLAYER_OPS; op++)
			player.fails[op] = !stage_random(&i.stage, 40);
		run(&i, &r);
	}
}

/* It does not say in HELLO that it understands a KEYS without memory, as sources of before did not. */
static void test_no_memory_for_an_old_source(void **state)
{
	struct impostor i;
	struct run r;

	player_rewind(&player);
	impostor_open(&i, &player, 1);
	impostor_plays_source(&i);
	run_open(&r, &i);
	i.stage.tidy = i.stage.no_memory = true;
	run(&i, &r);
	assert_int_equal(r.result, -1);
	assert_string_equal(r.error.text, "cannot register guest memory: no memory on this stage");
	assert_int_equal(i.heard[RF_MSG_KEYS], 0);
}

/* ---- single tricks ---- */

struct trick {
	const char *name;
	enum rf_message_type type; /* the first (or `nth`) message of this type … */
	unsigned nth;
	void (*edit)(struct rf_out *o); /* … is changed like this; NULL: it is said twice */
	const char *sentence;           /* a part of what the destination says then */
	enum rf_code code;
};

static void put_at(struct rf_out *o, size_t at, uint64_t value, size_t width)
{
	memcpy(o->bytes + RF_FRAME_HEAD_BYTES + at, &value, width);
}

static void bad_magic(struct rf_out *o)
{
	put_at(o, 0, 1, 1);
}

static void newer(struct rf_out *o)
{
	put_at(o, 8, 9, 2);
	put_at(o, 10, 9, 2);
}

static void other_page_size(struct rf_out *o)
{
	put_at(o, 28, 65536, 4);
}

static void one_block(struct rf_out *o)
{
	put_at(o, 0, 1, 4);
}

static void smaller_block(struct rf_out *o)
{
	put_at(o, 4 + 2 + 4, PLAYER_PAGES - 1, 8);
}

static void no_such_block(struct rf_out *o)
{
	put_at(o, 4, PLAYER_BLOCKS, 4);
}

static void register_past_the_end(struct rf_out *o)
{
	put_at(o, 8, PLAYER_PAGES - 10, 8);
}

static void register_wraps(struct rf_out *o)
{
	put_at(o, 8, UINT64_MAX, 8);
}

static void register_nothing(struct rf_out *o)
{
	put_at(o, 16, 0, 8);
}

static void register_high_id(struct rf_out *o)
{
	put_at(o, 0, UINT32_MAX, 4);
}

static void release_unknown(struct rf_out *o)
{
	put_at(o, 0, 99, 4);
}

static void release_on_many_lanes(struct rf_out *o)
{
	put_at(o, 4, 65, 4);
}

static void zero_past_the_end(struct rf_out *o)
{
	put_at(o, 4, PLAYER_PAGES, 8);
}

static void zero_wraps(struct rf_out *o)
{
	put_at(o, 12, UINT64_MAX, 8);
}

static void next_round(struct rf_out *o)
{
	put_at(o, 0, 1, 8);
}

static void more_zeros(struct rf_out *o)
{
	put_at(o, 8, 5, 8);
}

static void half_final(struct rf_out *o)
{
	put_at(o, 16, 2, 1);
}

static void longer_state(struct rf_out *o)
{
	put_at(o, 0, 5001, 8);
}

static void other_state(struct rf_out *o)
{
	put_at(o, 8, 1, 8);
}

static void other_digest(struct rf_out *o)
{
	put_at(o, 20, 1, 8);
}

static void digest_past_the_end(struct rf_out *o)
{
	put_at(o, 12, PLAYER_PAGES + 1, 8);
}

static void digest_of_nothing(struct rf_out *o)
{
	put_at(o, 12, 0, 8);
}

static void other_id(struct rf_out *o)
{
	put_at(o, 3, 'X', 1);
}

static void as_early(struct rf_out *o)
{
	o->type = RF_MSG_EARLY;
}

static void register_again_and_again(struct rf_out *o)
{
	for (uint32_t id = 100; id < 106; id++) {
		rf_put_u32(o, id);
		rf_put_u32(o, 0);
		rf_put_u64(o, 0);
		rf_put_u64(o, PLAYER_PAGES);
	}
}

static const struct trick tricks[] = {
    {"a stranger", RF_MSG_HELLO, 1, bad_magic, "the peer is not ramferry", RF_E_REFUSED},
    {"a newer source", RF_MSG_HELLO, 1, newer, "the source speaks version 9", RF_E_REFUSED},
    {"other pages", RF_MSG_HELLO, 1, other_page_size, "pages of 65536 bytes", RF_E_REFUSED},
    {"HELLO twice", RF_MSG_HELLO, 1, NULL, "HELLO at the wrong time", RF_E_FAILED},
    {"fewer blocks", RF_MSG_BLOCKS, 1, one_block, "1 memory blocks at the source", RF_E_REFUSED},
    {"a smaller block", RF_MSG_BLOCKS, 1, smaller_block, "memory block high has", RF_E_REFUSED},
    {"BLOCKS twice", RF_MSG_BLOCKS, 1, NULL, "", RF_E_FAILED},
    {"REGISTER of no block", RF_MSG_REGISTER, 1, no_such_block, "REGISTER is out of range", RF_E_FAILED},
    {"REGISTER past the end", RF_MSG_REGISTER, 1, register_past_the_end, "REGISTER is out of range", RF_E_FAILED},
    {"REGISTER wraps", RF_MSG_REGISTER, 1, register_wraps, "REGISTER is out of range", RF_E_FAILED},
    {"REGISTER of nothing", RF_MSG_REGISTER, 1, register_nothing, "REGISTER is out of range", RF_E_FAILED},
    {"REGISTER with a high name", RF_MSG_REGISTER, 1, register_high_id, "REGISTER is out of range", RF_E_FAILED},
    {"REGISTER of the same, again and again", RF_MSG_REGISTER, 1, register_again_and_again,
     "registers more memory than there is", RF_E_FAILED},
    {"REGISTER twice", RF_MSG_REGISTER, 2, NULL, "REGISTER uses a name twice", RF_E_FAILED},
    {"RELEASE of nothing", RF_MSG_RELEASE, 1, release_unknown, "RELEASE names no registration", RF_E_FAILED},
    {"RELEASE on more lanes than there are", RF_MSG_RELEASE, 1, release_on_many_lanes, "RELEASE", RF_E_FAILED},
    {"RELEASE twice on a lane", RF_MSG_RELEASE, 1, NULL, "RELEASE names no registration", RF_E_FAILED},
    {"RELEASE again when all is released", RF_MSG_RELEASE, 2, NULL, "RELEASE names no registration", RF_E_FAILED},
    {"ZERO past the end", RF_MSG_ZERO, 1, zero_past_the_end, "ZERO is out of range", RF_E_FAILED},
    {"ZERO wraps", RF_MSG_ZERO, 2, zero_wraps, "ZERO is out of range", RF_E_FAILED},
    {"ZERO twice", RF_MSG_ZERO, 1, NULL, "ZERO runs", RF_E_FAILED},
    {"the next round's end", RF_MSG_ROUND_END, 1, next_round, "ended a round", RF_E_FAILED},
    {"a round's end with a wrong count", RF_MSG_ROUND_END, 1, more_zeros, "of the round's 5 ZERO runs 4", RF_E_FAILED},
    {"a round's end that may be the last", RF_MSG_ROUND_END, 2, half_final, "ended a round", RF_E_FAILED},
    {"a round's end twice on a lane", RF_MSG_ROUND_END, 3, NULL, "ended a round", RF_E_FAILED},
    {"STATE is longer", RF_MSG_LOAD, 1, longer_state, "device state arrived damaged", RF_E_FAILED},
    {"STATE is another", RF_MSG_LOAD, 1, other_state, "device state arrived damaged", RF_E_FAILED},
    {"STATE twice", RF_MSG_STATE, 1, NULL, "device state arrived damaged", RF_E_FAILED},
    {"EARLY twice", RF_MSG_EARLY, 2, NULL, "device state arrived damaged", RF_E_FAILED},
    {"EARLY behind STATE", RF_MSG_STATE, 2, as_early, "EARLY behind STATE", RF_E_FAILED},
    {"EARLY behind LOAD", RF_MSG_LOAD, 1, as_early, "EARLY behind STATE", RF_E_FAILED},
    {"LOAD twice", RF_MSG_LOAD, 1, NULL, "LOAD", RF_E_FAILED},
    {"memory differs", RF_MSG_DIGEST, 1, other_digest, "memory differs: block high, pages 0 to 511", RF_E_FAILED},
    {"DIGEST past the end", RF_MSG_DIGEST, 1, digest_past_the_end, "DIGEST is out of range", RF_E_FAILED},
    {"DIGEST of nothing", RF_MSG_DIGEST, 1, digest_of_nothing, "DIGEST is out of range", RF_E_FAILED},
    {"COMMIT for another", RF_MSG_COMMIT, 1, other_id, "COMMIT is for another migration", RF_E_FAILED},
};

static const struct trick *playing;
static unsigned seen;

static bool play(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type != playing->type || ++seen != playing->nth)
		return true;
	if (playing->edit) {
		playing->edit(o);
		return true;
	}
	i->ntricks = 1;
	i->tricks[0].at = number;
	i->tricks[0].kind = MISCHIEF_TWICE;
	return true;
}

static void test_single_tricks(void **state)
{
	for (size_t n = 0; n < sizeof(tricks) / sizeof(tricks[0]); n++) {
		struct impostor i;
		struct run r;

		playing = &tricks[n];
		seen = 0;
		player_rewind(&player);
		impostor_open(&i, &player, 1);
		impostor_plays_source(&i);
		i.edit = play;
		i.stage.tidy = true;
		run_open(&r, &i);
		run(&i, &r);
		if (!r.result)
			fail_msg("%s: the destination took it", playing->name);
		if (!strstr(r.error.text, playing->sentence) || r.error.code != playing->code)
			fail_msg("%s: \"%s\" (%d)", playing->name, r.error.text, r.error.code);
	}
}

/* ---- the order of messages ---- */

/* Says one message of `type` with a body that would be good in its time. */
static enum rf_message_type intruder;
static unsigned intrudes_at, intruded;

static bool intrude(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (number != intrudes_at)
		return true;
	struct rf_out extra;
	uint8_t body[40] = {0};
	size_t length = rf_message_table[intruder].body_min;

	intruded++;
	assert_true(length <= sizeof(body));
	if (intruder == RF_MSG_COMMIT)
		memcpy(body, i->id, 16);
	rf_out_begin(&extra, intruder);
	rf_put_bytes(&extra, body, length);
	rf_out_end(&extra, i->sequence[0]++);
	stage_say(&i->stage, 0, extra.bytes, extra.length);
	return true;
}

/* Every type, in front of every message of a good source. COMMIT counts in front of the good one only. */
static void test_every_message_at_every_time(void **state)
{
	unsigned taken = 0;

	intruded = 0;
	for (unsigned type = 1; type < RF_MSG_TYPES; type++)
		for (intrudes_at = 0; intrudes_at < MESSAGES && rf_message_table[type].name; intrudes_at++) {
			struct impostor i;
			struct run r;
			unsigned before = intruded;

			intruder = (enum rf_message_type)type;
			player_rewind(&player);
			impostor_open(&i, &player, 7 * type + intrudes_at);
			impostor_plays_source(&i);
			i.edit = intrude;
			i.gave_commit = false;
			run_open(&r, &i);
			run(&i, &r);
			taken += !r.result && intruded > before;
			if (intruder == RF_MSG_COMMIT && i.heard[RF_MSG_READY] == 0)
				assert_int_equal(player.calls[PLAYER_RESUME], 0);
		}
	/* PING is welcome at any time, and few others do no harm somewhere. */
	assert_in_range(taken, 20, 2 * MESSAGES);
}

/* ---- what comes together, and what never comes ---- */

static bool spoil_before_commit(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type == RF_MSG_COMMIT)
		stage_say(&i->stage, 1, "rubbish", 7);
	return true;
}

/* A message that breaks the rules and COMMIT in one batch of events: the first has ended it. */
static void test_commit_behind_nonsense(void **state)
{
	struct impostor i;
	struct run r;

	player_rewind(&player);
	impostor_open(&i, &player, 1);
	impostor_plays_source(&i);
	i.stage.tidy = true;
	i.edit = spoil_before_commit;
	run_open(&r, &i);
	run(&i, &r);
	assert_int_equal(r.result, -1);
	assert_non_null(strstr(r.error.text, "a message of 7 bytes"));
	assert_int_equal(player.calls[PLAYER_RESUME], 0);
}

/* Silent from its n-th message on: a dead peer is noticed in every phase. */
static void test_silence_everywhere(void **state)
{
	for (unsigned at = 0; at < MESSAGES; at++) {
		struct impostor i;
		struct run r;

		player_rewind(&player);
		impostor_open(&i, &player, at + 1);
		impostor_plays_source(&i);
		i.stays = true;
		i.ntricks = 1;
		i.tricks[0].at = at;
		i.tricks[0].kind = MISCHIEF_SILENCE;
		run_open(&r, &i);
		run(&i, &r);
		if (i.said <= at)
			continue;
		assert_int_equal(r.result, -1);
		assert_non_null(strstr(r.error.text, "has not answered for too long"));
		assert_in_range(i.stage.now_ns, 5000000000, 13000000000);
	}
}

static unsigned cancels_at;
static struct run *cancels;

static void cancel_now(void)
{
	atomic_store(&cancels->cancelled, true);
	cancels->engine.fabric->ops->wake(cancels->engine.fabric);
}

static bool cancel(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (number == cancels_at)
		cancel_now();
	return true;
}

static void test_cancel_everywhere(void **state)
{
	for (cancels_at = 0; cancels_at < MESSAGES; cancels_at++) {
		struct impostor i;
		struct run r;

		player_rewind(&player);
		impostor_open(&i, &player, cancels_at + 1);
		impostor_plays_source(&i);
		i.edit = cancel;
		cancels = &r;
		run_open(&r, &i);
		run(&i, &r);
		if (r.result && r.error.code != RF_E_CANCELLED)
			fail_msg("cancelled at %u: %s", cancels_at, r.error.text);
	}
}

static bool cancel_instead_of_commit(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type == RF_MSG_COMMIT)
		cancel_now();
	return o->type != RF_MSG_COMMIT;
}

/* A destination that gives up when it has said READY tells the source that its guest is no more, for COMMIT may be on its
 * way. */
static void test_gives_up_when_loaded(void **state)
{
	struct impostor i;
	struct run r;

	for (unsigned fails = 0; fails < 2; fails++) {
		player_rewind(&player);
		impostor_open(&i, &player, 1);
		impostor_plays_source(&i);
		i.stage.tidy = true;
		i.edit = cancel_instead_of_commit;
		cancels = &r;
		run_open(&r, &i);
		player.fails[PLAYER_DISCARD] = fails;
		run(&i, &r);
		assert_int_equal(r.error.code, RF_E_CANCELLED);
		assert_int_equal(i.heard[RF_MSG_DISCARDED], !fails);
		assert_int_equal(i.heard[RF_MSG_ABORT], fails);
	}
}

static int open_player(void **state)
{
	player_open(&player);
	return 0;
}

static int close_player(void **state)
{
	player_close(&player);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good_source),
	    cmocka_unit_test(test_no_memory_for_an_old_source),
	    cmocka_unit_test(test_single_tricks),
	    cmocka_unit_test(test_every_message_at_every_time),
	    cmocka_unit_test(test_commit_behind_nonsense),
	    cmocka_unit_test(test_silence_everywhere),
	    cmocka_unit_test(test_cancel_everywhere),
	    cmocka_unit_test(test_gives_up_when_loaded),
	    cmocka_unit_test(test_random_mischief),
	};
	return cmocka_run_group_tests(tests, open_player, close_player);
}
