// SPDX-License-Identifier: LGPL-2.1-or-later
/* A lane's queue pair and its buffers. Receives are posted before the peer can know of the lane. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	BUFFER_BYTES = RF_VERBS_MIN_MESSAGE_BYTES + 64, /* a message and its head; whole cache lines */
	CREDIT_BYTES = 512,                             /* a head and a number for each lane */
	CONTROL_BUFFERS = 16,
	FEW_LANES = 8,
};
_Static_assert(CREDIT_BYTES >= sizeof(struct rf_verbs_frame) + (1 + RF_VERBS_MAX_LANES) * sizeof(uint32_t),
	       "a frame of credits has a number for each lane");

/* Data lanes carry the end of a round and little else. With many of them the memory is worth more than the last word. */
unsigned rf_verbs_receives(unsigned lane, unsigned lanes)
{
	if (lane == 0)
		return CONTROL_BUFFERS;
	return lanes <= FEW_LANES ? 4 : 2;
}

/* As many go as may come: the peer's share counts, and that is never more than this on lanes of the same version. */
static size_t buffers_bytes(unsigned lane, unsigned lanes)
{
	return 2 * (size_t)rf_verbs_receives(lane, lanes) * BUFFER_BYTES +
	       (lane == 0 ? RF_VERBS_CREDIT_FRAMES * CREDIT_BYTES : 0);
}

/* Queues come on top: cards of hardware have them in our memory, pinned, with 64 bytes for a completion and twice to thrice
 * that for a request. (Soft-RoCE has them in the kernel's.) */
uint64_t rf_verbs_own_bytes(unsigned lanes, unsigned queue_depth)
{
	enum { REQUEST_BYTES = 256 };
	uint64_t requests = queue_depth + 2 * (uint64_t)CONTROL_BUFFERS + RF_VERBS_CREDIT_FRAMES;
	uint64_t bytes = (lanes + 1) * requests * REQUEST_BYTES;

	for (unsigned lane = 0; lane <= lanes; lane++)
		bytes += rf_round_up(buffers_bytes(lane, lanes), 4096);
	return bytes;
}

uint8_t *rf_verbs_receive_buffer(const struct rf_verbs_lane *lane, unsigned buffer)
{
	assert(buffer < lane->receives);
	return lane->buffers + (size_t)buffer * BUFFER_BYTES;
}

uint8_t *rf_verbs_send_buffer(const struct rf_verbs_lane *lane, unsigned buffer)
{
	assert(buffer < lane->sends);
	return lane->buffers + (size_t)(lane->receives + buffer) * BUFFER_BYTES;
}

uint8_t *rf_verbs_credit_buffer(const struct rf_verbs_lane *lane, unsigned buffer)
{
	assert(lane->number == 0 && buffer < RF_VERBS_CREDIT_FRAMES);
	return lane->buffers + (size_t)(lane->receives + lane->sends) * BUFFER_BYTES + (size_t)buffer * CREDIT_BYTES;
}

