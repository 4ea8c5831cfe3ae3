// SPDX-License-Identifier: LGPL-2.1-or-later
/* The card of this migration: the one that its first lane came over. What it can do bounds what we promise; its protection
 * domain holds this migration's registrations and nobody else's. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char *name_of(const struct rf_verbs *v)
{
	return ibv_get_device_name(v->context->device);
}

int rf_verbs_port_is_up(struct rdma_cm_id *id, struct rf_error *e)
{
	struct ibv_port_attr port;
	int err = ibv_query_port(id->verbs, id->port_num, &port);

	if (err)
		return rf_fail_errno(e, RF_E_REFUSED, err, "cannot ask for the state of port %u of %s", id->port_num,
				     ibv_get_device_name(id->verbs->device));
	if (port.state == IBV_PORT_ACTIVE)
		return 0;
	return rf_fail(e, RF_E_REFUSED, "port %u of %s is down", id->port_num, ibv_get_device_name(id->verbs->device));
}

/* Following the page tables costs nothing where the card can do it, both as the side that writes and as the one that is
 * written to; cards tell both by one bit. */
static bool can_follow_page_tables(struct ibv_context *context)
{
	struct ibv_device_attr_ex x;

	memset(&x, 0, sizeof(x));
	return ibv_query_device_ex(context, NULL, &x) == 0 && (x.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
	       (x.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE);
}

/* Each limit is the least of what was asked for, what the card takes, and what leaves room for messages. */
static int set_limits(struct rf_verbs *v, unsigned lane_count, struct rf_error *e)
{
	struct rf_fabric_limits *l = &v->fabric.limits;
	const struct ibv_device_attr *d = &v->device;
	struct ibv_port_attr port;
	int err = ibv_query_port(v->context, v->port, &port);
	unsigned most_receives = rf_verbs_receives(0, lane_count - 1);
	/* Every request of every lane may fail at once, and then each makes a completion. */
	int64_t others = 2 * (int64_t)most_receives + RF_VERBS_CREDIT_FRAMES;
	int64_t depth = d->max_qp_wr - others / 2 - RF_VERBS_CREDIT_FRAMES;
	int64_t by_queue = d->max_cqe / (int64_t)lane_count - others;

	if (err)
		return rf_fail_errno(e, RF_E_REFUSED, err, "cannot ask what port %u of %s can do", v->port, name_of(v));
	depth = depth < by_queue ? depth : by_queue;
	if (depth < 1)
		return rf_fail(e, RF_E_REFUSED,
			       "%s takes %d requests per queue and %d completions: too few for %u lanes", name_of(v),
			       d->max_qp_wr, d->max_cqe, lane_count - 1);
	l->lanes = lane_count - 1;
	l->queue_depth = (unsigned)rf_min_u64(l->queue_depth, (uint64_t)depth);
	/* Whole pages: the engine counts in those. (Messages of ours must go too, and every card takes them.) */
	if (port.max_msg_sz < RF_VERBS_MIN_MESSAGE_BYTES + sizeof(struct rf_verbs_frame))
		return rf_fail(e, RF_E_REFUSED, "port %u of %s takes no more than %u bytes at once, which is too few",
			       v->port, name_of(v), port.max_msg_sz);
	l->max_write_bytes = (uint32_t)rf_min_u64(l->max_write_bytes, port.max_msg_sz / 4096 * 4096);
	l->on_demand = can_follow_page_tables(v->context);
	return 0;
}

static int open_queue(struct rf_verbs *v, unsigned lane_count, struct rf_error *e)
{
	unsigned per_lane =
	    v->fabric.limits.queue_depth + 2 * rf_verbs_receives(0, lane_count - 1) + RF_VERBS_CREDIT_FRAMES;

	v->completions = ibv_create_comp_channel(v->context);
	if (!v->completions)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a completion channel of %s", name_of(v));
	int flags = fcntl(v->completions->fd, F_GETFL);

	if (flags < 0 || fcntl(v->completions->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		rf_fail_errno(e, RF_E_FAILED, errno, "cannot set up a completion channel");
		goto destroy_channel;
	}
	v->cq = ibv_create_cq(v->context, (int)(per_lane * lane_count), v, v->completions, 0);
	if (v->cq)
		return 0;
	if (errno == ENOMEM)
		rf_fail(e, RF_E_REFUSED, "cannot make a queue for %u completions of %s: " RF_VERBS_RAISE_MEMLOCK,
			per_lane * lane_count, name_of(v));
	else
		rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a queue for %u completions of %s",
			      per_lane * lane_count, name_of(v));
destroy_channel:
	ibv_destroy_comp_channel(v->completions);
	v->completions = NULL;
	return -1;
}

int rf_verbs_device_open(struct rf_verbs *v, struct rdma_cm_id *id, unsigned lane_count, struct rf_error *e)
{
	assert(!v->context && id->verbs);
	v->context = id->verbs;
	v->port = id->port_num;
	int err = ibv_query_device(v->context, &v->device);

	if (err) {
		rf_fail_errno(e, RF_E_REFUSED, err, "cannot ask what %s can do", name_of(v));
		goto forget;
	}
	if (set_limits(v, lane_count, e) < 0)
		goto forget;
	v->pd = ibv_alloc_pd(v->context);
	if (!v->pd) {
		rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a protection domain of %s", name_of(v));
		goto forget;
	}
	if (open_queue(v, lane_count, e) < 0)
		goto dealloc_pd;
	atomic_store(&v->relaxed_ordering, true);
	v->armed = v->drained = false;
	return 0;

dealloc_pd:
	ibv_dealloc_pd(v->pd);
	v->pd = NULL;
forget:
	v->context = NULL;
	return -1;
}

void rf_verbs_device_close(struct rf_verbs *v)
{
	if (!v->context)
		return;
	ibv_destroy_cq(v->cq);
	ibv_destroy_comp_channel(v->completions);
	ibv_dealloc_pd(v->pd);
	v->cq = NULL;
	v->completions = NULL;
	v->pd = NULL;
	v->context = NULL;
}
