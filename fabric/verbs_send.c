// SPDX-License-Identifier: LGPL-2.1-or-later
/* Posting: writes in chains, messages with credits. verbs.h tells how credits work. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <string.h>

enum { CHAIN = 64, DEFAULT_SIGNAL_INTERVAL = 32 };

static unsigned signal_interval(const struct rf_verbs *v)
{
	unsigned wish = v->config.signal_interval ? v->config.signal_interval : DEFAULT_SIGNAL_INTERVAL;

	/* Room must come back before the queue is full. */
	return (unsigned)rf_max_u64(1, rf_min_u64(wish, v->fabric.limits.queue_depth / 2));
}

static void remember(struct rf_verbs_lane *lane, enum rf_verbs_post kind)
{
	assert(lane->posted - lane->completed <= lane->ring_mask);
	lane->ring[lane->posted++ & lane->ring_mask] = (uint8_t)kind;
}

static int post(struct rf_verbs_lane *lane, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad = NULL;
	int err = ibv_post_send(lane->id->qp, first, &bad);

	lane->verbs->doorbells++;
	if (!err)
		return 0;
	/* The queue was never filled beyond what it was made for, so the card or the connection is broken. */
	rf_verbs_lose(lane->verbs, "the RDMA device does not take what lane %u wants to send: %s", lane->number,
		      strerror(err));
	return -1;
}

static void fill_write(struct ibv_send_wr *wr, struct ibv_sge *piece, const struct rf_write *w)
{
	*piece = (struct ibv_sge){
	    .addr = (uintptr_t)w->local,
	    .length = w->length,
	    .lkey = (uint32_t)(w->lkey.value[0] >> 32),
	};
	*wr = (struct ibv_send_wr){
	    .sg_list = piece,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .wr.rdma = {.remote_addr = w->remote, .rkey = (uint32_t)w->rkey.value[0]},
	};
}

/* One doorbell. The last of all asks for a completion, so that the end of a batch is always told. */
static int post_chain(struct rf_verbs_lane *lane, const struct rf_write *w, unsigned n, bool last)
{
	struct ibv_send_wr wr[CHAIN];
	struct ibv_sge pieces[CHAIN];
	unsigned interval = signal_interval(lane->verbs);

	for (unsigned i = 0; i < n; i++) {
		assert(w[i].length && w[i].length <= lane->verbs->fabric.limits.max_write_bytes);
		fill_write(&wr[i], &pieces[i], &w[i]);
		wr[i].wr_id = rf_verbs_name(lane->number, false, lane->posted);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		if (++lane->unsignaled >= interval || (last && i + 1 == n)) {
			wr[i].send_flags = IBV_SEND_SIGNALED;
			lane->unsignaled = 0;
		}
		remember(lane, RF_VERBS_POST_WRITE);
	}
	lane->writes += n;
	return post(lane, wr);
}

int rf_verbs_write(struct rf_fabric *f, unsigned number, const struct rf_write *w, int n)
{
	struct rf_verbs *v = rf_verbs_of(f);

	assert(number >= 1 && number < v->lane_count && n >= 0);
	if (v->losing)
		return -1;
	struct rf_verbs_lane *lane = &v->lanes[number];
	unsigned count = (unsigned)rf_min_u64((uint64_t)n, f->limits.queue_depth - lane->writes);

	for (unsigned done = 0, now; done < count; done += now) {
		now = (unsigned)rf_min_u64(CHAIN, count - done);
		if (post_chain(lane, w + done, now, done + now == count) < 0)
			return -1;
	}
	return (int)count;
}

static uint32_t credits(const struct rf_verbs_lane *lane)
{
	return lane->peer_receives - (lane->sent - lane->returned);
}

/* On lane 0 the last credit is kept for a frame that gives credits back. */
bool rf_verbs_can_send(const struct rf_verbs_lane *lane)
{
	return lane->messages < lane->sends && credits(lane) > (lane->number == 0 ? 1u : 0u);
}

static int post_frame(struct rf_verbs_lane *lane, uint8_t *buffer, enum rf_verbs_frame_kind kind, size_t length)
{
	struct rf_verbs_frame head = {.kind = kind, .length = (uint32_t)length};
	struct ibv_sge piece = {
	    .addr = (uintptr_t)buffer,
	    .length = (uint32_t)(sizeof(head) + length),
	    .lkey = lane->buffers_mr->lkey,
	};
	struct ibv_send_wr wr = {
	    .wr_id = rf_verbs_name(lane->number, false, lane->posted),
	    .sg_list = &piece,
	    .num_sge = 1,
	    .opcode = IBV_WR_SEND,
	    .send_flags = IBV_SEND_SIGNALED,
	};

	assert(credits(lane) > 0);
	if (lane->number == 0)
		head.given_back = lane->told = lane->given_back;
	memcpy(buffer, &head, sizeof(head));
	remember(lane, kind == RF_VERBS_CREDITS ? RF_VERBS_POST_CREDITS : RF_VERBS_POST_MESSAGE);
	lane->sent++;
	lane->unsignaled = 0; /* this completion tells of the writes before it, too */
	return post(lane, &wr);
}

int rf_verbs_send(struct rf_fabric *f, unsigned number, const void *message, size_t length)
{
	struct rf_verbs *v = rf_verbs_of(f);

	assert(number < v->lane_count);
	if (v->losing)
		return -1;
	assert(length <= f->limits.max_message_bytes);
	struct rf_verbs_lane *lane = &v->lanes[number];

	if (!rf_verbs_can_send(lane)) {
		lane->starved = true;
		return 0;
	}
	uint8_t *buffer = rf_verbs_send_buffer(lane, lane->next_send);

	lane->next_send = (lane->next_send + 1) % lane->sends;
	lane->messages++;
	if (length)
		memcpy(buffer + sizeof(struct rf_verbs_frame), message, length);
	return post_frame(lane, buffer, RF_VERBS_MESSAGE, length) < 0 ? -1 : 1;
}

/* Half of a lane's buffers: often enough that the peer never runs dry while we are quick, and seldom enough that frames of
 * credits are few beside messages. */
static bool much_is_owed(const struct rf_verbs *v)
{
	for (unsigned i = 0; i < v->lane_count; i++) {
		const struct rf_verbs_lane *lane = &v->lanes[i];

		if (lane->given_back - lane->told >= lane->receives / 2)
			return true;
	}
	return false;
}

void rf_verbs_tell_credits(struct rf_verbs *v)
{
	struct rf_verbs_lane *control = v->lanes;

	if (v->losing || !v->lane_count || control->credit_frames == RF_VERBS_CREDIT_FRAMES || !much_is_owed(v) ||
	    credits(control) <= (control->given_back == control->told ? 1u : 0u))
		return;
	uint8_t *buffer = rf_verbs_credit_buffer(control, control->next_credit_frame);
	uint32_t counts[1 + RF_VERBS_MAX_LANES];

	control->next_credit_frame = (control->next_credit_frame + 1) % RF_VERBS_CREDIT_FRAMES;
	control->credit_frames++;
	for (unsigned i = 0; i < v->lane_count; i++)
		counts[i] = v->lanes[i].told = v->lanes[i].given_back;
	memcpy(buffer + sizeof(struct rf_verbs_frame), counts, v->lane_count * sizeof(counts[0]));
	post_frame(control, buffer, RF_VERBS_CREDITS, v->lane_count * sizeof(counts[0]));
}
