// SPDX-License-Identifier: LGPL-2.1-or-later
/* A source whose destination does not keep to the rules. Whatever comes: no crash, no wait without end, and the guest is
 * put back, once, unless COMMIT was given; from then on it never runs here again but for DISCARDED. */
#include "engine/chunks.h"
#include "tests/unit/engine/impostor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 2500, MESSAGES = 24 };

static struct player player;

static void assert_source_safe(const struct impostor *i, const struct run *r)
{
	const unsigned *calls = player.calls;
	bool unknown = r->result && r->error.code == RF_E_UNKNOWN;

	if (r->result)
		assert_sentence(&r->error);
	assert_true(calls[PLAYER_PAUSE] <= 1 && calls[PLAYER_UNDO] <= 1 && calls[PLAYER_FINISH] <= 1);
	assert_int_equal(!r->result, calls[PLAYER_FINISH]);
	if (!r->result)
		assert_true(i->heard[RF_MSG_COMMIT] == 1 && i->gave_running);
	if (i->heard[RF_MSG_COMMIT] && calls[PLAYER_UNDO])
		assert_true(i->gave_discarded);
	if (unknown && !player.fails[PLAYER_UNDO])
		assert_true(!calls[PLAYER_UNDO] && i->gave_ready);
	if (r->result && !unknown)
		assert_int_equal(calls[PLAYER_UNDO], calls[PLAYER_PREPARE]);
	assert_true(calls[PLAYER_UNDO] + calls[PLAYER_FINISH] <= 1);
	assert_true(i->heard[RF_MSG_COMMIT] <= 1);
}

static void run(struct impostor *i, struct run *r)
{
	r->result = rf_source_run(&r->engine, &r->error);
	assert_source_safe(i, r);
	run_close(r, i);
}

static void begin(struct impostor *i, struct run *r, uint64_t seed)
{
	player_rewind(&player);
	impostor_open(i, &player, seed);
	impostor_plays_destination(i);
	run_open(r, i);
}

/* Every way to move this guest. */
static void vary(struct impostor *i, struct run *r)
{
	r->options.verify = stage_random(&i->stage, 2);
	r->options.source_memory = stage_random(&i->stage, 4) ? RF_SOURCE_DIRECT : RF_SOURCE_STAGED;
	r->options.register_ahead_bytes = stage_random(&i->stage, 2) ? 0 : UINT64_C(1) << 30;
	r->options.max_pinned_bytes = stage_random(&i->stage, 3) ? 0 : r->options.chunk_size_bytes;
	r->options.writes_per_chunk = stage_random(&i->stage, 3) ? 0 : 1;
	i->stage.base.limits.local_keys = stage_random(&i->stage, 2);
	i->stage.refuse_some = stage_random(&i->stage, 2);
	i->player->paused_by_operator = stage_random(&i->stage, 2);
	if (!stage_random(&i->stage, 10))
		i->player->state_bytes = stage_random(&i->stage, 2) ? 0 : 3 << 20;
}

static void test_good_destination(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct impostor i;
		struct run r;

		begin(&i, &r, seed);
		vary(&i, &r);
		run(&i, &r);
		if (r.result)
			fail_msg("seed %llu: %s", (unsigned long long)seed, r.error.text);
		assert_int_equal(player.calls[PLAYER_SAVE], 1);
		/* Half of the memory is data, 7 of 8 pages of that are not zero. */
		assert_true(i.stage.written_bytes >= (uint64_t)PLAYER_BLOCKS * PLAYER_PAGES * 4096 * 7 / 16);
		assert_true(i.stage.registered == 0 || i.stage.base.limits.local_keys);
	}
}

static void test_random_mischief(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct impostor i;
		struct run r;

		begin(&i, &r, seed);
		vary(&i, &r);
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

/* ---- single tricks ---- */

struct trick {
	const char *name;
	enum rf_message_type type;                          /* the first (or `nth`) message of this type … */
	unsigned nth;                                       /* 0: each */
	bool (*edit)(struct impostor *i, struct rf_out *o); /* … is changed like this; NULL: it is said twice */
	const char *sentence;                               /* a part of what the source says then */
	enum rf_code code;
	bool verify;
};

static void put_at(struct rf_out *o, size_t at, uint64_t value, size_t width)
{
	memcpy(o->bytes + RF_FRAME_HEAD_BYTES + at, &value, width);
}

/* Something else in place of the message. */
static struct rf_out *instead(struct rf_out *o, enum rf_message_type type)
{
	rf_out_begin(o, type);
	return o;
}

static bool other_id(struct impostor *i, struct rf_out *o)
{
	put_at(o, o->type == RF_MSG_HELLO ? 12 : 0, 'X', 1);
	return true;
}

static bool newer(struct impostor *i, struct rf_out *o)
{
	put_at(o, 8, 9, 2);
	put_at(o, 10, 9, 2);
	return true;
}

static const char *long_sentence(void)
{
	static char text[500];
	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "because ", 8);
	return text;
}

