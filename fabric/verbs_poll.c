// SPDX-License-Identifier: LGPL-2.1-or-later
/* poll(): completions and other news, and how to wait for them.
 *
 * While things come at short intervals it is cheaper to look again than to sleep and be woken, so poll() spins for about as
 * long as the next one should take, by the average of late, and at most 50 us. When nothing comes the average grows within
 * a few calls to where it sleeps at once: an idle migration takes no CPU. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <poll.h>
#include <string.h>

enum {
	BATCH = 16,    /* completions per call of the library */
	AT_ONCE = 128, /* completions per look: the engine wants to do something between */
	SPIN_MAX_NS = 50 * 1000,
	GAP_MAX_NS = 4 * SPIN_MAX_NS,  /* longer ones count as that, so that they are forgotten soon */
	CM_EVERY_NS = 2 * 1000 * 1000, /* how often the connection manager is asked when we never sleep */
	REASON_NS = 20 * 1000 * 1000,  /* for the reason of a flushed request to show up */
	FLUSH_EVENTS = 16,
};

/* ---- looking ---- */

/* The engine is done with the messages of the last poll. */
static void give_back(struct rf_verbs *v)
{
	for (unsigned i = 0; i < v->lane_count; i++) {
		struct rf_verbs_lane *lane = &v->lanes[i];

		for (unsigned k = 0; k < lane->delivered_count && !v->losing; k++) {
			int err = rf_verbs_post_receive(lane, lane->delivered[k]);

			if (err)
				rf_verbs_lose(v, "the RDMA device does not take a receive on lane %u: %s", i,
					      strerror(err));
			lane->given_back++;
		}
		lane->delivered_count = 0;
	}
}

void rf_verbs_look_at_cm(struct rf_verbs *v)
{
	struct rf_verbs_cm_event event;

	while (v->channel && rf_verbs_cm_next(v, &event)) {
		switch (event.type) {
		case RDMA_CM_EVENT_DISCONNECTED:
			rf_verbs_lose(v, "%s closed the connection", v->peer);
			break;
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
			rf_verbs_lose(v, "the RDMA device %s was removed", ibv_get_device_name(v->context->device));
			break;
		case RDMA_CM_EVENT_CONNECT_REQUEST: /* it came before the listener was gone */
			rdma_reject(event.id, NULL, 0);
			rdma_destroy_id(event.id);
			break;
		default:
			break;
		}
	}
}

/* Lanes with writes that are done and not told yet: how many events that will be. */
static int count_written(const struct rf_verbs *v)
{
	int n = 0;

	for (unsigned i = 0; i < v->lane_count; i++)
		n += v->lanes[i].written > 0;
	return n;
}

static int tell_written(struct rf_verbs *v, struct rf_event *events, int max)
{
	int n = 0;

	for (unsigned i = 0; i < v->lane_count && n < max; i++) {
		struct rf_verbs_lane *lane = &v->lanes[i];

		if (!lane->written)
			continue;
		events[n++] = (struct rf_event){.kind = RF_EV_WRITTEN, .lane = i, .count = lane->written};
		lane->written = 0;
	}
	return n;
}

static int tell_room(struct rf_verbs *v, struct rf_event *events, int max)
{
	int n = 0;

	for (unsigned i = 0; i < v->lane_count && n < max && !v->losing; i++) {
		if (!v->lanes[i].starved || !rf_verbs_can_send(&v->lanes[i]))
			continue;
		events[n++] = (struct rf_event){.kind = RF_EV_WRITTEN, .lane = i};
		v->lanes[i].starved = false;
	}
	return n;
}

/* Each completion makes a message, or a lane that has something to tell, so no more are taken than there is room for; and
 * what was written is told before a message that came later, which may be the peer's answer to it. */
static int take_completions(struct rf_verbs *v, struct rf_event *events, int max)
{
	struct ibv_wc wc[BATCH];
	int n = 0, room;

	v->drained = false;
	for (int seen = 0; seen < AT_ONCE && (room = max - n - count_written(v)) > 0;) {
		int got = ibv_poll_cq(v->cq, room < BATCH ? room : BATCH, wc);
		struct rf_event message;

		if (got < 0)
			rf_verbs_lose(v, "the RDMA device does not tell what is done");
		if (got <= 0) {
			v->drained = true;
			break;
		}
		v->completion_count += (unsigned)got;
		seen += got;
		for (int i = 0; i < got; i++) {
			if (!rf_verbs_complete(v, &wc[i], &message))
				continue;
			n += tell_written(v, events + n, max - n);
			assert(n < max);
			events[n++] = message;
		}
	}
	return n + tell_written(v, events + n, max - n);
}

