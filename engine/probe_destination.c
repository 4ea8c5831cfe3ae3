// SPDX-License-Identifier: LGPL-2.1-or-later
/* The destination's part of a probe; probe.h tells what it is. Whatever the prober does wrong ends the probe, never the
 * waiting for a source: only a cancellation does that. */
#include "engine/probe.h"

#include "common/checked.h"

#include <stdlib.h>

static const int64_t PATIENCE_NS = 10000000000;

struct rf_probe {
	struct rf_task task;
	struct rf_destination *d;
	void *scratch;
	bool registered, told, final, content;
	struct rf_key key;
	struct rf_error failed;
	uint64_t pass; /* that is being written */
	bool lane_ended[RF_LANES_MAX + 1];
	unsigned lanes_ended;
	int64_t until_ns;
};

static void registration_done(struct rf_task *task, const struct rf_event *event)
{
	struct rf_probe *p = task->owner;
	if (event->status)
		rf_fail(&p->failed, RF_E_FAILED, "cannot register %d MiB: %s", RF_PROBE_BYTES >> 20, event->text);
	p->registered = !event->status;
	p->key = event->key;
}

int rf_probe_take(struct rf_destination *d, struct rf_error *e)
{
	struct rf_fabric *f = d->peer.fabric;
	if (d->probe || d->heard_blocks)
		return rf_fail(e, RF_E_FAILED, "the peer sent PROBE at the wrong time");
	struct rf_probe *p = calloc(1, sizeof(*p));
	if (!p)
		return rf_fail(e, RF_E_FAILED, "no memory for a probe");
	d->probe = p;
	p->d = d;
	p->until_ns = rf_peer_now(&d->peer) + PATIENCE_NS;
	p->task = (struct rf_task){.done = registration_done, .owner = p};
	p->scratch = aligned_alloc(RF_PAGE_BYTES, RF_PROBE_BYTES);
	if (!p->scratch)
		return rf_fail(e, RF_E_FAILED, "no memory for a probe");
	d->peer.phase = RF_WIRE_PROBE;
	d->peer.activity = "being measured";
	if (f->ops->reg(f, p->scratch, RF_PROBE_BYTES, RF_ACCESS_REMOTE_WRITE, (uint64_t)(uintptr_t)&p->task))
		return rf_fail(e, RF_E_FAILED, "no memory to register a probe's memory");
	return 0;
}

static int say_key(struct rf_probe *p, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(&p->d->peer, RF_MSG_KEYS);
	rf_put_u32(o, 0);
	rf_put_u64(o, (uint64_t)(uintptr_t)p->scratch);
	rf_put_u64(o, p->key.value[0]);
	rf_put_u64(o, p->key.value[1]);
	p->told = true;
	return rf_peer_send(&p->d->peer, RF_LANE_CONTROL, e);
}

static int end_pass(struct rf_probe *p, struct rf_error *e)
{
	rf_put_u64(rf_peer_begin(&p->d->peer, RF_MSG_ROUND_OK), p->pass);
	if (rf_peer_send(&p->d->peer, RF_LANE_CONTROL, e))
		return -1;
	for (unsigned i = 0; i <= RF_LANES_MAX; i++)
		p->lane_ended[i] = false;
	p->lanes_ended = 0;
	p->pass++;
	p->content = p->final;
	return 0;
}

int rf_probe_round_end(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct rf_probe *p = d->probe;
	struct rf_in in = rf_in_body(m);
	uint64_t pass = rf_get_u64(&in);
	rf_get_u64(&in); /* how many writes: nobody has to find them */
	bool final = rf_get_u8(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (pass != p->pass || p->content || p->lane_ended[lane])
		return rf_fail(e, RF_E_FAILED, "the peer's ROUND_END ends what has not begun");
	p->lane_ended[lane] = true;
	p->final |= final;
	return ++p->lanes_ended == d->peer.fabric->limits.lanes + 1 ? end_pass(p, e) : 0;
}

int rf_probe_serve(struct rf_destination *d, struct rf_error *e)
{
	struct rf_probe *p = d->probe;
	rf_log(d->engine->log, RF_LOG_DEBUG, "a ramferry doctor measures the way here");
	while (!p->content) {
		int64_t left = p->until_ns - rf_peer_now(&d->peer);
		if (left <= 0)
			return rf_fail(e, RF_E_FAILED, "it took more than %d s", (int)(PATIENCE_NS / 1000000000));
		if (p->failed.code) {
			*e = p->failed;
			return -1;
		}
		if (p->registered && !p->told && say_key(p, e))
			return -1;
		if (rf_peer_pump(&d->peer, left, e))
			return -1;
	}
	rf_error_clear(e);
	return -1;
}

int rf_probe_end(struct rf_destination *d, struct rf_error *e)
{
	const struct rf_log *log = d->engine->log;
	if (e->code)
		rf_peer_abort(&d->peer, e);
	rf_peer_quiesce(&d->peer);
	if (e->code == RF_E_CANCELLED)
		return -1;
	if (e->code)
		rf_log(log, RF_LOG_WARNING,
		       "a ramferry doctor's measuring ended early: %s; the guest was not touched, a source is awaited",
		       e->text);
	else
		rf_log(log, RF_LOG_INFO,
		       "a ramferry doctor measured the way here; the guest was not touched, a source is awaited");
	d->engine->probed = true;
	return rf_fail(e, RF_E_REFUSED, "no source came, but a ramferry doctor that measured the way here");
}

/* Once the fabric is closed: a registration may have been under way until then. */
void rf_probe_free(struct rf_destination *d)
{
	if (d->probe)
		free(d->probe->scratch);
	free(d->probe);
}
