// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/engine/quiet_fabric.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static int quiet_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	struct quiet_fabric *q = (struct quiet_fabric *)f;
	assert_in_range(q->nsent, 0, QUIET_MESSAGES - 1);
	assert_in_range(length, RF_FRAME_BYTES, RF_MESSAGE_BYTES_MAX);
	memcpy(q->sent[q->nsent], message, length);
	q->sent_length[q->nsent++] = length;
	return 1;
}

static int quiet_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	struct quiet_fabric *q = (struct quiet_fabric *)f;
	int n = q->nevents;
	assert_true(n <= max);
	memcpy(events, q->events, (size_t)n * sizeof(*events));
	q->nevents = 0;
	if (!n && timeout_ns > 0)
		q->now_ns += timeout_ns;
	return n;
}

static int64_t quiet_now(struct rf_fabric *f)
{
	return ((struct quiet_fabric *)f)->now_ns;
}

static const struct rf_fabric_ops quiet_ops = {
    .scheme = "quiet",
    .send = quiet_send,
    .poll = quiet_poll,
    .now = quiet_now,
};

struct quiet_fabric *quiet_fabric_new(struct rf_guest *guest)
{
	struct quiet_fabric *q = calloc(1, sizeof(*q));
	assert_non_null(q);
	q->base = (struct rf_fabric){
	    .ops = &quiet_ops,
	    .limits = {.lanes = 1,
		       .queue_depth = 64,
		       .max_write_bytes = 1 << 20,
		       .max_message_bytes = 1 << 20,
		       .max_spans = 4},
	};
	rf_options_init(&q->options);
	q->engine = (struct rf_engine){
	    .fabric = &q->base, .guest = guest, .options = &q->options, .stats = &q->stats, .cancelled = &q->cancelled};
	rf_peer_init(&q->peer, &q->engine, true, NULL);
	q->peer.phase = RF_WIRE_COPY;
	return q;
}

void quiet_fabric_free(struct quiet_fabric *q)
{
	rf_peer_free(&q->peer);
	rf_stats_free(&q->stats);
	free(q);
}

struct rf_message quiet_sent(struct quiet_fabric *q, int n)
{
	struct rf_message m;
	struct rf_error e = {0};
	uint64_t sequence;
	assert_in_range(n, 0, q->nsent - 1);
	memcpy(&sequence, q->sent[n] + 8, 8);
	assert_int_equal(rf_message_parse(q->sent[n], q->sent_length[n], sequence, &m, &e), 0);
	return m;
}

struct rf_message quiet_message(const struct rf_out *o)
{
	return (struct rf_message){
	    .type = o->type, .body = o->bytes + RF_FRAME_HEAD_BYTES, .length = o->length - RF_FRAME_HEAD_BYTES};
}
