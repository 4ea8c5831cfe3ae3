// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/state.h"

#include "common/checked.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void rf_state_free(struct rf_state *s)
{
	free(s->bytes);
	*s = (struct rf_state){0};
}

int rf_state_append(struct rf_state *s, const void *data, size_t length, struct rf_error *e)
{
	if (length > RF_STATE_BYTES_MAX - s->told_bytes || s->length > RF_STATE_BYTES_MAX - s->told_bytes - length)
		return rf_fail(e, RF_E_FAILED, "the device state is larger than %d MiB", RF_STATE_BYTES_MAX >> 20);
	if (s->length + length > s->room) {
		size_t room = rf_max_u64(2 * s->room, rf_round_up(s->length + length, 1 << 16));
		uint8_t *more = realloc(s->bytes, room);
		if (!more)
			return rf_fail(e, RF_E_FAILED, "no memory for a device state of %zu bytes", room);
		s->bytes = more;
		s->room = room;
	}
	if (length)
		memcpy(s->bytes + s->length, data, length);
	s->length += length;
	return 0;
}

/* Both sides see the same messages, so the hash of a message may start from that of those before it. */
static void count(struct rf_state *s, const void *body, size_t length)
{
	s->told_bytes += length;
	s->hash = XXH3_64bits_withSeed(body, length, s->hash);
}

int rf_state_send(struct rf_state *s, struct rf_peer *p, enum rf_message_type type, struct rf_error *e)
{
	for (size_t at = 0; at < s->length;) {
		size_t length = rf_min_u64(s->length - at, RF_BODY_BYTES_MAX);
		rf_put_bytes(rf_peer_begin(p, type), s->bytes + at, length);
		if (rf_peer_send(p, RF_LANE_CONTROL, e))
			return -1;
		count(s, s->bytes + at, length);
		at += length;
	}
	s->length = 0;
	return 0;
}

int rf_state_take(struct rf_state *s, const struct rf_message *m, struct rf_error *e)
{
	if (rf_state_append(s, m->body, m->length, e))
		return -1;
	count(s, m->body, m->length);
	return 0;
}

int rf_state_say_load(const struct rf_state *s, struct rf_peer *p, bool run, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(p, RF_MSG_LOAD);
	rf_put_u64(o, s->told_bytes);
	rf_put_u64(o, s->hash);
	rf_put_u8(o, run);
	return rf_peer_send(p, RF_LANE_CONTROL, e);
}

int rf_state_take_load(const struct rf_state *s, const struct rf_message *m, bool *run, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint64_t length = rf_get_u64(&in), hash = rf_get_u64(&in);
	uint8_t flag = rf_get_u8(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (length != s->told_bytes || hash != s->hash || flag > 1)
		return rf_fail(e, RF_E_FAILED, "the device state arrived damaged (%llu of %llu bytes)",
			       (unsigned long long)s->told_bytes, (unsigned long long)length);
	*run = flag;
	return 0;
}

void rf_state_hand_over(struct rf_state *s, struct rf_state *to)
{
	free(to->bytes);
	*to = (struct rf_state){.bytes = s->bytes, .length = s->length, .room = s->room};
	s->bytes = NULL;
	s->length = s->room = 0;
}
