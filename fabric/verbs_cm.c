// SPDX-License-Identifier: LGPL-2.1-or-later
/* The connection manager's events, one at a time: each is copied and acknowledged at once, because an id cannot be
 * destroyed while one of its events is not. */
#include "fabric/verbs.h"

#include "common/checked.h"
#include "fabric/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

static bool is_there_any_device(void)
{
	int n = 0;
	struct ibv_device **all = ibv_get_device_list(&n);

	if (all)
		ibv_free_device_list(all);
	return all && n > 0;
}

/* librdmacm speaks up on standard error when there is no device at all, so that is looked at first. */
int rf_verbs_channel_open(struct rf_verbs *v, struct rf_error *e)
{
	char why[300];

	if (v->channel)
		return 0;
	if (!is_there_any_device() && !rf_verbs_devices(why, sizeof(why)))
		return rf_fail(e, RF_E_REFUSED, "%s", why);
	v->channel = rdma_create_event_channel();
	if (!v->channel && (errno == ENOENT || errno == ENODEV))
		return rf_fail(e, RF_E_REFUSED,
			       "this host has no RDMA connection manager: load the kernel module rdma_ucm");
	if (!v->channel && (errno == EACCES || errno == EPERM))
		return rf_fail(e, RF_E_REFUSED,
			       "the RDMA connection manager may not be used: ask for access to "
			       "/dev/infiniband/rdma_cm");
	if (!v->channel)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot reach the RDMA connection manager");
	int flags = fcntl(v->channel->fd, F_GETFL);

	if (flags >= 0 && fcntl(v->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0)
		return 0;
	return rf_fail_errno(e, RF_E_FAILED, errno, "cannot set up the RDMA connection manager's channel");
}

static bool is_about_connections(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED ||
	       type == RDMA_CM_EVENT_REJECTED;
}

bool rf_verbs_cm_next(struct rf_verbs *v, struct rf_verbs_cm_event *event)
{
	struct rdma_cm_event *taken;

	if (rdma_get_cm_event(v->channel, &taken))
		return false;
	*event = (struct rf_verbs_cm_event){.type = taken->event, .id = taken->id, .status = taken->status};
	if (is_about_connections(taken->event) && taken->param.conn.private_data) {
		event->length = rf_min_u64(taken->param.conn.private_data_len, sizeof(event->data));
		memcpy(event->data, taken->param.conn.private_data, event->length);
	}
	rdma_ack_cm_event(taken);
	return true;
}

int rf_verbs_cm_wait(struct rf_verbs *v, struct rf_verbs_cm_event *event, int64_t deadline_ns, struct rf_error *e)
{
	for (;;) {
		struct pollfd p[2] = {{0}, {.fd = v->channel->fd, .events = POLLIN}};
		int r = rf_wait_sockets(v->events, p, 2, deadline_ns, e);

		if (r <= 0)
			return r;
		if (rf_verbs_cm_next(v, event))
			return 1;
	}
}

/* Cards wait 4.096 us times a power of two, from 1 to 31. The least that is as long as was asked for. */
static uint8_t timeout_exponent(int64_t timeout_ns)
{
	uint8_t exponent = 1;

	while (exponent < 31 && (INT64_C(4096) << exponent) < timeout_ns)
		exponent++;
	return exponent;
}

int rf_verbs_set_options(struct rf_verbs *v, struct rdma_cm_id *id, struct rf_error *e)
{
	uint8_t class = (uint8_t)v->config.traffic_class, timeout = timeout_exponent(v->config.rdma_timeout_ns);

	if (class && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, sizeof(class)))
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot set the traffic class %u", class);
	if (v->config.rdma_timeout_ns &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)))
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot set how long the card waits for an answer");
	return 0;
}
