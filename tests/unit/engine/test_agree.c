// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/agree.h"
#include "tests/unit/engine/quiet_fabric.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

struct two {
	struct quiet_fabric *source, *destination;
	struct rf_block block[2], *blocks[2];
	struct rf_guest guest, other;
	struct rf_block other_block[2], *other_blocks[2];
	struct rf_error e;
};

static void name_block(struct rf_block *b, const char *name, uint64_t npages)
{
	*b = (struct rf_block){.npages = npages, .page_bytes = 4096};
	strcpy(b->name, name);
}

static struct two *open_two(void)
{
	struct two *t = calloc(1, sizeof(*t));
	assert_non_null(t);
	for (int i = 0; i < 2; i++) {
		name_block(&t->block[i], i ? "low" : "high", 256);
		name_block(&t->other_block[i], i ? "low" : "high", 256);
		t->blocks[i] = &t->block[i];
		t->other_blocks[i] = &t->other_block[i];
	}
	t->guest = (struct rf_guest){.blocks = t->blocks, .nblocks = 2};
	t->other = (struct rf_guest){.blocks = t->other_blocks, .nblocks = 2};
	t->source = quiet_fabric_new(&t->guest);
	t->destination = quiet_fabric_new(&t->other);
	t->destination->peer.is_source = false;
	memcpy(t->source->engine.id, "0123456789abcdef", 16);
	return t;
}

static void close_two(struct two *t)
{
	quiet_fabric_free(t->source);
	quiet_fabric_free(t->destination);
	free(t);
}

static int hello(struct two *t, const char *facts_there, const char *facts_here)
{
	assert_int_equal(rf_agree_hello(&t->source->peer, facts_there, &t->e), 0);
	struct rf_message m = quiet_sent(t->source, t->source->nsent - 1);
	return rf_agree_take_hello(&t->destination->peer, facts_here, &m, &t->e);
}

static int blocks(struct two *t)
{
	assert_int_equal(rf_agree_blocks(&t->source->peer, &t->e), 0);
	struct rf_message m = quiet_sent(t->source, t->source->nsent - 1);
	return rf_agree_take_blocks(&t->destination->peer, &m, &t->e);
}

static void source_tells_its_options_and_id(void **state)
{
	struct two *t = open_two();
	t->source->options.chunk_size_bytes = 2 << 20;
	t->source->options.verify = 1;
	t->source->options.traffic_class = 99;
	t->source->peer.data_bytes = 123 << 20;
	assert_false(t->destination->peer.keys_may_fail);
	assert_int_equal(hello(t, "", ""), 0);
	assert_int_equal(t->destination->peer.data_bytes, 123 << 20);
	assert_true(t->destination->peer.keys_may_fail);
	assert_int_equal(t->destination->options.traffic_class, 0); /* each card has its own */
	assert_int_equal(t->destination->options.chunk_size_bytes, 2 << 20);
	assert_int_equal(t->destination->options.verify, 1);
	assert_memory_equal(t->destination->engine.id, "0123456789abcdef", 16);
	close_two(t);
}

static void other_facts_are_refused_by_name(void **state)
{
	struct two *t = open_two();
	assert_int_equal(hello(t, "cpus=2\nmachine=pc-q35-7.2", "cpus=2\nmachine=pc-i440fx-7.2\n"), -1);
	assert_int_equal(t->e.code, RF_E_REFUSED);
	assert_string_equal(t->e.text, "machine is pc-q35-7.2 at the source and pc-i440fx-7.2 at the destination");
	assert_int_equal(hello(t, "cpus=2", "cpus=21"), -1);
	assert_int_equal(hello(t, "cpus=21", "cpus=2"), -1);
	assert_int_equal(hello(t, "cpus=2\nnew=1", "cpus=2"), 0); /* what one side does not know is no difference */
	close_two(t);
}

static void other_version_is_refused_with_both(void **state)
{
	struct two *t = open_two();
	static struct rf_out o;
	rf_out_begin(&o, RF_MSG_HELLO);
	rf_put_u64(&o, 0x59525245464d4152ull);
	rf_put_u16(&o, 9);
	rf_put_u16(&o, 8);
	rf_put_bytes(&o, "whatever comes then", 19);
	struct rf_message m = quiet_message(&o);
	assert_int_equal(rf_agree_take_hello(&t->destination->peer, "", &m, &t->e), -1);
	assert_int_equal(t->e.code, RF_E_REFUSED);
	assert_string_equal(t->e.text,
			    "the source speaks version 9 (at the lowest 8) of the protocol, the destination 1 (1)");
	close_two(t);
}

static void option_out_of_range_is_refused(void **state)
{
	struct two *t = open_two();
	t->source->options.chunk_size_bytes = 12345;
	assert_int_equal(hello(t, "", ""), -1);
	assert_int_equal(t->e.code, RF_E_REFUSED);
	assert_non_null(strstr(t->e.text, "chunk-size"));
	close_two(t);
}

static void blocks_must_be_the_same(void **state)
{
	struct two *t = open_two();
	assert_int_equal(blocks(t), 0);
	t->other_block[1].npages = 512;
	assert_int_equal(blocks(t), -1);
	assert_string_equal(t->e.text, "memory block low has 1 MiB at the source and 2 MiB at the destination");
	t->other_block[1].npages = 256;
	strcpy(t->other_block[0].name, "node0");
	assert_int_equal(blocks(t), -1);
	assert_string_equal(t->e.text, "memory block 0 is called high at the source and node0 at the destination");
	t->other.nblocks = 1;
	assert_int_equal(blocks(t), -1);
	assert_int_equal(t->e.code, RF_E_REFUSED);
	close_two(t);
}

/* Every cut of a good HELLO and BLOCKS is refused, none is read past its end (the sanitizers watch). */
static void cut_messages_are_refused(void **state)
{
	struct two *t = open_two();
	assert_int_equal(hello(t, "cpus=2", "cpus=2"), 0);
	assert_int_equal(blocks(t), 0);
	for (int n = 0; n < 2; n++) {
		struct rf_message whole = quiet_sent(t->source, n);
		for (size_t length = 0; length < whole.length; length++) {
			uint8_t *copy = malloc(length + 1);
			memcpy(copy, whole.body, length);
			struct rf_message m = {whole.type, copy, length};
			int result = n ? rf_agree_take_blocks(&t->destination->peer, &m, &t->e)
				       : rf_agree_take_hello(&t->destination->peer, "cpus=2", &m, &t->e);
			assert_int_equal(result, -1);
			free(copy);
		}
	}
	close_two(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(source_tells_its_options_and_id),
	    cmocka_unit_test(other_facts_are_refused_by_name),
	    cmocka_unit_test(other_version_is_refused_with_both),
	    cmocka_unit_test(option_out_of_range_is_refused),
	    cmocka_unit_test(blocks_must_be_the_same),
	    cmocka_unit_test(cut_messages_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
