// SPDX-License-Identifier: LGPL-2.1-or-later
/* The source's way to its peer: every address is tried for the first lane; the other lanes follow to the one that
 * answered. Nothing was touched when it fails, so failures are RF_E_REFUSED.
 *
 * Every step (address, route, connection) is asynchronous and ends at our own deadline: the connection manager alone would
 * try for minutes. */
#include "fabric/verbs.h"

#include "common/sizes.h"
#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { STEP_MS = 10000 }; /* the connection manager's own limit for a step */

/* Reasons of a rejection, by the InfiniBand specification. */
enum { REJECTED_NO_SERVICE = 8, REJECTED_BY_PEER = 28 };

struct connecting {
	struct rf_verbs *v;
	int64_t deadline_ns;
	struct rf_fabric_limits limits; /* as they were before the first attempt */
	struct rf_verbs_hello hello;    /* ours */
	bool reached;                   /* the last attempt heard from somebody */
};

static int too_late(const struct connecting *c, struct rf_error *e)
{
	char limit[40];

	rf_format_duration((uint64_t)c->v->config.connect_timeout_ns, limit, sizeof(limit));
	return rf_fail(e, RF_E_REFUSED, "%s does not answer within %s", c->v->peer, limit);
}

static int no_device(const struct connecting *c, struct rf_error *e)
{
	char devices[400];

	rf_verbs_devices(devices, sizeof(devices));
	return rf_fail(e, RF_E_REFUSED, "no RDMA device leads to %s; there is: %s", c->v->peer, devices);
}

static int cannot_resolve(const struct connecting *c, int status, struct rf_error *e)
{
	if (status == -ENODEV || status == -EADDRNOTAVAIL)
		return no_device(c, e);
	if (status == -ETIMEDOUT)
		return rf_fail(e, RF_E_REFUSED, "%s does not answer: nobody has that address, or the link is down",
			       c->v->peer);
	return rf_fail_errno(e, RF_E_REFUSED, -status, "cannot find a way to %s by RDMA", c->v->peer);
}

static int nobody_listens(const struct connecting *c, struct rf_error *e)
{
	return rf_fail(e, RF_E_REFUSED, "nobody listens for RDMA at %s", c->v->peer);
}

/* The status is a reason of the connection manager, or an errno value where connections are TCP's (iWARP). */
static int rejected(struct connecting *c, const struct rf_verbs_cm_event *event, struct rf_error *e)
{
	const char *peer = c->v->peer;
	struct rf_verbs_hello answer;

	c->reached = true;
	if (rf_verbs_is_hello(event->data, event->length)) {
		memcpy(&answer, event->data, sizeof(answer));
		if (answer.version != RF_VERBS_VERSION)
			return rf_fail(e, RF_E_REFUSED, "%s speaks version %u of ramferry's rdma fabric, we speak %u",
				       peer, answer.version, RF_VERBS_VERSION);
		if (answer.status == RF_VERBS_BUSY)
			return rf_fail(e, RF_E_REFUSED, "%s is busy with another source", peer);
		return rf_fail(e, RF_E_REFUSED, "%s does not accept our connection (status %u)", peer, answer.status);
	}
	if (event->status == REJECTED_NO_SERVICE || event->status == -ECONNREFUSED)
		return nobody_listens(c, e);
	if (event->status == REJECTED_BY_PEER || event->status == -ECONNRESET)
		return rf_fail(e, RF_E_REFUSED,
			       "%s sent us away without a word: it is no ramferry (a QEMU's own rdma: perhaps), or has "
			       "stopped waiting",
			       peer);
	return rf_fail(e, RF_E_REFUSED, "%s rejected the connection (reason %d)", peer, event->status);
}