int rf_verbs_post_receive(struct rf_verbs_lane *lane, unsigned buffer)
{
	struct ibv_sge piece = {
	    .addr = (uintptr_t)rf_verbs_receive_buffer(lane, buffer),
	    .length = BUFFER_BYTES,
	    .lkey = lane->buffers_mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = rf_verbs_name(lane->number, true, buffer), .sg_list = &piece, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(lane->id->qp, &wr, &bad);
}

int rf_verbs_lanes_new(struct rf_verbs *v, unsigned lane_count, struct rf_error *e)
{
	assert(!v->lanes);
	v->lanes = calloc(lane_count, sizeof(v->lanes[0]));
	if (!v->lanes)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	v->lane_count = lane_count;
	for (unsigned i = 0; i < lane_count; i++) {
		v->lanes[i].verbs = v;
		v->lanes[i].number = i;
	}
	return 0;
}

static int open_buffers(struct rf_verbs *v, struct rf_verbs_lane *lane, struct rf_error *e)
{
	size_t bytes = buffers_bytes(lane->number, v->lane_count - 1);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	lane->delivered = calloc(lane->receives, sizeof(lane->delivered[0]));
	if (p == MAP_FAILED || !lane->delivered)
		return rf_fail(e, RF_E_FAILED, "no memory for the buffers of lane %u", lane->number);
	lane->buffers = p;
	lane->buffers_mr = ibv_reg_mr(v->pd, p, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (lane->buffers_mr)
		return 0;
	if (errno == ENOMEM)
		return rf_fail(e, RF_E_REFUSED,
			       "cannot register the message buffers (%zu bytes): " RF_VERBS_RAISE_MEMLOCK, bytes);
	return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot register the message buffers (%zu bytes)", bytes);
}

static int open_ring(struct rf_verbs_lane *lane, unsigned requests, struct rf_error *e)
{
	uint32_t room = 1;

	while (room < requests)
		room *= 2;
	lane->ring = calloc(room, sizeof(lane->ring[0]));
	if (!lane->ring)
		return rf_fail(e, RF_E_FAILED, "no memory for the queue of lane %u", lane->number);
	lane->ring_mask = room - 1;
	return 0;
}

static int open_queue_pair(struct rf_verbs *v, struct rf_verbs_lane *lane, unsigned requests, struct rf_error *e)
{
	struct ibv_qp_init_attr attributes = {
	    .qp_context = lane,
	    .send_cq = v->cq,
	    .recv_cq = v->cq,
	    .cap = {.max_send_wr = requests, .max_recv_wr = lane->receives, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(lane->id, v->pd, &attributes)) {
		if (errno == ENOMEM)
			return rf_fail(e, RF_E_REFUSED,
				       "cannot make a queue pair for %u requests on %s: " RF_VERBS_RAISE_MEMLOCK
				       ", or take a smaller --queue-depth",
				       requests, ibv_get_device_name(v->context->device));
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a queue pair for %u requests on %s", requests,
				     ibv_get_device_name(v->context->device));
	}
	for (unsigned i = 0; i < lane->receives; i++) {
		int err = rf_verbs_post_receive(lane, i);

		if (err)
			return rf_fail_errno(e, RF_E_REFUSED, err, "cannot post a receive on lane %u", lane->number);
	}
	return 0;
}

/* Half a lane is taken apart by rf_verbs_lanes_free(), as a whole one is. */
int rf_verbs_lane_open(struct rf_verbs *v, unsigned number, struct rdma_cm_id *id, struct rf_error *e)
{
	struct rf_verbs_lane *lane = &v->lanes[number];

	assert(number < v->lane_count && !lane->id);
	lane->id = id;
	lane->receives = lane->sends = rf_verbs_receives(number, v->lane_count - 1);
	unsigned requests =
	    lane->sends + (number == 0 ? (unsigned)RF_VERBS_CREDIT_FRAMES : v->fabric.limits.queue_depth);

	if (id->verbs != v->context)
		return rf_fail(e, RF_E_REFUSED, "lane %u came over %s and the others over %s: all need one device",
			       number, ibv_get_device_name(id->verbs->device), ibv_get_device_name(v->context->device));
	return open_ring(lane, requests, e) || open_buffers(v, lane, e) || open_queue_pair(v, lane, requests, e) ? -1
														 : 0;
}

void rf_verbs_lane_meet(struct rf_verbs_lane *lane, const struct rf_verbs_hello *peer)
{
	struct rf_fabric_limits *l = &lane->verbs->fabric.limits;

	lane->peer_receives = peer->buffers;
	lane->established = true;
	l->max_message_bytes = (uint32_t)rf_min_u64(l->max_message_bytes, peer->max_message_bytes);
}

static void free_lane(struct rf_verbs_lane *lane, unsigned lanes)
{
	if (lane->buffers_mr)
		ibv_dereg_mr(lane->buffers_mr);
	if (lane->buffers)
		munmap(lane->buffers, buffers_bytes(lane->number, lanes));
	free(lane->delivered);
	free(lane->ring);
}

/* The order is the library's: queue pairs before what they refer to, and the ids last, for they hold the device open. */
void rf_verbs_lanes_free(struct rf_verbs *v)
{
	for (unsigned i = 0; i < v->lane_count; i++)
		if (v->lanes[i].id && v->lanes[i].id->qp)
			rdma_destroy_qp(v->lanes[i].id);
	rf_verbs_regions_free(v);
	for (unsigned i = 0; i < v->lane_count; i++)
		free_lane(&v->lanes[i], v->lane_count - 1);
	rf_verbs_device_close(v);
	for (unsigned i = 0; i < v->lane_count; i++)
		if (v->lanes[i].id)
			rdma_destroy_id(v->lanes[i].id);
	free(v->lanes);
	v->lanes = NULL;
	v->lane_count = 0;
}
