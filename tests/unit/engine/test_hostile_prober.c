// SPDX-License-Identifier: LGPL-2.1-or-later
/* A destination that a prober asks. Whatever the prober does: the guest is not touched, the destination is not kept for
 * more than some seconds, and it ends as a run after which a source may still come. */
#include "tests/unit/engine/impostor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <string.h>

enum { SEEDS = 3000, MESSAGES = 16, LAST_PASS = 2 };

static struct player player;

/* ---- a good prober ---- */

static void prober_hears(struct impostor *i, unsigned lane, const struct rf_message *m)
{
	i->keys += m->type == RF_MSG_KEYS && m->length == 28;
}

static bool prober_says(struct impostor *i)
{
	switch (i->step) {
	case 0:
		impostor_say_hello(i, RF_WIRE_VERSION, "");
		break;
	case 1:
		if (!i->heard[RF_MSG_HELLO])
			return false;
		impostor_begin(i, RF_MSG_PROBE);
		impostor_say(i, RF_LANE_CONTROL);
		break;
	default:
		if (!i->keys || i->heard[RF_MSG_ROUND_OK] < i->rounds || i->rounds > LAST_PASS)
			return false;
		for (unsigned lane = 0; lane <= STAGE_LANES; lane++) {
			struct rf_out *o = impostor_begin(i, RF_MSG_ROUND_END);
			rf_put_u64(o, i->rounds);
			rf_put_u64(o, 7);
			rf_put_u8(o, i->rounds == LAST_PASS);
			impostor_say(i, lane);
		}
		i->rounds++;
	}
	i->step++;
	return true;
}

static void open_prober(struct impostor *i, struct run *r, uint64_t seed)
{
	player_rewind(&player);
	impostor_open(i, &player, seed);
	i->hear = prober_hears;
	i->next = prober_says;
	run_open(r, i);
}

static void run(struct impostor *i, struct run *r)
{
	r->result = rf_destination_run(&r->engine, &r->error);
	assert_int_equal(r->result, -1);
	assert_sentence(&r->error);
	for (unsigned op = 0; op < PLAYER_OPS; op++)
		assert_int_equal(player.calls[op], 0);
	assert_true(i->stage.registered <= 1);
	assert_true(i->stage.now_ns < INT64_C(16000000000));
	run_close(r, i);
}

static void test_good_prober(void **state)
{
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct impostor i;
		struct run r;

		open_prober(&i, &r, seed);
		i.stage.refuse_some = seed % 2;
		run(&i, &r);
		assert_true(r.engine.probed);
		assert_int_equal(i.heard[RF_MSG_ROUND_OK], LAST_PASS + 1);
		assert_int_equal(i.heard[RF_MSG_ABORT], 0);
		assert_true(i.stage.now_ns < INT64_C(5000000000));
	}
}

static void test_random_mischief(void **state)
{
	unsigned probed = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct impostor i;
		struct run r;

		open_prober(&i, &r, seed);
		i.stage.refuse_some = stage_random(&i.stage, 2);
		i.ntricks = 1 + (unsigned)stage_random(&i.stage, IMPOSTOR_TRICKS);
		for (unsigned n = 0; n < i.ntricks; n++) {
			i.tricks[n].at = (unsigned)stage_random(&i.stage, MESSAGES);
			i.tricks[n].kind = (enum mischief)stage_random(&i.stage, MISCHIEFS);
		}
		run(&i, &r);
		probed += r.engine.probed;
	}
	/* Others were stopped before they had said PROBE. */
	assert_in_range(probed, SEEDS / 4, SEEDS - 1);
}

/* ---- those that do not end ---- */

static bool drop_round_ends(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	return o->type != RF_MSG_ROUND_END;
}

/* It answers every PING and never ends its first pass. */
static void test_never_ends(void **state)
{
	struct impostor i;
	struct run r;

	open_prober(&i, &r, 1);
	i.stays = true;
	i.edit = drop_round_ends;
	run(&i, &r);
	assert_true(r.engine.probed);
	assert_in_range(i.stage.now_ns, 9000000000, 12000000000);
	assert_int_equal(i.heard[RF_MSG_ABORT], 1);
}

static bool probe_twice(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type == RF_MSG_ROUND_END && i->rounds == 1 && !*lane) {
		rf_out_begin(o, RF_MSG_PROBE);
		return true;
	}
	return true;
}

static void test_probes_twice(void **state)
{
	struct impostor i;
	struct run r;

	open_prober(&i, &r, 1);
	i.edit = probe_twice;
	run(&i, &r);
	assert_true(r.engine.probed);
	assert_int_equal(i.heard[RF_MSG_ABORT], 1);
}

static struct run *cancels;

static bool cancel_at_pass(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type == RF_MSG_ROUND_END) {
		atomic_store(&cancels->cancelled, true);
		cancels->engine.fabric->ops->wake(cancels->engine.fabric);
	}
	return true;
}

/* Whoever cancels a receiver does not want it to wait on. */
static void test_cancelled(void **state)
{
	struct impostor i;
	struct run r;

	open_prober(&i, &r, 1);
	i.edit = cancel_at_pass;
	cancels = &r;
	run(&i, &r);
	assert_false(r.engine.probed);
	assert_int_equal(r.error.code, RF_E_CANCELLED);
}

/* ---- a source that changes its mind ---- */

static bool blocks_first(struct impostor *i, unsigned number, unsigned *lane, struct rf_out *o)
{
	if (o->type == RF_MSG_PROBE) {
		impostor_say_blocks(i);
		impostor_begin(i, RF_MSG_PROBE);
	}
	return true;
}

/* Behind BLOCKS it is a source, whatever it says. */
static void test_probe_behind_blocks(void **state)
{
	struct impostor i;
	struct run r;

	open_prober(&i, &r, 1);
	i.stage.tidy = true;
	i.edit = blocks_first;
	r.result = rf_destination_run(&r.engine, &r.error);
	assert_int_equal(r.result, -1);
	assert_false(r.engine.probed);
	assert_non_null(strstr(r.error.text, "PROBE at the wrong time"));
	assert_int_equal(player.calls[PLAYER_RESUME] + player.calls[PLAYER_LOAD], 0);
	assert_int_equal(player.calls[PLAYER_DISCARD], player.calls[PLAYER_PREPARE]);
	run_close(&r, &i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good_prober), cmocka_unit_test(test_random_mischief),
	    cmocka_unit_test(test_never_ends),  cmocka_unit_test(test_probes_twice),
	    cmocka_unit_test(test_cancelled),   cmocka_unit_test(test_probe_behind_blocks),
	};

	player_open(&player);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	player_close(&player);
	return failed;
}
