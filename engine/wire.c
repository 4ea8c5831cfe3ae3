// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/wire.h"

#include "common/checked.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#define IN(phase) (1u << RF_WIRE_##phase)
#define ALWAYS    (IN(HELLO) | IN(SETUP) | IN(COPY) | IN(LOADING) | IN(LOADED) | IN(COMMITTED) | IN(PROBE))

/* body_min is the fixed part of a body, or of its shortest list. RUNNING and DISCARDED are welcome to a source that has
 * given COMMIT, ABORT and REFUSED end whatever goes on. */
// clang-format off
const struct rf_message_rule rf_message_table[RF_MSG_TYPES] = {
	/*                      name         source dest   data   phases                      body, from and to */
	[RF_MSG_HELLO]     = {"HELLO",     true,  true,  false, IN(HELLO),                  12, RF_BODY_BYTES_MAX},
	[RF_MSG_BLOCKS]    = {"BLOCKS",    true,  false, false, IN(SETUP),                  4,  RF_BODY_BYTES_MAX},
	[RF_MSG_BLOCKS_OK] = {"BLOCKS_OK", false, true,  false, IN(SETUP),                  0,  0},
	[RF_MSG_REFUSED]   = {"REFUSED",   false, true,  false, IN(HELLO) | IN(SETUP),      2,  1024},
	[RF_MSG_REGISTER]  = {"REGISTER",  true,  false, false, IN(COPY),                   24, RF_BODY_BYTES_MAX},
	[RF_MSG_KEYS]      = {"KEYS",      false, true,  false, ALWAYS,                     28, RF_BODY_BYTES_MAX},
	[RF_MSG_RELEASE]   = {"RELEASE",   true,  false, true,  IN(COPY),                   8,  RF_BODY_BYTES_MAX},
	[RF_MSG_RELEASED]  = {"RELEASED",  false, true,  false, ALWAYS,                     4,  RF_BODY_BYTES_MAX},
	[RF_MSG_ZERO]      = {"ZERO",      true,  false, false, IN(COPY),                   20, RF_BODY_BYTES_MAX},
	[RF_MSG_ROUND_END] = {"ROUND_END", true,  false, true,  IN(COPY) | IN(PROBE),       17, 17},
	[RF_MSG_ROUND_OK]  = {"ROUND_OK",  false, true,  false, IN(COPY) | IN(LOADING) | IN(PROBE), 8, 8},
	[RF_MSG_STATE]     = {"STATE",     true,  false, false, IN(COPY),                   1,  RF_BODY_BYTES_MAX},
	[RF_MSG_LOAD]      = {"LOAD",      true,  false, false, IN(COPY),                   17, 17},
	[RF_MSG_DIGEST]    = {"DIGEST",    true,  false, false, IN(COPY),                   36, RF_BODY_BYTES_MAX},
	[RF_MSG_DIGEST_OK] = {"DIGEST_OK", false, true,  false, IN(COPY),                   8,  8},
	[RF_MSG_READY]     = {"READY",     false, true,  false, IN(LOADING),                8,  8},
	[RF_MSG_COMMIT]    = {"COMMIT",    true,  false, false, IN(LOADED) | IN(COMMITTED), 16, 16},
	[RF_MSG_RUNNING]   = {"RUNNING",   false, true,  false, IN(COMMITTED),              16, 16},
	[RF_MSG_DISCARDED] = {"DISCARDED", false, true,  false, IN(LOADING) | IN(COMMITTED), 18, 1024},
	[RF_MSG_ABORT]     = {"ABORT",     true,  true,  false, ALWAYS,                     3,  1024},
	[RF_MSG_PING]      = {"PING",      true,  true,  false, ALWAYS,                     8,  8},
	[RF_MSG_PONG]      = {"PONG",      true,  true,  false, ALWAYS,                     10, 1024},
	[RF_MSG_PROBE]     = {"PROBE",     true,  false, false, IN(SETUP),                  0,  0},
	[RF_MSG_EARLY]     = {"EARLY",     true,  false, false, IN(COPY),                   1,  RF_BODY_BYTES_MAX},
};
// clang-format on

/* ---- writing ---- */

void rf_out_begin(struct rf_out *o, enum rf_message_type type)
{
	o->type = type;
	o->length = RF_FRAME_HEAD_BYTES;
}

size_t rf_out_room(const struct rf_out *o)
{
	return RF_MESSAGE_BYTES_MAX - RF_FRAME_TAIL_BYTES - o->length;
}

void rf_put_bytes(struct rf_out *o, const void *data, size_t length)
{
	assert(length <= rf_out_room(o));
	if (length)
		memcpy(o->bytes + o->length, data, length);
	o->length += length;
}

void rf_put_u8(struct rf_out *o, uint8_t v)
{
	rf_put_bytes(o, &v, sizeof(v));
}

void rf_put_u16(struct rf_out *o, uint16_t v)
{
	rf_put_bytes(o, &v, sizeof(v));
}

void rf_put_u32(struct rf_out *o, uint32_t v)
{
	rf_put_bytes(o, &v, sizeof(v));
}

void rf_put_u64(struct rf_out *o, uint64_t v)
{
	rf_put_bytes(o, &v, sizeof(v));
}

void rf_put_text(struct rf_out *o, const char *text)
{
	size_t length = strlen(text), most = rf_message_table[o->type].body_max - 2;
	if (length > most - (o->length - RF_FRAME_HEAD_BYTES))
		length = most - (o->length - RF_FRAME_HEAD_BYTES);
	rf_put_u16(o, (uint16_t)length);
	rf_put_bytes(o, text, length);
}

