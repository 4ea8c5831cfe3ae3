// SPDX-License-Identifier: LGPL-2.1-or-later
/* The device state at the destination. What comes as EARLY depends on nothing in guest RAM and is loaded as it comes, while
 * memory is still being filled: ROMs and video memory have arrived by the time the guest stands still. What comes as STATE
 * waits until the memory is complete, for devices read guest RAM while they load. */
#include "engine/destination.h"

int rf_destination_take_load(struct rf_destination *d, const struct rf_message *m, struct rf_error *e)
{
	if (d->heard_load)
		return rf_fail(e, RF_E_FAILED, "the peer said LOAD twice");
	d->heard_load = true;
	return rf_state_take_load(&d->state, m, &d->run, e);
}

static int call_load_early(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	return d->guest->ops->load_early(d->guest->ctx, d->early.bytes, d->early.length, e);
}

static void load_early(void *arg)
{
	struct rf_destination *d = arg;
	d->early_result = call_load_early(d, &d->early_error);
}

static int start_early(struct rf_destination *d, struct rf_error *e);

static void loaded_early(struct rf_task *task, const struct rf_event *event)
{
	struct rf_destination *d = task->owner;
	struct rf_error e;
	d->loading_early = false;
	if (d->early_result) {
		d->failed = d->early_error;
		rf_wrap(&d->failed, "cannot load the device state");
	} else if (start_early(d, &e)) {
		d->failed = e;
	}
}

/* One piece at a time: what comes meanwhile is the next. */
static int start_early(struct rf_destination *d, struct rf_error *e)
{
	if (!d->guest->ops->load_early || d->loading_early || d->heard_state || !d->state.length)
		return 0;
	rf_state_hand_over(&d->state, &d->early);
	d->early_task = (struct rf_task){.done = loaded_early, .owner = d};
	if (rf_peer_run(&d->peer, &d->early_task, load_early, d, e))
		return -1;
	d->loading_early = true;
	return 0;
}

int rf_destination_take_state(struct rf_destination *d, const struct rf_message *m, struct rf_error *e)
{
	if (d->heard_load || (m->type == RF_MSG_EARLY && d->heard_state))
		return rf_fail(e, RF_E_FAILED, "the peer sent %s behind %s", rf_message_table[m->type].name,
			       d->heard_load ? "LOAD" : "STATE");
	d->heard_state = m->type == RF_MSG_STATE;
	return rf_state_take(&d->state, m, e) || start_early(d, e) ? -1 : 0;
}

static int call_load(void *arg, struct rf_error *e)
{
	struct rf_destination *d = arg;
	if (!d->guest->ops->load || !d->guest->ops->load(d->guest->ctx, d->state.bytes, d->state.length, e))
		return 0;
	return rf_wrap(e, "cannot load the device state");
}

int rf_destination_load(struct rf_destination *d, struct rf_error *e)
{
	int64_t began = rf_peer_now(&d->peer);
	d->peer.phase = RF_WIRE_LOADING;
	d->owner = rf_owner_after(d->owner, RF_STEP_LOAD);
	rf_destination_phase(d, RF_ENGINE_SWITCHOVER, "loading the device state");
	while (d->loading_early)
		if (rf_destination_pump(d, -1, e))
			return -1;
	if (d->failed.code) {
		*e = d->failed;
		return -1;
	}
	if (rf_peer_call(&d->peer, call_load, d, e))
		return -1;
	d->owner = rf_owner_after(d->owner, RF_STEP_LOADED);
	d->peer.phase = RF_WIRE_LOADED;
	d->peer.activity = "waiting for the hand-off";
	d->engine->stats->state_bytes = d->state.told_bytes;
	d->engine->stats->downtime_load_ns = (uint64_t)(rf_peer_now(&d->peer) - began);
	rf_put_u64(rf_peer_begin(&d->peer, RF_MSG_READY), d->engine->stats->downtime_load_ns);
	return rf_peer_send(&d->peer, RF_LANE_CONTROL, e);
}