static bool refuses(struct impostor *i, struct rf_out *o)
{
	rf_put_text(instead(o, RF_MSG_REFUSED), long_sentence());
	return true;
}

static bool aborts(struct impostor *i, struct rf_out *o)
{
	rf_put_u8(instead(o, RF_MSG_ABORT), RF_E_FAILED);
	rf_put_text(o, long_sentence());
	return true;
}

static bool discards(struct impostor *i, struct rf_out *o)
{
	rf_put_bytes(instead(o, RF_MSG_DISCARDED), i->id, 16);
	rf_put_text(o, long_sentence());
	return true;
}

static bool keys_for_nothing(struct impostor *i, struct rf_out *o)
{
	put_at(o, 0, 77, 4);
	return true;
}

static bool next_round(struct impostor *i, struct rf_out *o)
{
	put_at(o, 0, 1, 8);
	return true;
}

static bool agrees_to_all(struct impostor *i, struct rf_out *o)
{
	put_at(o, 0, UINT64_MAX, 8);
	return true;
}

static bool agrees_to_less(struct impostor *i, struct rf_out *o)
{
	put_at(o, 0, 0, 8);
	return true;
}

static bool says_nothing(struct impostor *i, struct rf_out *o)
{
	i->silent = true;
	return false;
}

static bool runs_it_before(struct impostor *i, struct rf_out *o)
{
	rf_put_bytes(instead(o, RF_MSG_RUNNING), i->id, 16);
	return true;
}

static bool pong_from_the_future(struct impostor *i, struct rf_out *o)
{
	rf_put_u64(instead(o, RF_MSG_PONG), UINT64_C(1) << 63);
	rf_put_text(o, "ahead of time");
	return true;
}

/* Two answers to COMMIT that cannot both be true. */
static bool both_answers(struct impostor *i, struct rf_out *o)
{
	struct rf_out first;

	rf_out_begin(&first, RF_MSG_DISCARDED);
	rf_put_bytes(&first, i->id, 16);
	rf_put_text(&first, "or not");
	rf_out_end(&first, i->sequence[0]++);
	stage_say(&i->stage, 0, first.bytes, first.length);
	return true;
}

/* Later registrations lie on the first: no memory of ours, and no reason to fall over. */
static bool one_place_for_all(struct impostor *i, struct rf_out *o)
{
	for (size_t at = 0; at + 28 <= o->length - RF_FRAME_HEAD_BYTES; at += 28)
		put_at(o, at + 4, 0x1000, 8);
	return true;
}

static bool no_memory(struct impostor *i, struct rf_out *o)
{
	for (size_t at = 0; at + 28 <= o->length - RF_FRAME_HEAD_BYTES; at += 28)
		put_at(o, at + 4, RF_KEYS_NO_MEMORY, 8);
	return true;
}