static void put_at(struct rf_out *o, size_t at, const void *data, size_t length)
{
	memcpy(o->bytes + at, data, length);
}

void rf_out_end(struct rf_out *o, uint64_t sequence)
{
	const struct rf_message_rule *rule = &rf_message_table[o->type];
	uint32_t body = (uint32_t)(o->length - RF_FRAME_HEAD_BYTES), length = body + RF_FRAME_BYTES;
	assert(rule->name && body >= rule->body_min && body <= rule->body_max);

	uint16_t type = (uint16_t)o->type, flags = 0;
	put_at(o, 0, &length, 4);
	put_at(o, 4, &type, 2);
	put_at(o, 6, &flags, 2);
	put_at(o, 8, &sequence, 8);
	uint32_t crc = rf_crc32c(o->bytes, o->length);
	memset(o->bytes + o->length, 0, RF_FRAME_TAIL_BYTES);
	put_at(o, o->length, &crc, 4);
	o->length = length;
}

/* ---- reading ---- */

int rf_message_parse(const void *data, size_t length, uint64_t sequence, struct rf_message *m, struct rf_error *e)
{
	const uint8_t *p = data;
	uint32_t said, crc;
	uint16_t type, flags;
	uint64_t number;

	if (length < RF_FRAME_BYTES || length > RF_MESSAGE_BYTES_MAX)
		return rf_fail(e, RF_E_FAILED, "the peer sent a message of %zu bytes, which is out of range", length);
	memcpy(&said, p, 4);
	memcpy(&type, p + 4, 2);
	memcpy(&flags, p + 6, 2);
	memcpy(&number, p + 8, 8);
	memcpy(&crc, p + length - RF_FRAME_TAIL_BYTES, 4);
	if (said != length)
		return rf_fail(e, RF_E_FAILED, "the peer sent a message of %zu bytes that says it has %u", length,
			       said);
	/* What is kept for a MAC says nothing yet. */
	if (crc != rf_crc32c(p, length - RF_FRAME_TAIL_BYTES) ||
	    memcmp(p + length - RF_FRAME_TAIL_BYTES + 4, (const uint8_t[RF_FRAME_TAIL_BYTES - 4]){0},
		   RF_FRAME_TAIL_BYTES - 4))
		return rf_fail(e, RF_E_FAILED, "a message of the peer has a wrong checksum");
	if (type >= RF_MSG_TYPES || !rf_message_table[type].name || flags)
		return rf_fail(e, RF_E_FAILED, "the peer sent a message of the unknown type %u", type);
	if (number != sequence)
		return rf_fail(e, RF_E_FAILED, "the peer's %s has number %llu instead of %llu",
			       rf_message_table[type].name, (unsigned long long)number, (unsigned long long)sequence);
	m->type = type;
	m->body = p + RF_FRAME_HEAD_BYTES;
	m->length = length - RF_FRAME_BYTES;
	return 0;
}

int rf_message_allowed(const struct rf_message *m, bool from_source, unsigned lane, enum rf_wire_phase phase,
		       struct rf_error *e)
{
	const struct rf_message_rule *rule = &rf_message_table[m->type];
	if (!(from_source ? rule->from_source : rule->from_destination))
		return rf_fail(e, RF_E_FAILED, "the peer sent %s, which is not its to say", rule->name);
	if (lane && !rule->data_lane)
		return rf_fail(e, RF_E_FAILED, "the peer sent %s on the wrong lane (%u)", rule->name, lane);
	if (!(rule->phases & 1u << phase))
		return rf_fail(e, RF_E_FAILED, "the peer sent %s at the wrong time", rule->name);
	if (m->length < rule->body_min || m->length > rule->body_max)
		return rf_fail(e, RF_E_FAILED, "the peer's %s has %zu bytes, which is out of range", rule->name,
			       m->length);
	return 0;
}

struct rf_in rf_in_body(const struct rf_message *m)
{
	return (struct rf_in){.at = m->body, .end = m->body + m->length};
}

const void *rf_get_bytes(struct rf_in *in, size_t length)
{
	if (in->bad || (size_t)(in->end - in->at) < length) {
		in->bad = true;
		return NULL;
	}
	in->at += length;
	return in->at - length;
}

static uint64_t get_number(struct rf_in *in, size_t length)
{
	uint64_t v = 0;
	const void *p = rf_get_bytes(in, length);
	if (p)
		memcpy(&v, p, length);
	return v;
}

uint8_t rf_get_u8(struct rf_in *in)
{
	return (uint8_t)get_number(in, 1);
}

uint16_t rf_get_u16(struct rf_in *in)
{
	return (uint16_t)get_number(in, 2);
}

uint32_t rf_get_u32(struct rf_in *in)
{
	return (uint32_t)get_number(in, 4);
}

uint64_t rf_get_u64(struct rf_in *in)
{
	return get_number(in, 8);
}

void rf_get_text(struct rf_in *in, char *text, size_t size)
{
	size_t length = rf_get_u16(in);
	const char *p = rf_get_bytes(in, length);
	text[0] = 0;
	if (!p)
		return;
	if (length >= size) {
		in->bad = true;
		return;
	}
	/* It will be shown on terminals and in logs. */
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)p[i]) && p[i] != '\n')
			in->bad = true;
	memcpy(text, p, length);
	text[length] = 0;
}

bool rf_in_more(const struct rf_in *in)
{
	return !in->bad && in->at < in->end;
}

int rf_in_end(const struct rf_in *in, const struct rf_message *m, struct rf_error *e)
{
	if (in->bad || in->at != in->end)
		return rf_fail(e, RF_E_FAILED, "the peer's %s makes no sense", rf_message_table[m->type].name);
	return 0;
}
