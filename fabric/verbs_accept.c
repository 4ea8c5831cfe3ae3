// SPDX-License-Identifier: LGPL-2.1-or-later
/* Waiting for a source in a world of strangers: QEMUs, storage targets, ramferries of other versions.
 *
 * Whoever asks is judged by the private data of the request, at once and before anything is made for it. The first that
 * fits makes its token the one we wait for; when all lanes of that token are established, accept() is done. If they do not
 * come within 5 s, or one goes, the token is forgotten with all that was made for it and waiting starts anew. So nobody can
 * keep a real source out for longer than that. */
#include "fabric/verbs.h"

#include "common/checked.h"
#include "common/sizes.h"
#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_NS (5 * INT64_C(1000000000))

struct accepting {
	struct rf_verbs *v;
	struct rf_fabric_limits limits; /* as they were before anybody came */

	/* the lanes of the token we wait for */
	unsigned want, have; /* want 0: no token yet */
	int64_t deadline_ns;
	struct rf_verbs_hello first;
	char peer[100];

	struct rf_error gone; /* nobody can come any more */
};

static const char *name_of(struct rdma_cm_id *id, char *text, size_t room)
{
	struct sockaddr *a = rdma_get_peer_addr(id);
	socklen_t length = a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	return rf_address_text(a, length, text, room);
}

static void send_away(struct accepting *a, struct rdma_cm_id *id, enum rf_verbs_status status, const char *why)
{
	struct rf_verbs_hello answer;
	char name[100];

	rf_log(a->v->config.log, RF_LOG_WARNING, "sent %s away: %s", name_of(id, name, sizeof(name)), why);
	rf_verbs_fill_hello(&answer, status);
	/* If it fails the asker is gone, or hears of the rejection when the id is destroyed. */
	rdma_reject(id, &answer, sizeof(answer));
	rdma_destroy_id(id);
}

static void forget_lanes(struct accepting *a, const char *why)
{
	if (!a->want)
		return;
	if (why)
		rf_log(a->v->config.log, RF_LOG_WARNING, "gave up on the source at %s: %s", a->peer, why);
	a->want = a->have = 0;
	for (unsigned i = 0; i < a->v->lane_count; i++)
		if (a->v->lanes[i].id)
			rdma_disconnect(a->v->lanes[i].id);
	rf_verbs_lanes_free(a->v);
	a->v->fabric.limits = a->limits;
}

/* Does it belong to the lanes that we have? */
static bool hello_fits(const struct accepting *a, const struct rf_verbs_hello *h)
{
	return memcmp(h->token, a->first.token, sizeof(h->token)) == 0 && h->lanes == a->first.lanes &&
	       !a->v->lanes[h->lane].id;
}

static int expect_lanes(struct accepting *a, struct rdma_cm_id *id, const struct rf_verbs_hello *h, struct rf_error *e)
{
	if (rf_verbs_lanes_new(a->v, 1u + h->lanes, e) < 0)
		return -1;
	a->want = 1u + h->lanes;
	a->have = 0;
	a->first = *h;
	name_of(id, a->peer, sizeof(a->peer));
	return rf_verbs_device_open(a->v, id, a->want, e);
}

static int welcome(struct accepting *a, struct rdma_cm_id *id, const struct rf_verbs_hello *h, struct rf_error *e)
{
	struct rf_verbs_lane *lane = &a->v->lanes[h->lane];
	struct rf_verbs_hello answer;

	if (rf_verbs_set_options(a->v, id, e) < 0 || rf_verbs_lane_open(a->v, h->lane, id, e) < 0)
		return -1;
	rf_verbs_fill_hello(&answer, RF_VERBS_WELCOME);
	memcpy(answer.token, h->token, sizeof(answer.token));
	answer.lane = h->lane;
	answer.lanes = h->lanes;
	answer.buffers = lane->receives;
	struct rdma_conn_param param = {
	    .private_data = &answer,
	    .private_data_len = sizeof(answer),
	    .rnr_retry_count = 7,
	};

	if (rdma_accept(id, &param))
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot accept lane %u", h->lane);
	lane->peer_receives = h->buffers;
	return 0;
}

static void take_lane(struct accepting *a, struct rdma_cm_id *id, const struct rf_verbs_hello *h)
{
	struct rf_error e = {0};

	if (!a->want && expect_lanes(a, id, h, &e) < 0) {
		send_away(a, id, RF_VERBS_BAD, e.text);
		forget_lanes(a, NULL);
		return;
	}
	a->deadline_ns = rf_monotonic_ns() + PATIENCE_NS;
	if (welcome(a, id, h, &e) == 0)
		return;
	/* The id goes with the lanes if it had got that far. */
	if (a->v->lanes[h->lane].id != id)
		send_away(a, id, RF_VERBS_BAD, e.text);
	forget_lanes(a, e.text);
}