static const struct trick tricks[] = {
    {"another migration's HELLO", RF_MSG_HELLO, 1, other_id, "answers for another migration", RF_E_REFUSED},
    {"a newer destination", RF_MSG_HELLO, 1, newer, "speaks version 9", RF_E_REFUSED},
    {"HELLO twice", RF_MSG_HELLO, 1, NULL, "HELLO at the wrong time", RF_E_FAILED},
    {"REFUSED at once", RF_MSG_HELLO, 1, refuses, "the other side refuses: because xxx", RF_E_REFUSED},
    {"REFUSED after BLOCKS", RF_MSG_BLOCKS_OK, 1, refuses, "the other side refuses: because xxx", RF_E_REFUSED},
    {"BLOCKS_OK twice", RF_MSG_BLOCKS_OK, 1, NULL, "BLOCKS_OK at the wrong time", RF_E_FAILED},
    {"ABORT", RF_MSG_KEYS, 1, aborts, "the other side gave up: because xxx", RF_E_FAILED},
    {"KEYS for nothing", RF_MSG_KEYS, 1, keys_for_nothing, "KEYS name a registration that nobody", RF_E_FAILED},
    {"KEYS twice", RF_MSG_KEYS, 1, NULL, "KEYS name a registration that nobody", RF_E_FAILED},
    {"KEYS never", RF_MSG_KEYS, 1, says_nothing, "has not answered for too long", RF_E_FAILED},
    {"ROUND_OK for the next", RF_MSG_ROUND_OK, 1, next_round, "for a round that has not ended", RF_E_FAILED},
    {"ROUND_OK twice", RF_MSG_ROUND_OK, 1, NULL, "for a round that has not ended", RF_E_FAILED},
    {"ROUND_OK never", RF_MSG_ROUND_OK, 1, says_nothing, "has not answered for too long", RF_E_FAILED},
    {"PONG from the future", RF_MSG_ROUND_OK, 1, pong_from_the_future, "PONG answers what was not", RF_E_FAILED},
    {"READY instead of ROUND_OK", RF_MSG_ROUND_OK, 3, runs_it_before, "at the wrong time", RF_E_FAILED},
    {"DIGEST_OK for all there are", RF_MSG_DIGEST_OK, 1, agrees_to_all, "DIGEST_OK is for what was not", RF_E_FAILED,
     true},
    {"DIGEST_OK for fewer", RF_MSG_DIGEST_OK, 2, agrees_to_less, "DIGEST_OK is for what was not", RF_E_FAILED, true},
    {"READY never", RF_MSG_READY, 1, says_nothing, "has not answered for too long", RF_E_FAILED},
    {"RUNNING before COMMIT", RF_MSG_READY, 1, runs_it_before, "RUNNING at the wrong time", RF_E_FAILED},
    {"DISCARDED before COMMIT", RF_MSG_READY, 1, discards, "the other side gave up: because xxx", RF_E_FAILED},
    {"DISCARDED after COMMIT", RF_MSG_RUNNING, 1, discards, "has discarded it: because xxx", RF_E_FAILED},
    {"ABORT after COMMIT", RF_MSG_RUNNING, 1, aborts, "(the other side gave up: because xxx", RF_E_UNKNOWN},
    {"RUNNING for another", RF_MSG_RUNNING, 1, other_id, "speaks of another migration", RF_E_UNKNOWN},
    {"RUNNING and DISCARDED", RF_MSG_RUNNING, 1, both_answers, "that it runs and that it was", RF_E_UNKNOWN},
    {"no answer to COMMIT", RF_MSG_RUNNING, 1, says_nothing, "it stays stopped here", RF_E_UNKNOWN},
    {"no memory at first", RF_MSG_KEYS, 1, no_memory, "", RF_E_NONE},
    {"never any memory", RF_MSG_KEYS, 0, no_memory, "even 1 MiB of guest memory cannot be registered", RF_E_FAILED},
    {"all keys for one place", RF_MSG_KEYS, 1, one_place_for_all, "", RF_E_NONE},
};

static const struct trick *playing;
static unsigned seen;

static bool play(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type != playing->type || (++seen != playing->nth && playing->nth))
		return true;
	if (playing->edit)
		return playing->edit(i, o);
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
		begin(&i, &r, 1);
		i.edit = play;
		i.stage.tidy = true;
		r.options.verify = playing->verify;
		run(&i, &r);
		if (seen < playing->nth)
			fail_msg("%s: there was no such message", playing->name);
		if (!r.result != !playing->code)
			fail_msg("%s: %s", playing->name, r.result ? r.error.text : "the source took it");
		if (r.result && (!strstr(r.error.text, playing->sentence) || r.error.code != playing->code))
			fail_msg("%s: \"%s\" (%d)", playing->name, r.error.text, r.error.code);
	}
}

/* ---- every message at every time ---- */

static enum rf_message_type intruder;
static unsigned intrudes_at;

static bool intrude(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (number != intrudes_at)
		return true;
	struct rf_out extra;
	uint8_t body[40] = {0};

	rf_out_begin(&extra, intruder);
	if (intruder == RF_MSG_RUNNING || intruder == RF_MSG_DISCARDED)
		memcpy(body, i->id, 16);
	rf_put_bytes(&extra, body, rf_message_table[intruder].body_min);
	rf_out_end(&extra, i->sequence[0]++);
	stage_say(&i->stage, 0, extra.bytes, extra.length);
	if (intruder == RF_MSG_DISCARDED)
		i->gave_discarded = true;
	return true;
}

