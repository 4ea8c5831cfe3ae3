// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/engine/quiet_fabric.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct rf_out out;

static void make_ping(uint64_t sequence)
{
	rf_out_begin(&out, RF_MSG_PING);
	rf_put_u64(&out, 0x1122334455667788);
	rf_out_end(&out, sequence);
}

static int parse(size_t length, uint64_t sequence, struct rf_message *m, struct rf_error *e)
{
	memset(e, 0, sizeof(*e));
	return rf_message_parse(out.bytes, length, sequence, m, e);
}

static void crc_is_castagnoli(void **state)
{
	/* RFC 3720 B.4: 32 bytes of zeros, of ones, and 0 to 31 */
	uint8_t data[32] = {0};
	assert_int_equal(rf_crc32c(data, 32), 0x8a9136aa);
	memset(data, 0xff, 32);
	assert_int_equal(rf_crc32c(data, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		data[i] = (uint8_t)i;
	assert_int_equal(rf_crc32c(data, 32), 0x46dd794e);
	assert_int_equal(rf_crc32c("123456789", 9), 0xe3069283);
}

static void frame_is_as_documented(void **state)
{
	static const uint8_t head[] = {40, 0, 0, 0, 23, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x77};
	make_ping(7);
	assert_int_equal(out.length, 40);
	assert_memory_equal(out.bytes, head, sizeof(head));
	uint32_t crc = rf_crc32c(out.bytes, 24);
	assert_memory_equal(out.bytes + 24, &crc, 4);
	for (int i = 28; i < 40; i++)
		assert_int_equal(out.bytes[i], 0);
}

static void good_message_comes_back(void **state)
{
	struct rf_message m;
	struct rf_error e;
	make_ping(3);
	assert_int_equal(parse(out.length, 3, &m, &e), 0);
	struct rf_in in = rf_in_body(&m);
	assert_true(rf_get_u64(&in) == 0x1122334455667788);
	assert_int_equal(rf_in_end(&in, &m, &e), 0);
}

static void damaged_frames_are_refused(void **state)
{
	struct rf_message m;
	struct rf_error e;

	make_ping(0);
	assert_int_equal(parse(out.length, 1, &m, &e), -1);
	assert_string_equal(e.text, "the peer's PING has number 0 instead of 1");
	assert_int_equal(parse(out.length - 1, 0, &m, &e), -1);
	assert_string_equal(e.text, "the peer sent a message of 39 bytes that says it has 40");
	assert_int_equal(parse(8, 0, &m, &e), -1);
	assert_string_equal(e.text, "the peer sent a message of 8 bytes, which is out of range");
	/* Every single bit matters. */
	for (int bit = 0; bit < 40 * 8; bit++) {
		make_ping(0);
		out.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(parse(out.length, 0, &m, &e), -1);
	}
}

static void unknown_type_is_refused(void **state)
{
	struct rf_message m;
	struct rf_error e;
	for (int type = 0; type < 70000; type += type < 100 ? 1 : 997) {
		uint16_t t = (uint16_t)type;
		make_ping(0);
		memcpy(out.bytes + 4, &t, 2);
		uint32_t crc = rf_crc32c(out.bytes, 24);
		memcpy(out.bytes + 24, &crc, 4);
		bool known = t < RF_MSG_TYPES && rf_message_table[t].name;
		assert_int_equal(parse(out.length, 0, &m, &e), known ? 0 : -1);
	}
}

static int allowed(enum rf_message_type type, size_t length, bool from_source, unsigned lane, enum rf_wire_phase phase)
{
	static const uint8_t body[RF_BODY_BYTES_MAX];
	struct rf_error e = {0};
	struct rf_message m = {type, body, length};
	return rf_message_allowed(&m, from_source, lane, phase, &e);
}

static void rules_bite(void **state)
{
	assert_int_equal(allowed(RF_MSG_COMMIT, 16, true, 0, RF_WIRE_LOADED), 0);
	assert_int_equal(allowed(RF_MSG_COMMIT, 16, true, 0, RF_WIRE_COPY), -1);    /* before READY */
	assert_int_equal(allowed(RF_MSG_COMMIT, 16, false, 0, RF_WIRE_LOADED), -1); /* not the destination's to say */
	assert_int_equal(allowed(RF_MSG_COMMIT, 15, true, 0, RF_WIRE_LOADED), -1);
	assert_int_equal(allowed(RF_MSG_COMMIT, 17, true, 0, RF_WIRE_LOADED), -1);
	assert_int_equal(allowed(RF_MSG_COMMIT, 16, true, 1, RF_WIRE_LOADED), -1); /* only the control lane */
	assert_int_equal(allowed(RF_MSG_ROUND_END, 17, true, 5, RF_WIRE_COPY), 0);
	assert_int_equal(allowed(RF_MSG_RUNNING, 16, false, 0, RF_WIRE_LOADING), -1); /* nobody said COMMIT */
	assert_int_equal(allowed(RF_MSG_REGISTER, 24, true, 0, RF_WIRE_SETUP), -1);   /* before the blocks agree */
}

static void cursor_never_reads_past_the_end(void **state)
{
	struct rf_error e = {0};
	struct rf_message m = {RF_MSG_ABORT,
			       (const uint8_t *)"\x01\xff\xff"
						"abc",
			       6};
	char text[10];
	struct rf_in in = rf_in_body(&m);
	assert_int_equal(rf_get_u8(&in), 1);
	rf_get_text(&in, text, sizeof(text)); /* says 65535 bytes */
	assert_true(in.bad);
	assert_string_equal(text, "");
	assert_int_equal(rf_get_u64(&in), 0);
	assert_int_equal(rf_in_end(&in, &m, &e), -1);
	assert_string_equal(e.text, "the peer's ABORT makes no sense");

	struct rf_message control = {RF_MSG_ABORT, (const uint8_t *)"\x03\0\x1b[2", 5};
	in = rf_in_body(&control);
	rf_get_text(&in, text, sizeof(text)); /* would move a terminal's cursor */
	assert_true(in.bad);

	struct rf_message more = {RF_MSG_PING, (const uint8_t *)"123456789", 9};
	in = rf_in_body(&more);
	rf_get_u64(&in);
	assert_int_equal(rf_in_end(&in, &more, &e), -1); /* a byte too many */
}

static void random_bytes_never_pass(void **state)
{
	static uint8_t bytes[256];
	struct rf_message m;
	struct rf_error e;
	srand(1);
	for (int round = 0; round < 20000; round++) {
		size_t length = (size_t)rand() % sizeof(bytes);
		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)rand();
		if (length >= 4)
			memcpy(bytes, &(uint32_t){(uint32_t)length}, 4);
		assert_int_equal(rf_message_parse(bytes, length, 0, &m, &e), -1);
	}
}

static void long_texts_are_cut_not_overrun(void **state)
{
	static char text[5000];
	memset(text, 'x', sizeof(text) - 1);
	rf_out_begin(&out, RF_MSG_ABORT);
	rf_put_u8(&out, 1);
	rf_put_text(&out, text);
	rf_out_end(&out, 0);
	assert_int_equal(out.length, RF_FRAME_BYTES + rf_message_table[RF_MSG_ABORT].body_max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(crc_is_castagnoli),
	    cmocka_unit_test(frame_is_as_documented),
	    cmocka_unit_test(good_message_comes_back),
	    cmocka_unit_test(damaged_frames_are_refused),
	    cmocka_unit_test(unknown_type_is_refused),
	    cmocka_unit_test(rules_bite),
	    cmocka_unit_test(cursor_never_reads_past_the_end),
	    cmocka_unit_test(random_bytes_never_pass),
	    cmocka_unit_test(long_texts_are_cut_not_overrun),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
