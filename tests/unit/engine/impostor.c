// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/engine/impostor.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { QUIET_MAX = 8 };

/* ---- saying ---- */

struct rf_out *impostor_begin(struct impostor *i, enum rf_message_type type)
{
	rf_out_begin(&i->out, type);
	return &i->out;
}

/* As rf_out_end, which asserts that a message is a good one. */
static size_t put_frame(struct rf_out *o, uint64_t sequence)
{
	uint32_t length = (uint32_t)(o->length + RF_FRAME_TAIL_BYTES);
	uint16_t type = (uint16_t)o->type, flags = 0;

	memcpy(o->bytes, &length, 4);
	memcpy(o->bytes + 4, &type, 2);
	memcpy(o->bytes + 6, &flags, 2);
	memcpy(o->bytes + 8, &sequence, 8);
	uint32_t crc = rf_crc32c(o->bytes, o->length);
	memset(o->bytes + o->length, 0, RF_FRAME_TAIL_BYTES);
	memcpy(o->bytes + o->length, &crc, 4);
	return length;
}

static void keep_books(struct impostor *i, unsigned lane, const struct rf_out *o)
{
	const uint8_t *body = o->bytes + RF_FRAME_HEAD_BYTES;
	size_t length = o->length - RF_FRAME_HEAD_BYTES;
	bool ours = !lane && length >= 16 && !memcmp(body, i->id, 16);

	if (o->type == RF_MSG_COMMIT && ours && length == 16 && i->heard[RF_MSG_READY])
		i->gave_commit = true;
	if (o->type == RF_MSG_RUNNING && ours && length == 16)
		i->gave_running = true;
	if (o->type == RF_MSG_DISCARDED && ours)
		i->gave_discarded = true;
	if (o->type == RF_MSG_READY && !lane && length == 8)
		i->gave_ready = true;
}

static void utter(struct impostor *i, unsigned lane, struct rf_out *o)
{
	size_t length = put_frame(o, i->sequence[lane]++);
	keep_books(i, lane, o);
	stage_say(&i->stage, lane, o->bytes, length);
}

static void disturb_bits(struct impostor *i, struct rf_out *o)
{
	size_t length = o->length - RF_FRAME_HEAD_BYTES;
	for (uint64_t n = 1 + stage_random(&i->stage, 4); length && n; n--)
		o->bytes[RF_FRAME_HEAD_BYTES + stage_random(&i->stage, length)] ^=
		    (uint8_t)(1u << stage_random(&i->stage, 8));
}

static void disturb_number(struct impostor *i, struct rf_out *o)
{
	static const uint64_t extremes[] = {0,
					    1,
					    2,
					    PLAYER_PAGES - 1,
					    PLAYER_PAGES,
					    PLAYER_PAGES + 1,
					    UINT32_MAX,
					    UINT64_C(1) << 31,
					    UINT64_C(1) << 51,
					    UINT64_C(1) << 52,
					    UINT64_C(1) << 63,
					    INT64_MAX,
					    UINT64_MAX};
	size_t length = o->length - RF_FRAME_HEAD_BYTES, width = stage_random(&i->stage, 2) ? 8 : 4;
	uint64_t value = extremes[stage_random(&i->stage, sizeof(extremes) / sizeof(extremes[0]))];
	if (length >= width)
		memcpy(o->bytes + RF_FRAME_HEAD_BYTES + stage_random(&i->stage, (length - width) / 4 + 1) * 4, &value,
		       width);
}

static void invent(struct impostor *i)
{
	struct rf_out o;
	rf_out_begin(&o, (enum rf_message_type)stage_random(&i->stage, RF_MSG_TYPES + 2));
	o.length += stage_random(&i->stage, 64);
	for (size_t at = RF_FRAME_HEAD_BYTES; at < o.length; at++)
		o.bytes[at] = (uint8_t)stage_random(&i->stage, stage_random(&i->stage, 2) ? 256 : 3);
	utter(i, (unsigned)stage_random(&i->stage, STAGE_LANES + 1), &o);
}

static void replay(struct impostor *i)
{
	if (!i->npast)
		return;
	unsigned n = (unsigned)stage_random(&i->stage, i->npast);
	struct rf_out o;
	o.type = i->past[n].type;
	o.length = i->past[n].length;
	memcpy(o.bytes, i->past[n].bytes, o.length);
	utter(i, stage_random(&i->stage, 4) ? 0 : 1, &o);
}

static void make_noise(struct impostor *i)
{
	uint8_t noise[200];
	size_t length = stage_random(&i->stage, sizeof(noise));
	for (size_t at = 0; at < length; at++)
		noise[at] = (uint8_t)stage_random(&i->stage, 256);
	stage_say(&i->stage, (unsigned)stage_random(&i->stage, STAGE_LANES + 1), noise, length);
}

static void say_bare(struct impostor *i, unsigned lane, struct rf_out *o, enum mischief kind)
{
	size_t length = put_frame(o, i->sequence[lane]++ + (kind == MISCHIEF_SEQUENCE));
	if (kind == MISCHIEF_CHECKSUM)
		o->bytes[stage_random(&i->stage, length)] ^= 1;
	stage_say(&i->stage, lane, o->bytes, length);
}

