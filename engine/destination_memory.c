// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a source may do to the destination's memory. The writes themselves pass by the engine: the fabric puts them in
 * place. Here registrations are made and taken back, runs are zeroed, and the end of a round is established: every lane
 * has delivered its ROUND_END behind its writes, and every ZERO is applied. */
#include "engine/destination.h"

#include "common/checked.h"
#include "common/sizes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct rf_registration {
	struct rf_task task;
	struct rf_destination *d;
	struct rf_registration *next; /* in ready or released */
	uint32_t id, block;
	struct rf_run run;
	struct rf_key key;
	bool failed;            /* for lack of memory */
	bool told;              /* KEYS said it */
	bool released;          /* RELEASE has come on all lanes */
	uint32_t release_lanes; /* on how many RELEASE will come; 0: it has not come on any */
	uint64_t release_heard; /* bit 0 is lane 1 */
};

/* ---- REGISTER and RELEASE ---- */

static void lacks_memory(struct rf_registration *r, const char *why)
{
	struct rf_destination *d = r->d;
	char size[32];

	if (!d->lacked_memory)
		rf_log(d->engine->log, RF_LOG_WARNING, "%s of guest memory cannot be registered here: %s",
		       rf_format_size(r->run.count << RF_PAGE_SHIFT, size, sizeof(size)), why);
	d->lacked_memory = true;
	d->engine->stats->failed_registrations++;
	r->failed = true;
}

static void registered(struct rf_task *task, const struct rf_event *event)
{
	struct rf_registration *r = task->owner;
	struct rf_destination *d = r->d;
	const char *why = event->text ? event->text : "the fabric does not say why";

	if (event->status && (event->error_number != ENOMEM || !d->peer.keys_may_fail)) {
		rf_fail(&d->failed, RF_E_FAILED, "cannot register guest memory: %s", why);
		return;
	}
	if (event->status)
		lacks_memory(r, why);
	r->key = event->key;
	r->next = d->ready;
	d->ready = r;
}

static void deregistered(struct rf_task *task, const struct rf_event *event)
{
	struct rf_registration *r = task->owner;
	struct rf_destination *d = r->d;
	d->registered_bytes -= r->run.count << RF_PAGE_SHIFT;
	r->next = d->released;
	d->released = r;
}

static int room_for_id(struct rf_destination *d, uint32_t id, struct rf_error *e)
{
	if (id >= RF_REGISTRATIONS_MAX)
		return rf_fail(e, RF_E_FAILED, "the peer's REGISTER is out of range");
	if (id < d->ids_room)
		return 0;
	uint32_t room = d->ids_room ? d->ids_room : 64;
	while (room <= id)
		room *= 2;
	struct rf_registration **more = realloc(d->by_id, room * sizeof(*more));
	if (!more)
		return rf_fail(e, RF_E_FAILED, "no memory for %u registrations", room);
	for (uint32_t i = d->ids_room; i < room; i++)
		more[i] = NULL;
	d->by_id = more;
	d->ids_room = room;
	return 0;
}

/* No source has more than all memory registered; what it gave up may still be on its way out while that is asked for anew. So a
 * source cannot have this host pin the same memory a million times, or fill the card's tables. */
static uint64_t most_registered(const struct rf_destination *d)
{
	uint64_t pages = 0;

	for (unsigned i = 0; i < d->guest->nblocks; i++)
		pages += d->guest->blocks[i]->npages;
	return 2 * (pages << RF_PAGE_SHIFT);
}

static int add(struct rf_destination *d, uint32_t id, uint32_t block, struct rf_run run, struct rf_error *e)
{
	struct rf_fabric *f = d->peer.fabric;
	const struct rf_options *o = d->engine->options;
	bool on_demand = o->register_mode == RF_REGISTER_ODP;
	uint64_t most = on_demand ? 0 : o->max_pinned_bytes, bytes = run.count << RF_PAGE_SHIFT;

	if (room_for_id(d, id, e))
		return -1;
	if (d->by_id[id])
		return rf_fail(e, RF_E_FAILED, "the peer's REGISTER uses a name twice");
	if (most && d->registered_bytes + bytes > most)
		return rf_fail(e, RF_E_FAILED, "the source registers more than its own max-pinned");
	if (d->registered_bytes + bytes > most_registered(d))
		return rf_fail(e, RF_E_FAILED, "the source registers more memory than there is");
	struct rf_registration *r = calloc(1, sizeof(*r));
	if (!r)
		return rf_fail(e, RF_E_FAILED, "no memory for a registration");
	*r = (struct rf_registration){
	    .task = {.done = registered, .owner = r}, .d = d, .id = id, .block = block, .run = run};
	d->by_id[id] = r;
	d->registered_bytes += bytes;
	d->engine->stats->registrations++;
	d->engine->stats->registered_bytes += bytes;
	if (f->ops->reg(f, rf_block_at(d->guest->blocks[block], run.first), bytes,
			RF_ACCESS_REMOTE_WRITE | (on_demand ? RF_ACCESS_ON_DEMAND : 0), (uintptr_t)&r->task))
		return rf_fail(e, RF_E_FAILED, "cannot register guest memory");
	return 0;
}