static void judge(struct accepting *a, const struct rf_verbs_cm_event *event)
{
	struct rf_verbs_hello h;
	char why[160];

	if (!rf_verbs_is_hello(event->data, event->length)) {
		snprintf(why, sizeof(why), "it does not speak ramferry's protocol (%s)",
			 rf_verbs_stranger(event->data, event->length));
		send_away(a, event->id, RF_VERBS_BAD, why);
		return;
	}
	memcpy(&h, event->data, sizeof(h));
	if (h.version != RF_VERBS_VERSION) {
		snprintf(why, sizeof(why), "it speaks version %u of ramferry's rdma fabric, we speak %u", h.version,
			 RF_VERBS_VERSION);
		send_away(a, event->id, RF_VERBS_VERSION_DIFFERS, why);
		return;
	}
	if (h.status != RF_VERBS_HELLO || !rf_verbs_hello_makes_sense(&h))
		send_away(a, event->id, RF_VERBS_BAD, "what it says of itself makes no sense");
	else if (a->want && !hello_fits(a, &h))
		send_away(a, event->id, RF_VERBS_BUSY, "another source was first");
	else
		take_lane(a, event->id, &h);
}

static struct rf_verbs_lane *lane_of(struct accepting *a, const struct rdma_cm_id *id)
{
	for (unsigned i = 0; i < a->v->lane_count; i++)
		if (a->v->lanes[i].id == id)
			return &a->v->lanes[i];
	return NULL;
}

/* Whoever listens at all addresses hears nothing of it, and listens at devices that come later as well. */
static void listener_removed(struct accepting *a, struct rdma_cm_id *id)
{
	struct rf_verbs *v = a->v;

	for (unsigned i = 0; i < v->listener_count; i++) {
		if (v->listeners[i] != id)
			continue;
		rdma_destroy_id(id);
		v->listeners[i] = v->listeners[--v->listener_count];
		break;
	}
	if (!v->listener_count)
		rf_fail(&a->gone, RF_E_REFUSED, "the RDMA device at which a source was awaited was removed");
}

static void take_event(struct accepting *a, const struct rf_verbs_cm_event *event)
{
	struct rf_verbs_lane *lane = lane_of(a, event->id);

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		return judge(a, event);
	if (!lane && event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		listener_removed(a, event->id);
	if (!lane)
		return; /* of a listener, or of a lane that was forgotten */
	switch (event->type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		a->have += !lane->established;
		lane->established = true;
		a->deadline_ns = rf_monotonic_ns() + PATIENCE_NS;
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		forget_lanes(a, "the RDMA device was removed");
		break;
	default:
		forget_lanes(a, "it closed a lane");
	}
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int gather_lanes(struct accepting *a, int64_t timeout_ns, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ns(timeout_ns);
	struct rf_verbs_cm_event event;
	char limit[40];

	while (!a->want || a->have < a->want) {
		int r = rf_verbs_cm_wait(a->v, &event, a->want ? earlier(deadline, a->deadline_ns) : deadline, e);

		if (r < 0)
			return -1;
		if (r > 0)
			take_event(a, &event);
		if (a->gone.code) {
			if (e)
				*e = a->gone;
			return -1;
		}
		if (a->want && a->have < a->want && rf_monotonic_ns() >= a->deadline_ns)
			forget_lanes(a, "its other lanes did not come within 5 s");
		if (r == 0 && deadline >= 0 && rf_monotonic_ns() >= deadline)
			return rf_fail(e, RF_E_REFUSED, "no source came within %s",
				       rf_format_duration((uint64_t)timeout_ns, limit, sizeof(limit)));
	}
	return 0;
}

int rf_verbs_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e)
{
	struct rf_verbs *v = rf_verbs_of(f);
	struct accepting a = {.v = v, .limits = f->limits};

	assert(v->listener_count && !v->lanes);
	if (gather_lanes(&a, timeout_ns, e) < 0) {
		forget_lanes(&a, NULL);
		return -1;
	}
	snprintf(v->peer, sizeof(v->peer), "%s", a.peer);
	f->limits.max_message_bytes = (uint32_t)rf_min_u64(f->limits.max_message_bytes, a.first.max_message_bytes);
	v->accepted = true;
	rf_verbs_stop_listening(v); /* later callers hear at once that nobody waits for them */
	return 0;
}