static int unexpected(struct connecting *c, const struct rf_verbs_cm_event *event, struct rf_error *e)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return cannot_resolve(c, event->status, e);
	case RDMA_CM_EVENT_REJECTED:
		return rejected(c, event, e);
	case RDMA_CM_EVENT_UNREACHABLE:
		return rf_fail(e, RF_E_REFUSED, "%s does not answer", c->v->peer);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return rf_fail(e, RF_E_REFUSED, "the RDMA device was removed while we connected to %s", c->v->peer);
	case RDMA_CM_EVENT_DISCONNECTED:
		return rf_fail(e, RF_E_REFUSED, "%s closed the connection at once", c->v->peer);
	default:
		return rf_fail(e, RF_E_REFUSED, "cannot connect to %s: %s", c->v->peer, rdma_event_str(event->type));
	}
}

/* Wait until `type` comes for `id`. What comes for ids of earlier attempts does not matter any more. */
static int await(struct connecting *c, const struct rdma_cm_id *id, enum rdma_cm_event_type type, int64_t deadline_ns,
		 struct rf_verbs_cm_event *event, struct rf_error *e)
{
	for (;;) {
		int r = rf_verbs_cm_wait(c->v, event, deadline_ns, e);

		if (r < 0)
			return -1;
		if (r == 0)
			return too_late(c, e);
		if (event->id != id && event->type != RDMA_CM_EVENT_DISCONNECTED &&
		    event->type != RDMA_CM_EVENT_DEVICE_REMOVAL)
			continue;
		return event->type == type ? 0 : unexpected(c, event, e);
	}
}

static int find_way(struct connecting *c, struct rdma_cm_id *id, struct sockaddr *to, int64_t deadline_ns,
		    struct rf_error *e)
{
	struct rf_verbs_cm_event event;
	struct sockaddr_storage own;
	socklen_t own_length;

	if (rf_verbs_own_address(&c->v->config, to, &own, &own_length, e) < 0 || rf_verbs_set_options(c->v, id, e) < 0)
		return -1;
	if (rdma_resolve_addr(id, own_length ? (struct sockaddr *)&own : NULL, to, STEP_MS))
		return cannot_resolve(c, -errno, e);
	if (await(c, id, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns, &event, e) < 0)
		return -1;
	if (!id->verbs)
		return no_device(c, e);
	if (rf_verbs_port_is_up(id, e) < 0)
		return -1;
	if (rdma_resolve_route(id, STEP_MS))
		return cannot_resolve(c, -errno, e);
	return await(c, id, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns, &event, e);
}

static int judge_answer(struct connecting *c, const struct rf_verbs_cm_event *event, struct rf_verbs_hello *answer,
			struct rf_error *e)
{
	const char *peer = c->v->peer;

	c->reached = true;
	if (!rf_verbs_is_hello(event->data, event->length))
		return rf_fail(e, RF_E_REFUSED, "%s is no ramferry: %s", peer,
			       rf_verbs_stranger(event->data, event->length));
	memcpy(answer, event->data, sizeof(*answer));
	if (answer->version != RF_VERBS_VERSION)
		return rf_fail(e, RF_E_REFUSED, "%s speaks version %u of ramferry's rdma fabric, we speak %u", peer,
			       answer->version, RF_VERBS_VERSION);
	if (answer->status != RF_VERBS_WELCOME || !rf_verbs_hello_makes_sense(answer))
		return rf_fail(e, RF_E_REFUSED, "%s answers with something that makes no sense (status %u)", peer,
			       answer->status);
	return 0;
}