static bool within(const struct rf_destination *d, uint32_t block, struct rf_run run)
{
	return block < d->guest->nblocks && run.count &&
	       rf_range_within(run.first, run.count, d->guest->blocks[block]->npages);
}

int rf_destination_register(struct rf_destination *d, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		uint32_t id = rf_get_u32(&in), block = rf_get_u32(&in);
		struct rf_run run = {.first = rf_get_u64(&in)};
		run.count = rf_get_u64(&in);
		if (in.bad || !within(d, block, run))
			return rf_fail(e, RF_E_FAILED, "the peer's REGISTER is out of range");
		if (add(d, id, block, run, e))
			return -1;
	}
	return rf_in_end(&in, m, e);
}

static int release(struct rf_destination *d, unsigned lane, uint32_t id, uint32_t lanes, struct rf_error *e)
{
	struct rf_fabric *f = d->peer.fabric;
	struct rf_registration *r = id < d->ids_room ? d->by_id[id] : NULL;
	uint64_t bit = lane ? UINT64_C(1) << (lane - 1) : 0;

	if (!r || !r->told || r->released || !lanes || lanes > f->limits.lanes || (!lane && lanes != 1) ||
	    (r->release_lanes && (r->release_lanes != lanes || !bit || r->release_heard & bit)))
		return rf_fail(e, RF_E_FAILED, "the peer's RELEASE names no registration");
	r->release_lanes = lanes;
	r->release_heard |= bit;
	/* Writes to it may still be on their way on the others. */
	if (lane && (uint32_t)__builtin_popcountll(r->release_heard) < lanes)
		return 0;
	r->released = true;
	r->task.done = deregistered;
	if (f->ops->dereg(f, r->key, (uintptr_t)&r->task))
		return rf_fail(e, RF_E_FAILED, "cannot release a registration");
	return 0;
}

int rf_destination_release(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		uint32_t id = rf_get_u32(&in), lanes = rf_get_u32(&in);
		if (in.bad)
			break;
		if (release(d, lane, id, lanes, e))
			return -1;
	}
	return rf_in_end(&in, m, e);
}

static void forget(struct rf_destination *d, struct rf_registration *r)
{
	d->by_id[r->id] = NULL;
	free(r);
}

static void put_key(struct rf_destination *d, struct rf_registration *r, struct rf_out *o)
{
	void *memory = rf_block_at(d->guest->blocks[r->block], r->run.first);

	rf_put_u32(o, r->id);
	rf_put_u64(o, r->failed ? RF_KEYS_NO_MEMORY : (uintptr_t)memory);
	rf_put_u64(o, r->key.value[0]);
	rf_put_u64(o, r->key.value[1]);
	r->told = true;
	if (r->failed) {
		d->registered_bytes -= r->run.count << RF_PAGE_SHIFT;
		forget(d, r);
	}
}

static int say_keys(struct rf_destination *d, struct rf_error *e)
{
	while (d->ready) {
		struct rf_out *o = rf_peer_begin(&d->peer, RF_MSG_KEYS);
		while (d->ready && rf_out_room(o) >= 28) {
			struct rf_registration *r = d->ready;
			d->ready = r->next;
			put_key(d, r, o);
		}
		if (rf_peer_send(&d->peer, RF_LANE_CONTROL, e))
			return -1;
	}
	return 0;
}

static int say_released(struct rf_destination *d, struct rf_error *e)
{
	while (d->released) {
		struct rf_out *o = rf_peer_begin(&d->peer, RF_MSG_RELEASED);
		while (d->released && rf_out_room(o) >= 4) {
			struct rf_registration *r = d->released;
			d->released = r->next;
			rf_put_u32(o, r->id);
			forget(d, r);
		}
		if (rf_peer_send(&d->peer, RF_LANE_CONTROL, e))
			return -1;
	}
	return 0;
}