/* false: it is not to be said any more. */
static bool do_mischief(struct impostor *i, enum mischief kind, unsigned *lane, struct rf_out *o)
{
	switch (kind) {
	case MISCHIEF_BITS:
		disturb_bits(i, o);
		return true;
	case MISCHIEF_CHECKSUM:
	case MISCHIEF_SEQUENCE:
		say_bare(i, *lane, o, kind);
		return false;
	case MISCHIEF_NUMBER:
		disturb_number(i, o);
		return true;
	case MISCHIEF_TYPE:
		o->type = (enum rf_message_type)stage_random(&i->stage, RF_MSG_TYPES + 2);
		return true;
	case MISCHIEF_LANE:
		*lane = (*lane + 1 + (unsigned)stage_random(&i->stage, STAGE_LANES)) % (STAGE_LANES + 1);
		return true;
	case MISCHIEF_TWICE:
		utter(i, *lane, o);
		return true;
	case MISCHIEF_DROPPED:
		return false;
	case MISCHIEF_SHORT:
		o->length = RF_FRAME_HEAD_BYTES + stage_random(&i->stage, o->length - RF_FRAME_HEAD_BYTES + 1);
		return true;
	case MISCHIEF_LONG:
		for (uint64_t n = 1 + stage_random(&i->stage, 40); n && rf_out_room(o); n--)
			o->bytes[o->length++] = (uint8_t)stage_random(&i->stage, 256);
		return true;
	case MISCHIEF_LATE:
		i->held.lane = *lane;
		i->held.out.type = o->type;
		i->held.out.length = o->length;
		memcpy(i->held.out.bytes, o->bytes, o->length);
		return false;
	case MISCHIEF_REPLAY:
		replay(i);
		return true;
	case MISCHIEF_INVENTED:
		invent(i);
		return true;
	case MISCHIEF_NOISE:
		make_noise(i);
		return true;
	case MISCHIEF_LOST:
		stage_lose(&i->stage, "the stage fell down");
		return false;
	case MISCHIEF_SILENCE:
		i->silent = true;
		return false;
	case MISCHIEFS:
		break;
	}
	fail_msg("no such mischief");
	return false;
}

void impostor_say(struct impostor *i, unsigned lane)
{
	struct rf_out *o = &i->out;
	unsigned number = i->said++;
	bool say = !i->silent && (!i->edit || i->edit(i, number, &lane, o));

	if (i->npast < IMPOSTOR_PAST && o->length <= IMPOSTOR_PAST_BYTES) {
		i->past[i->npast].type = o->type;
		i->past[i->npast].length = o->length;
		memcpy(i->past[i->npast++].bytes, o->bytes, o->length);
	}
	for (unsigned t = 0; say && t < i->ntricks; t++)
		if (i->tricks[t].at == number)
			say = do_mischief(i, i->tricks[t].kind, &lane, o);
	if (say)
		utter(i, lane, o);
	if (say && i->held.out.length) {
		utter(i, i->held.lane, &i->held.out);
		i->held.out.length = 0;
	}
}

/* ---- hearing ---- */

static void heard(void *actor, unsigned lane, const void *message, size_t length)
{
	struct impostor *i = actor;
	struct rf_message m;
	struct rf_error e = {0};
	uint64_t sequence;

	memcpy(&sequence, (const uint8_t *)message + 8, 8);
	if (rf_message_parse(message, length, sequence, &m, &e))
		fail_msg("the engine sent nonsense: %s", e.text);
	i->heard[m.type]++;
	i->heard_bytes += (unsigned)length;
	if (m.type == RF_MSG_PING && !i->silent) {
		struct rf_in in = rf_in_body(&m);
		struct rf_out *o = impostor_begin(i, RF_MSG_PONG);
		rf_put_u64(o, rf_get_u64(&in));
		rf_put_text(o, "playing");
		/* Not one of the numbered messages: it comes when it comes. */
		utter(i, RF_LANE_CONTROL, o);
		return;
	}
	i->hear(i, lane, &m);
}

static bool says(void *actor)
{
	struct impostor *i = actor;
	if (i->silent)
		return false;
	unsigned before = i->said;
	if (i->next(i) && i->said != before)
		return true;
	/* It answers PING, but has nothing to say any more: then it goes. */
	if (!i->stays && !i->stage.head && !i->stage.tasks && i->quiet++ == QUIET_MAX)
		stage_lose(&i->stage, "the impostor left");
	return false;
}

void impostor_open(struct impostor *i, struct player *p, uint64_t seed)
{
	memset(i, 0, sizeof(*i));
	stage_open(&i->stage, seed);
	i->stage.heard = heard;
	i->stage.says = says;
	i->stage.actor = i;
	i->player = p;
	memcpy(i->id, "sixteen of bytes", 16);
}

void impostor_close(struct impostor *i)
{
	stage_close(&i->stage);
}

/* ---- runs ---- */

void run_open(struct run *r, struct impostor *i)
{
	*r = (struct run){.result = 1};
	rf_options_init(&r->options);
	r->options.tracker = RF_TRACKER_CALLBACK;
	r->options.chunk_size_bytes = 1 << 20;
	r->options.max_write_bytes = 64 << 10;
	r->engine = (struct rf_engine){.fabric = &i->stage.base,
				       .guest = i->player->guest,
				       .options = &r->options,
				       .stats = &r->stats,
				       .cancelled = &r->cancelled,
				       .name = "the engine"};
	memcpy(r->engine.id, i->id, 16);
}

void run_close(struct run *r, struct impostor *i)
{
	impostor_close(i);
	rf_engine_free(&r->engine);
	rf_stats_free(&r->stats);
}

void assert_sentence(const struct rf_error *e)
{
	size_t length = strlen(e->text);
	assert_true(e->code >= RF_E_FAILED && e->code <= RF_E_CANCELLED);
	assert_true(length > 3);
	if (strchr(e->text, '\n') || e->text[length - 1] == '.')
		fail_msg("not one sentence: %s", e->text);
}
