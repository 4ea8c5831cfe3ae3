// SPDX-License-Identifier: LGPL-2.1-or-later
/* The prober: connects as a source would, and writes to the scratch memory that the destination lends.
 *
 * Bandwidth is measured in passes, each four times as long as the one before, until one has taken a quarter of a second: so a
 * slow way is not kept busy for long, and a fast one is seen at its speed. Both ends use the same 4 MiB over and over,
 * which stay in the caches of their CPUs; guest memory does not, so a move is rarely faster than this. */
#include "engine/probe.h"

#include "common/checked.h"

#include <stdlib.h>
#include <string.h>

enum { PINGS = 21, WRITE_BYTES = 1 << 20 };
static const uint64_t FIRST_PASS_BYTES = 256 << 10, LAST_PASS_BYTES = UINT64_C(16) << 30;
static const int64_t LONG_ENOUGH_NS = 250000000;
static const int64_t PARTING_NS = 3000000000;

struct prober {
	struct rf_task task;
	struct rf_peer peer;
	struct rf_probe_result *result;
	char *scratch;
	struct rf_key lkey, rkey;
	uint64_t remote;
	uint64_t pass, passes_ok;
	bool connected, heard_hello, registered, keys_known;
	struct rf_error failed;
};

/* ---- what the destination says ---- */