/* All that there is without waiting. */
static int look(struct rf_verbs *v, struct rf_event *events, int max, int64_t now_ns)
{
	if (v->lost || !v->lane_count)
		return 0;
	if (now_ns - v->cm_look_ns >= CM_EVERY_NS) {
		v->cm_look_ns = now_ns;
		rf_verbs_look_at_cm(v);
	}
	int n = take_completions(v, events, max);

	if (v->flushed && now_ns - v->flushed_ns > REASON_NS)
		rf_verbs_broken_off(v);
	rf_verbs_tell_credits(v);
	n += tell_room(v, events + n, max - n);
	if (v->losing && v->drained && n < max) {
		events[n++] = (struct rf_event){.kind = RF_EV_LOST, .status = -1, .text = v->loss};
		v->lost = true;
	}
	return n;
}

/* ---- waiting ---- */

static void hear_completions(struct rf_verbs *v)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(v->completions, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		v->armed = false;
	}
}

/* The channel rings for what completes after it was armed, so there must be another look between arming and sleeping, and
 * that look must have seen the end of the queue: hundreds of requests that are flushed make no event but the last. false
 * asks for that look. */
static bool arm(struct rf_verbs *v)
{
	if (v->lost || !v->lane_count)
		return true;
	if (v->armed || !v->drained)
		return v->drained;
	if (ibv_req_notify_cq(v->cq, 0))
		rf_verbs_lose(v, "the RDMA device does not tell when something is done");
	v->armed = true;
	return false;
}

static void sleep_until(struct rf_verbs *v, int64_t deadline_ns, int64_t now_ns)
{
	bool connected = v->lane_count && !v->lost;

	if (v->flushed && !v->losing && (deadline_ns < 0 || deadline_ns > v->flushed_ns + REASON_NS))
		deadline_ns = v->flushed_ns + REASON_NS + 1;
	int64_t left = rf_max_u64(0, deadline_ns < now_ns ? 0 : (uint64_t)(deadline_ns - now_ns));
	struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
	struct pollfd p[3] = {
	    {.fd = rf_events_fd(v->events), .events = POLLIN},
	    {.fd = connected ? v->completions->fd : -1, .events = POLLIN},
	    {.fd = connected ? v->channel->fd : -1, .events = POLLIN},
	};

	if (!rf_events_sleep_begin(v->events))
		return;
	int r = ppoll(p, 3, deadline_ns < 0 ? NULL : &t, NULL);

	rf_events_sleep_end(v->events);
	if (r > 0 && p[1].revents)
		hear_completions(v);
	if (r > 0 && p[2].revents)
		rf_verbs_look_at_cm(v);
}

static void note_gap(struct rf_verbs *v, int64_t gap_ns)
{
	v->gap_ns += ((gap_ns < GAP_MAX_NS ? gap_ns : GAP_MAX_NS) - v->gap_ns) / 8;
}

static bool worth_spinning(const struct rf_verbs *v, int64_t waited_ns)
{
	return v->may_spin && v->gap_ns < SPIN_MAX_NS / 2 && waited_ns < 2 * v->gap_ns + 1000 && v->lane_count &&
	       !v->lost;
}

int rf_verbs_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	struct rf_verbs *v = rf_verbs_of(f);
	int64_t start = rf_monotonic_ns(), deadline = rf_deadline_ns(timeout_ns), now = start;

	assert(max > 0);
	give_back(v);
	for (;; now = rf_monotonic_ns()) {
		/* Waking comes first, and workers' news before the card's, of which there may be no end. */
		int n = rf_events_poll(v->events, events, max, 0);

		n += n < max ? look(v, events + n, max - n, now) : 0;
		bool late = deadline >= 0 && now >= deadline;

		if (n || (late && timeout_ns))
			note_gap(v, now - start);
		if (n || late)
			return n;
		if (!worth_spinning(v, now - start) && arm(v))
			sleep_until(v, deadline, now);
	}
}

static bool has_posted(const struct rf_verbs *v)
{
	for (unsigned i = 0; i < v->lane_count; i++)
		if (v->lanes[i].posted != v->lanes[i].completed)
			return true;
	return false;
}

/* What comes meanwhile is taken and dropped. */
static void wait_out(struct rf_verbs *v, int64_t patience_ns, bool for_peer)
{
	int64_t deadline = rf_deadline_ns(patience_ns), now;
	struct rf_event dropped[FLUSH_EVENTS];

	while (!v->losing && (now = rf_monotonic_ns()) < deadline) {
		give_back(v);
		/* Nobody wants a worker's news or a call to wake any more; left there they would keep us from sleeping. */
		rf_events_poll(v->events, dropped, FLUSH_EVENTS, 0);
		int n = look(v, dropped, FLUSH_EVENTS, now);

		if (!for_peer && !has_posted(v))
			return;
		if (n == 0 && arm(v))
			sleep_until(v, deadline, now);
	}
}

void rf_verbs_flush(struct rf_verbs *v, int64_t patience_ns)
{
	wait_out(v, patience_ns, false);
}

void rf_verbs_linger(struct rf_verbs *v, int64_t patience_ns)
{
	wait_out(v, patience_ns, true);
}
