// SPDX-License-Identifier: LGPL-2.1-or-later
/* Faults, wrapped around a simulated fabric. */
#include "pair.h"

struct frame {
	uint32_t length;
	uint16_t type, flags;
	uint64_t sequence;
};

static void send_type(struct rf_fabric *f, uint16_t type)
{
	struct frame frame = {.length = sizeof(frame), .type = type};

	pair_send(f, 0, &frame, sizeof(frame));
}

static uint16_t receive_type(struct rf_fabric *f)
{
	struct rf_event event = pair_expect(f, RF_EV_MESSAGE);
	struct frame frame;

	assert_int_equal(event.length, sizeof(frame));
	memcpy(&frame, event.data, sizeof(frame));
	return frame.type;
}

static void cut(void *arg)
{
	rf_sim_cut(arg);
}

static void start(struct pair *p, const char *text)
{
	struct rf_fault_spec spec;

	pair_start(p, 1);
	assert_int_equal(rf_fault_parse(text, &spec, NULL), 0);
	spec.cut = cut;
	spec.cut_arg = p->world;
	p->source = rf_fault_wrap(p->source, &spec);
	assert_non_null(p->source);
}

static void end(struct pair *p)
{
	assert_true(rf_fault_happened(p->source));
	assert_null(rf_sim_violation(p->world));
	pair_end(p);
}

/* 17, 18, 17: the second 17 is lost -> the others arrive, then both lose each other */
static void test_drop_message(void **state)
{
	struct pair p;

	start(&p, "drop-message=2@17");
	send_type(p.source, 17);
	send_type(p.source, 18);
	assert_int_equal(receive_type(p.destination), 17);
	assert_int_equal(receive_type(p.destination), 18);
	send_type(p.source, 17);
	pair_expect(p.source, RF_EV_LOST);
	pair_expect(p.destination, RF_EV_LOST);
	assert_int_equal(p.source->ops->send(p.source, 0, "x", 1), -1);
	end(&p);
}

static void test_fail_register(void **state)
{
	struct rf_event event;
	struct pair p;

	start(&p, "fail-register=2");
	pair_register(p.source, p.from, RF_ACCESS_LOCAL_READ);
	p.source->ops->reg(p.source, p.from, BYTES, RF_ACCESS_LOCAL_READ, 9);
	event = pair_expect(p.source, RF_EV_REGISTERED);
	assert_int_equal(event.status, -1);
	assert_int_equal(event.cookie, 9);
	assert_non_null(event.text);
	pair_register(p.source, p.from, RF_ACCESS_LOCAL_READ);
	end(&p);
}

static void test_fail_write(void **state)
{
	struct rf_write w;
	struct pair p;

	start(&p, "fail-write=1");
	w = pair_write(&p, 0, 1);
	assert_int_equal(p.source->ops->write(p.source, 1, &w, 1), 1);
	assert_string_equal(pair_expect(p.source, RF_EV_LOST).text, "a write completed with an error");
	pair_expect(p.destination, RF_EV_LOST);
	end(&p);
}

/* frozen for 10 s at its first message -> what came meanwhile is there at the end of them, and nothing before */
static void test_freeze(void **state)
{
	struct rf_event event;
	struct pair p;

	start(&p, "freeze=1,10s");
	send_type(p.source, 17);
	assert_int_equal(receive_type(p.destination), 17);
	send_type(p.destination, 23);
	assert_int_equal(p.source->ops->poll(p.source, &event, 1, RF_MS), 1);
	assert_int_equal(event.kind, RF_EV_MESSAGE);
	assert_in_range(rf_sim_now(p.world), 10 * RF_S, 11 * RF_S);
	end(&p);
}

/* mute from 300 ms on -> nothing goes out, nothing comes in, nobody is told; work goes on */
static void test_mute(void **state)
{
	struct rf_event event;
	struct pair p;

	start(&p, "mute=300ms");
	assert_int_equal(p.source->ops->poll(p.source, &event, 1, RF_S), 0);
	send_type(p.source, 17);
	send_type(p.destination, 23);
	assert_int_equal(p.source->ops->poll(p.source, &event, 1, RF_S), 0);
	assert_int_equal(p.destination->ops->poll(p.destination, &event, 1, RF_S), 0);
	pair_register(p.source, p.from, RF_ACCESS_LOCAL_READ);
	end(&p);
}

static void test_vanish(void **state)
{
	struct pair p;

	start(&p, "vanish=1@18");
	send_type(p.source, 17);
	assert_int_equal(receive_type(p.destination), 17);
	send_type(p.source, 18);
	pair_expect(p.source, RF_EV_LOST);
	pair_expect(p.destination, RF_EV_LOST);
	end(&p);
}

static void test_none(void **state)
{
	struct pair p;

	start(&p, "none");
	send_type(p.source, 17);
	assert_int_equal(receive_type(p.destination), 17);
	assert_false(rf_fault_happened(p.source));
	pair_end(&p);
}

static void test_parse(void **state)
{
	static const char *const bad[] = {
	    "",
	    "drop-message",
	    "drop-message=",
	    "drop-message=0",
	    "drop-message=1@0",
	    "drop-message=1@99999",
	    "drop-it=1",
	    "fail-register=1@3",
	    "fail-write=5ms",
	    "vanish=1,10s",
	    "freeze=1,",
	    "freeze=now",
	};
	struct rf_fault_spec spec;
	struct rf_error e;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		rf_error_clear(&e);
		if (!rf_fault_parse(bad[i], &spec, &e))
			fail_msg("\"%s\" is taken", bad[i]);
		assert_int_equal(e.code, RF_E_USAGE);
		assert_true(e.text[0]);
	}
	assert_int_equal(rf_fault_parse("freeze=1@17,10s", &spec, NULL), 0);
	assert_int_equal(spec.kind, RF_FAULT_FREEZE);
	assert_int_equal(spec.nth, 1);
	assert_int_equal(spec.type, 17);
	assert_int_equal(spec.lasts_ns, 10 * RF_S);
	assert_int_equal(rf_fault_parse("vanish=500ms", &spec, NULL), 0);
	assert_int_equal(spec.nth, 0);
	assert_int_equal(spec.at_ns, 500 * RF_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_drop_message), cmocka_unit_test(test_fail_register),
	    cmocka_unit_test(test_fail_write),   cmocka_unit_test(test_freeze),
	    cmocka_unit_test(test_mute),         cmocka_unit_test(test_vanish),
	    cmocka_unit_test(test_none),         cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