static int take_keys(struct prober *p, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint32_t name = rf_get_u32(&in);
	p->remote = rf_get_u64(&in);
	p->rkey.value[0] = rf_get_u64(&in);
	p->rkey.value[1] = rf_get_u64(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (name || p->keys_known || p->peer.phase != RF_WIRE_PROBE)
		return rf_fail(e, RF_E_FAILED, "the peer sent KEYS that nobody asked for");
	p->keys_known = true;
	return 0;
}

static int take_round_ok(struct prober *p, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint64_t pass = rf_get_u64(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (pass != p->passes_ok || pass >= p->pass)
		return rf_fail(e, RF_E_FAILED, "the peer's ROUND_OK is for another round");
	p->passes_ok++;
	return 0;
}

static int take_message(void *side, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct prober *p = side;
	switch (m->type) {
	case RF_MSG_HELLO:
		p->heard_hello = true;
		p->peer.phase = RF_WIRE_SETUP;
		return rf_agree_take_hello(&p->peer, "", m, e);
	case RF_MSG_KEYS:
		return take_keys(p, m, e);
	case RF_MSG_ROUND_OK:
		return take_round_ok(p, m, e);
	default:
		return rf_fail(e, RF_E_FAILED, "the peer sent something that does not belong to a probe");
	}
}

static int pump(struct prober *p, int64_t timeout_ns, struct rf_error *e)
{
	if (p->failed.code) {
		*e = p->failed;
		return -1;
	}
	return rf_peer_pump(&p->peer, timeout_ns, e);
}

/* ---- the steps ---- */

static void registration_done(struct rf_task *task, const struct rf_event *event)
{
	struct prober *p = task->owner;
	if (event->status)
		rf_fail(&p->failed, RF_E_FAILED, "cannot register %d MiB here: %s", RF_PROBE_BYTES >> 20, event->text);
	p->registered = !event->status;
	p->lkey = event->key;
}

static int set_up(struct prober *p, struct rf_error *e)
{
	struct rf_fabric *f = p->peer.fabric;
	int64_t began = rf_peer_now(&p->peer);

	if (f->ops->connect(f, &p->peer.engine->uri, e))
		return -1;
	p->connected = true;
	p->peer.began_ns = p->peer.heard_ns = p->peer.pinged_ns = rf_peer_now(&p->peer);
	p->result->connect_ns = p->peer.began_ns - began;
	p->result->lanes = f->limits.lanes;
	if (rf_agree_hello(&p->peer, "", e))
		return -1;
	while (!p->heard_hello)
		if (pump(p, -1, e))
			return -1;
	p->registered = !f->limits.local_keys;
	if (f->limits.local_keys &&
	    f->ops->reg(f, p->scratch, RF_PROBE_BYTES, RF_ACCESS_LOCAL_READ, (uint64_t)(uintptr_t)&p->task))
		return rf_fail(e, RF_E_FAILED, "no memory to register a probe's memory");

	began = rf_peer_now(&p->peer);
	p->peer.phase = RF_WIRE_PROBE;
	p->peer.activity = "measuring";
	rf_peer_begin(&p->peer, RF_MSG_PROBE);
	if (rf_peer_send(&p->peer, RF_LANE_CONTROL, e))
		return -1;
	while (!p->keys_known || !p->registered)
		if (pump(p, -1, e))
			return -1;
	p->result->register_ns = rf_peer_now(&p->peer) - began;
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static int measure_round_trip(struct prober *p, struct rf_error *e)
{
	int64_t trips[PINGS];

	for (unsigned i = 0; i < PINGS; i++) {
		p->peer.round_trip_ns = 0;
		p->peer.pinged_ns = rf_peer_now(&p->peer);
		rf_put_u64(rf_peer_begin(&p->peer, RF_MSG_PING), (uint64_t)p->peer.pinged_ns);
		if (rf_peer_send(&p->peer, RF_LANE_CONTROL, e))
			return -1;
		while (!p->peer.round_trip_ns)
			if (pump(p, -1, e))
				return -1;
		trips[i] = p->peer.round_trip_ns;
	}
	qsort(trips, PINGS, sizeof(trips[0]), compare_times);
	p->result->round_trip_ns = trips[PINGS / 2];
	return 0;
}

/* As much as the lane takes. The number of bytes posted, or -1. */
static int64_t fill_lane(struct prober *p, unsigned lane, uint64_t bytes, struct rf_error *e)
{
	struct rf_fabric *f = p->peer.fabric;
	uint64_t most = rf_min_u64(WRITE_BYTES, f->limits.max_write_bytes), posted = 0;

	while (posted < bytes) {
		/* Each lane begins at another place, and no write crosses the end. */
		uint64_t at = (lane * most + posted) % RF_PROBE_BYTES;
		uint64_t length = rf_min_u64(rf_min_u64(most, bytes - posted), RF_PROBE_BYTES - at);
		struct rf_write w = {p->scratch + at, p->lkey, p->remote + at, p->rkey, (uint32_t)length};
		int n = f->ops->write(f, lane, &w, 1);
		if (n < 0)
			return rf_peer_lost(&p->peer, e);
		if (!n)
			break;
		posted += length;
	}
	return (int64_t)posted;
}

static int end_pass(struct prober *p, bool final, struct rf_error *e)
{
	for (unsigned lane = 0; lane <= p->peer.fabric->limits.lanes; lane++) {
		struct rf_out *o = rf_peer_begin(&p->peer, RF_MSG_ROUND_END);
		rf_put_u64(o, p->pass);
		rf_put_u64(o, 0);
		rf_put_u8(o, final);
		if (rf_peer_send(&p->peer, lane, e))
			return -1;
	}
	p->pass++;
	/* The last answer and the end of the connection may come in one batch. */
	while (p->passes_ok < p->pass)
		if (pump(p, -1, e) && p->passes_ok < p->pass)
			return -1;
	return 0;
}

static int one_pass(struct prober *p, uint64_t bytes, struct rf_error *e)
{
	unsigned lanes = p->peer.fabric->limits.lanes;
	uint64_t share = bytes / lanes, left[RF_LANES_MAX + 1] = {0}, all = share * lanes;

	for (unsigned lane = 1; lane <= lanes; lane++)
		left[lane] = share;
	while (all) {
		for (unsigned lane = 1; lane <= lanes; lane++) {
			int64_t n = fill_lane(p, lane, left[lane], e);
			if (n < 0)
				return -1;
			left[lane] -= (uint64_t)n;
			all -= (uint64_t)n;
		}
		if (pump(p, all ? -1 : 0, e))
			return -1;
	}
	return end_pass(p, false, e);
}

static int measure_bandwidth(struct prober *p, struct rf_error *e)
{
	for (uint64_t bytes = FIRST_PASS_BYTES; bytes <= LAST_PASS_BYTES; bytes *= 4) {
		int64_t began = rf_peer_now(&p->peer);
		if (one_pass(p, bytes, e))
			return -1;
		int64_t took = rf_peer_now(&p->peer) - began;
		p->result->bytes_per_second = (uint64_t)((double)bytes * 1e9 / (double)(took > 0 ? took : 1));
		if (took >= LONG_ENOUGH_NS)
			break;
	}
	return end_pass(p, true, e);
}

/* The destination closes the connection when it listens again; whoever called us may count on that. */
static void part(struct prober *p)
{
	struct rf_error ignored;
	int64_t until = rf_peer_now(&p->peer) + PARTING_NS, left;

	while (!p->peer.lost && (left = until - rf_peer_now(&p->peer)) > 0)
		if (rf_peer_pump(&p->peer, left, &ignored))
			return;
}

static void free_prober(void *side)
{
	struct prober *p = side;
	rf_peer_free(&p->peer);
	free(p->scratch);
	free(p);
}

int rf_probe_run(struct rf_engine *engine, struct rf_probe_result *result, struct rf_error *e)
{
	struct prober *p = calloc(1, sizeof(*p));

	if (!p)
		return rf_fail(e, RF_E_FAILED, "no memory for a probe");
	engine->side = p;
	engine->free_side = free_prober;
	*result = (struct rf_probe_result){0};
	p->result = result;
	p->task = (struct rf_task){.done = registration_done, .owner = p};
	rf_peer_init(&p->peer, engine, true, p);
	p->peer.message = take_message;
	p->scratch = aligned_alloc(RF_PAGE_BYTES, RF_PROBE_BYTES);
	if (!p->scratch)
		return rf_fail(e, RF_E_FAILED, "no memory for a probe");
	memset(p->scratch, 0x5a, RF_PROBE_BYTES);
	if (set_up(p, e) || measure_round_trip(p, e) || measure_bandwidth(p, e)) {
		if (!p->connected)
			return -1;
		rf_peer_last_words(&p->peer, e);
		rf_peer_abort(&p->peer, e);
		rf_peer_quiesce(&p->peer);
		return -1;
	}
	part(p);
	rf_peer_quiesce(&p->peer);
	return 0;
}