static void test_every_message_at_every_time(void **state)
{
	for (unsigned type = 1; type < RF_MSG_TYPES; type++)
		for (intrudes_at = 0; intrudes_at < MESSAGES && rf_message_table[type].name; intrudes_at++) {
			struct impostor i;
			struct run r;

			intruder = (enum rf_message_type)type;
			begin(&i, &r, 7 * type + intrudes_at);
			vary(&i, &r);
			i.edit = intrude;
			run(&i, &r);
			if (i.said > intrudes_at && (intruder == RF_MSG_ABORT || intruder == RF_MSG_HELLO))
				assert_int_equal(r.result, -1);
		}
}

/* ---- what never comes, and what is not wanted any more ---- */

static void test_silence_everywhere(void **state)
{
	for (unsigned at = 0; at < MESSAGES; at++) {
		struct impostor i;
		struct run r;

		begin(&i, &r, at + 1);
		i.stays = true;
		i.ntricks = 1;
		i.tricks[0].at = at;
		i.tricks[0].kind = MISCHIEF_SILENCE;
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

static bool cancel(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (number == cancels_at) {
		atomic_store(&cancels->cancelled, true);
		cancels->engine.fabric->ops->wake(cancels->engine.fabric);
	}
	return true;
}

static void test_cancel_everywhere(void **state)
{
	for (cancels_at = 0; cancels_at < MESSAGES; cancels_at++)
		for (uint64_t seed = 1; seed < 5; seed++) {
			struct impostor i;
			struct run r;

			begin(&i, &r, 100 * cancels_at + seed);
			vary(&i, &r);
			i.edit = cancel;
			cancels = &r;
			run(&i, &r);
			if (r.result && (r.error.code != RF_E_CANCELLED || strcmp(r.error.text, "cancelled")))
				fail_msg("cancelled at %u: %s", cancels_at, r.error.text);
		}
}

static void (*hear_well)(struct impostor *i, unsigned lane, const struct rf_message *m);

static void give_up_at_round_end(struct impostor *i, unsigned lane, const struct rf_message *m)
{
	if (m->type != RF_MSG_ROUND_END)
		return hear_well(i, lane, m);
	rf_put_u8(impostor_begin(i, RF_MSG_ABORT), RF_E_FAILED);
	rf_put_text(&i->out, "the disk is full");
	impostor_say(i, RF_LANE_CONTROL);
	stage_lose(&i->stage, "the stage fell down");
}

/* The next send fails, and what the destination said before is still to be heard. */
static void test_last_words(void **state)
{
	struct impostor i;
	struct run r;

	begin(&i, &r, 1);
	hear_well = i.hear;
	i.hear = give_up_at_round_end;
	run(&i, &r);
	assert_int_equal(r.error.code, RF_E_FAILED);
	assert_string_equal(r.error.text, "the other side gave up: the disk is full");
}

/* A limit that nothing can meet, an idle guest and a fast link: rounds of nothing, but not as many as fit. */
static void test_waits_without_spinning(void **state)
{
	struct impostor i;
	struct run r;

	begin(&i, &r, 1);
	r.options.downtime_limit_ns = 1000000;
	r.options.timeout_ns = 2000000000;
	i.stays = true;
	r.result = rf_source_run(&r.engine, &r.error);
	assert_source_safe(&i, &r);
	assert_int_equal(r.result, -1);
	assert_non_null(strstr(r.error.text, "did not get small enough"));
	assert_in_range(r.stats.nrounds, 10, 30);
	assert_in_range(i.stage.now_ns, 3000000000, 3200000000);
	run_close(&r, &i);
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
	    cmocka_unit_test(test_good_destination),
	    cmocka_unit_test(test_single_tricks),
	    cmocka_unit_test(test_every_message_at_every_time),
	    cmocka_unit_test(test_silence_everywhere),
	    cmocka_unit_test(test_cancel_everywhere),
	    cmocka_unit_test(test_last_words),
	    cmocka_unit_test(test_waits_without_spinning),
	    cmocka_unit_test(test_random_mischief),
	};
	return cmocka_run_group_tests(tests, open_player, close_player);
}