/* ---- ZERO ---- */

struct zero_run {
	uint32_t block;
	struct rf_run run;
};

/* A whole message: runs may be as many as pages. */
struct zero_job {
	struct rf_task task;
	struct rf_destination *d;
	int result;
	struct rf_error error;
	size_t count;
	struct zero_run runs[];
};

static void apply_zeros(void *arg)
{
	struct zero_job *job = arg;
	for (size_t i = 0; i < job->count && !job->result; i++) {
		struct rf_block *b = job->d->guest->blocks[job->runs[i].block];
		/* The source tells ZERO only where it has written before, so a registration may hold these pages. */
		job->result = b->ops->clear(b, job->runs[i].run, true, &job->error);
	}
}

static void zero_done(struct rf_task *task, const struct rf_event *event)
{
	struct zero_job *job = task->owner;
	job->d->zero_jobs--;
	if (job->result)
		job->d->failed = job->error;
	free(job);
}

enum { ZERO_RUN_BYTES = 20 };

static int take_zeros(struct zero_job *job, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		struct zero_run *zero = &job->runs[job->count++];
		zero->block = rf_get_u32(&in);
		zero->run.first = rf_get_u64(&in);
		zero->run.count = rf_get_u64(&in);
		if (in.bad || !within(job->d, zero->block, zero->run))
			return rf_fail(e, RF_E_FAILED, "the peer's ZERO is out of range");
	}
	return rf_in_end(&in, m, e);
}

int rf_destination_zero(struct rf_destination *d, const struct rf_message *m, struct rf_error *e)
{
	if (d->complete)
		return rf_fail(e, RF_E_FAILED, "the peer sent ZERO behind its last round");
	size_t most = m->length / ZERO_RUN_BYTES + 1;
	struct zero_job *job = calloc(1, sizeof(*job) + most * sizeof(job->runs[0]));
	if (!job)
		return rf_fail(e, RF_E_FAILED, "no memory for a ZERO");
	job->task = (struct rf_task){.done = zero_done, .owner = job};
	job->d = d;
	if (take_zeros(job, m, e) || rf_peer_run(&d->peer, &job->task, apply_zeros, job, e)) {
		free(job);
		return -1;
	}
	d->zero_jobs++;
	d->zero_runs += job->count;
	return 0;
}

/* ---- the end of a round ---- */

int rf_destination_round_end(struct rf_destination *d, unsigned lane, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint64_t round = rf_get_u64(&in), count = rf_get_u64(&in);
	uint8_t final = rf_get_u8(&in);

	if (rf_in_end(&in, m, e))
		return -1;
	if (round != d->round || d->complete || d->lane_ended[lane] || final > 1 ||
	    (d->lanes_ended && final != d->final))
		return rf_fail(e, RF_E_FAILED, "the peer ended a round that it had not begun");
	if (lane == RF_LANE_CONTROL && count != d->zero_runs)
		return rf_fail(e, RF_E_FAILED, "of the round's %llu ZERO runs %llu arrived", (unsigned long long)count,
			       (unsigned long long)d->zero_runs);
	d->lane_ended[lane] = true;
	d->lanes_ended++;
	d->final = final;
	return 0;
}

static int end_round(struct rf_destination *d, struct rf_error *e)
{
	unsigned lanes = d->peer.fabric->limits.lanes + 1;
	if (d->lanes_ended < lanes || d->zero_jobs)
		return 0;
	for (unsigned i = 0; i < lanes; i++)
		d->lane_ended[i] = false;
	d->lanes_ended = 0;
	d->zero_runs = 0;
	d->complete = d->final;
	rf_put_u64(rf_peer_begin(&d->peer, RF_MSG_ROUND_OK), d->round++);
	return rf_peer_send(&d->peer, RF_LANE_CONTROL, e);
}

int rf_destination_answer(struct rf_destination *d, struct rf_error *e)
{
	if (d->failed.code) {
		*e = d->failed;
		return -1;
	}
	if (say_keys(d, e) || say_released(d, e) || end_round(d, e))
		return -1;
	return rf_verify_answer(&d->verify, e);
}

void rf_destination_free_memory(struct rf_destination *d)
{
	for (uint32_t i = 0; i < d->ids_room; i++)
		free(d->by_id[i]);
	free(d->by_id);
	d->by_id = NULL;
	d->ids_room = 0;
}
