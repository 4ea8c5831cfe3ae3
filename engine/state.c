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
	if (length > RF_STATE_BYTES_MAX - s->length)
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

static uint64_t hash_of(const struct rf_state *s)
{
	return XXH3_64bits(s->bytes, s->length);
}

int rf_state_send(const struct rf_state *s, struct rf_peer *p, struct rf_error *e)
{
	for (size_t at = 0; at < s->length;) {
		size_t length = rf_min_u64(s->length - at, RF_BODY_BYTES_MAX);
		rf_put_bytes(rf_peer_begin(p, RF_MSG_STATE), s->bytes + at, length);
		if (rf_peer_send(p, RF_LANE_CONTROL, e))
			return -1;
		at += length;
	}
	return 0;
}

int rf_state_say_load(const struct rf_state *s, struct rf_peer *p, bool run, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(p, RF_MSG_LOAD);
	rf_put_u64(o, s->length);
	rf_put_u64(o, hash_of(s));
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
	if (length != s->length || hash != hash_of(s) || flag > 1)
		return rf_fail(e, RF_E_FAILED, "the device state arrived damaged (%zu of %llu bytes)", s->length,
			       (unsigned long long)length);
	*run = flag;
	return 0;
}