static int shake_hands(struct connecting *c, unsigned number, int64_t deadline_ns, struct rf_error *e)
{
	struct rf_verbs_lane *lane = &c->v->lanes[number];
	struct rf_verbs_hello hello = c->hello, answer;
	struct rf_verbs_cm_event event;

	hello.lane = (uint16_t)number;
	hello.buffers = lane->receives;
	struct rdma_conn_param param = {
	    .private_data = &hello,
	    .private_data_len = sizeof(hello),
	    .retry_count = (uint8_t)c->v->config.rdma_retry,
	    .rnr_retry_count = 7, /* for ever; the credits see to it that none is needed */
	};

	if (rdma_connect(lane->id, &param)) {
		c->reached = errno == ECONNREFUSED; /* iWARP's TCP knows at once */
		if (c->reached)
			return nobody_listens(c, e);
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot connect to %s", c->v->peer);
	}
	if (await(c, lane->id, RDMA_CM_EVENT_ESTABLISHED, deadline_ns, &event, e) < 0 ||
	    judge_answer(c, &event, &answer, e) < 0)
		return -1;
	rf_verbs_lane_meet(lane, &answer);
	return 0;
}

/* Once the lane has the id, it goes with the lanes. */
static int open_lane(struct connecting *c, unsigned number, struct sockaddr *to, int64_t deadline_ns,
		     struct rf_error *e)
{
	struct rf_verbs *v = c->v;
	struct rdma_cm_id *id;

	if (rdma_create_id(v->channel, &id, NULL, RDMA_PS_TCP))
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a connection's id");
	if (find_way(c, id, to, deadline_ns, e) < 0 ||
	    (number == 0 && rf_verbs_device_open(v, id, v->lane_count, e) < 0)) {
		rdma_destroy_id(id);
		return -1;
	}
	if (rf_verbs_lane_open(v, number, id, e) < 0)
		return -1;
	return shake_hands(c, number, deadline_ns, e);
}

/* All lanes to one address, or none. */
static int open_lanes(struct connecting *c, struct sockaddr *to, int64_t first_ns, struct rf_error *e)
{
	struct rf_verbs *v = c->v;
	unsigned lane_count = 1 + v->fabric.limits.lanes;

	if (rf_verbs_lanes_new(v, lane_count, e) < 0)
		return -1;
	for (unsigned i = 0; i < lane_count; i++)
		if (open_lane(c, i, to, i ? c->deadline_ns : first_ns, e) < 0) {
			rf_verbs_lanes_free(v);
			v->fabric.limits = c->limits;
			return -1;
		}
	return 0;
}

/* Each address has its share of the time that is left. The first is the likeliest, so its failure is told, unless a later
 * one got further. */
static int try_all(struct connecting *c, const struct addrinfo *all, struct rf_error *e)
{
	unsigned left = 0;

	for (const struct addrinfo *a = all; a; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = all; a; a = a->ai_next, left--) {
		int64_t now = rf_monotonic_ns();
		int64_t share = c->deadline_ns < 0 ? -1 : now + (c->deadline_ns - now) / left;
		struct rf_error latest;

		c->reached = false;
		if (open_lanes(c, a->ai_addr, share, &latest) == 0)
			return 0;
		if (a == all || c->reached || latest.code == RF_E_CANCELLED)
			*e = latest;
		if (c->reached || latest.code == RF_E_CANCELLED)
			return -1;
	}
	return -1;
}

int rf_verbs_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_verbs *v = rf_verbs_of(f);
	struct connecting c = {.v = v, .limits = f->limits};
	const char *host = *uri->host ? uri->host : "localhost";
	struct addrinfo *all;
	struct rf_error own;

	assert(!v->lanes);
	if (!e)
		e = &own;
	rf_host_port(host, uri->port, v->peer, sizeof(v->peer));
	c.deadline_ns = rf_deadline_ns(v->config.connect_timeout_ns ? v->config.connect_timeout_ns : -1);
	rf_verbs_fill_hello(&c.hello, RF_VERBS_HELLO);
	c.hello.lanes = (uint16_t)f->limits.lanes;
	if (getrandom(c.hello.token, sizeof(c.hello.token), 0) != sizeof(c.hello.token))
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot get random bytes");
	if (rf_verbs_channel_open(v, e) < 0 || rf_resolve(host, uri->port, v->events, c.deadline_ns, &all, e) < 0)
		return -1;
	int r = try_all(&c, all, e);

	freeaddrinfo(all);
	return r;
}
