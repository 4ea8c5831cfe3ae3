// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a completion means. A frame comes from the peer and is believed nothing: neither its length, nor how many buffers it
 * gives back. */
#include "fabric/verbs.h"

#include <assert.h>
#include <string.h>

/* All that was posted up to this place is done. */
static void posts_done(struct rf_verbs_lane *lane, uint32_t place)
{
	uint32_t count = place - lane->completed + 1;

	assert(count <= lane->posted - lane->completed);
	for (; count; count--) {
		switch ((enum rf_verbs_post)lane->ring[lane->completed++ & lane->ring_mask]) {
		case RF_VERBS_POST_WRITE:
			lane->writes--;
			lane->written++;
			break;
		case RF_VERBS_POST_MESSAGE:
			lane->messages--;
			break;
		case RF_VERBS_POST_CREDITS:
			lane->credit_frames--;
			break;
		}
	}
}

static bool take_back(struct rf_verbs_lane *lane, uint32_t returned)
{
	if (returned - lane->returned > lane->sent - lane->returned)
		return false;
	lane->returned = returned;
	return true;
}

/* NULL, or what is wrong with it. */
static const char *take_credits(struct rf_verbs *v, const struct rf_verbs_frame *head, const uint8_t *body)
{
	uint32_t count;

	if (head->length != v->lane_count * sizeof(count))
		return "a frame of credits of another length than it has";
	for (unsigned i = 0; i < v->lane_count; i++) {
		memcpy(&count, body + i * sizeof(count), sizeof(count));
		if (!take_back(&v->lanes[i], count))
			return "more credits than it was ever asked for";
	}
	return NULL;
}

static const char *check_frame(const struct rf_verbs_lane *lane, const struct rf_verbs_frame *head, uint32_t bytes)
{
	if (bytes < sizeof(*head) || head->length != bytes - sizeof(*head))
		return "a frame of another length than it says";
	if (head->zero || (lane->number && head->given_back))
		return "a frame with something in it that is always zero";
	if (head->kind == RF_VERBS_MESSAGE)
		return head->length <= RF_VERBS_MIN_MESSAGE_BYTES ? NULL : "too long a message";
	return head->kind == RF_VERBS_CREDITS && lane->number == 0 ? NULL : "a frame of no kind that we know";
}

static void give_back_now(struct rf_verbs_lane *lane, unsigned buffer)
{
	int err = lane->verbs->losing ? 0 : rf_verbs_post_receive(lane, buffer);

	if (err)
		rf_verbs_lose(lane->verbs, "the RDMA device does not take a receive on lane %u: %s", lane->number,
			      strerror(err));
	lane->given_back++;
}

static int received(struct rf_verbs *v, struct rf_verbs_lane *lane, unsigned buffer, uint32_t bytes,
		    struct rf_event *event)
{
	const uint8_t *data = rf_verbs_receive_buffer(lane, buffer);
	struct rf_verbs_frame head = {0};

	if (bytes >= sizeof(head))
		memcpy(&head, data, sizeof(head));
	const char *wrong = check_frame(lane, &head, bytes);

	if (!wrong && lane->number == 0 && !take_back(lane, head.given_back))
		wrong = "more credits than it was ever asked for";
	if (!wrong && head.kind == RF_VERBS_CREDITS)
		wrong = take_credits(v, &head, data + sizeof(head));
	if (wrong) {
		rf_verbs_lose(v, "%s broke the rules on lane %u: it sent %s", v->peer, lane->number, wrong);
		return 0;
	}
	if (head.kind == RF_VERBS_CREDITS) {
		give_back_now(lane, buffer);
		return 0;
	}
	assert(lane->delivered_count < lane->receives);
	lane->delivered[lane->delivered_count++] = (uint16_t)buffer;
	*event = (struct rf_event){
	    .kind = RF_EV_MESSAGE,
	    .lane = lane->number,
	    .data = data + sizeof(head),
	    .length = head.length,
	};
	return 1;
}

int rf_verbs_complete(struct rf_verbs *v, const struct ibv_wc *wc, struct rf_event *event)
{
	unsigned number = (unsigned)(wc->wr_id >> 32) & 0xff;
	bool receive = wc->wr_id >> 63;

	assert(number < v->lane_count);
	if (wc->status != IBV_WC_SUCCESS) {
		rf_verbs_failed(v, wc);
		return 0;
	}
	/* A write that carries a number takes a receive too, and leaves in its buffer what was there before. */
	if (receive && (wc->opcode != IBV_WC_RECV || wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV))) {
		rf_verbs_lose(v, "%s broke the rules on lane %u: it sent something that is no message", v->peer,
			      number);
		return 0;
	}
	if (receive)
		return received(v, &v->lanes[number], (uint32_t)wc->wr_id, wc->byte_len, event);
	posts_done(&v->lanes[number], (uint32_t)wc->wr_id);
	return 0;
}
