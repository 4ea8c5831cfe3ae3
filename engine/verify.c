// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/verify.h"

#include "common/checked.h"

#include <stdlib.h>

enum { SOURCE_JOBS = 16 };

/* ---- source ---- */

struct digest_job {
	struct rf_task task;
	const struct rf_block *block;
	unsigned index;
	struct rf_run run;
	struct rf_digest digest;
	struct rf_error error;
	int result;
	enum { FREE, BUSY, FINISHED } state;
};

static void digest_run(void *arg)
{
	struct digest_job *job = arg;
	job->result = job->block->ops->digest(job->block, job->run, &job->digest, &job->error);
}

static void digest_done(struct rf_task *task, const struct rf_event *event)
{
	struct digest_job *job = task->owner;
	job->state = FINISHED;
}

static int say_digest(struct rf_verify_source *v, struct digest_job *job, struct rf_error *e)
{
	struct rf_out *o = rf_peer_begin(v->peer, RF_MSG_DIGEST);
	rf_put_u32(o, job->index);
	rf_put_u64(o, job->run.first);
	rf_put_u64(o, job->run.count);
	rf_put_u64(o, job->digest.low);
	rf_put_u64(o, job->digest.high);
	v->said++;
	return rf_peer_send(v->peer, RF_LANE_CONTROL, e);
}

static int turn_over(struct rf_verify_source *v, const struct rf_scan *layout, struct digest_job *job, uint64_t *next,
		     struct rf_error *e)
{
	if (job->state == FINISHED) {
		job->state = FREE;
		if (job->result) {
			*e = job->error;
			return -1;
		}
		if (say_digest(v, job, e))
			return -1;
	}
	if (job->state == FREE && *next < layout->slices) {
		job->index = rf_scan_slice(layout, (*next)++, &job->run);
		job->block = layout->guest->blocks[job->index];
		job->task = (struct rf_task){.done = digest_done, .owner = job};
		job->state = BUSY;
		if (rf_peer_run(v->peer, &job->task, digest_run, job, e)) {
			job->state = FREE;
			return -1;
		}
	}
	return 0;
}

int rf_verify_all(struct rf_verify_source *v, const struct rf_scan *layout, struct rf_error *e)
{
	struct digest_job *jobs = calloc(SOURCE_JOBS, sizeof(*jobs));
	uint64_t next = 0;
	int result = jobs ? 0 : rf_fail(e, RF_E_FAILED, "no memory for digests");

	while (!result && v->agreed < layout->slices) {
		for (unsigned i = 0; i < SOURCE_JOBS && !result; i++)
			result = turn_over(v, layout, &jobs[i], &next, e);
		if (!result)
			result = rf_peer_pump(v->peer, -1, e);
	}
	if (result)
		rf_peer_quiesce(v->peer); /* jobs use what is freed now; after a success none is under way */
	free(jobs);
	return result;
}

int rf_verify_ok(struct rf_verify_source *v, const struct rf_message *m, struct rf_error *e)
{
	struct rf_in in = rf_in_body(m);
	uint64_t agreed = rf_get_u64(&in);
	if (rf_in_end(&in, m, e))
		return -1;
	if (agreed > v->said || agreed < v->agreed)
		return rf_fail(e, RF_E_FAILED, "the peer's DIGEST_OK is for what was not asked");
	v->agreed = agreed;
	return 0;
}

/* ---- destination ---- */

struct rf_verify_job {
	struct rf_task task;
	struct rf_verify_destination *all;
	const struct rf_block *block;
	struct rf_run run;
	struct rf_digest theirs, ours;
	struct rf_error error;
	int result;
};

static void check_run(void *arg)
{
	struct rf_verify_job *job = arg;
	job->result = job->block->ops->digest(job->block, job->run, &job->ours, &job->error);
}

static void check_done(struct rf_task *task, const struct rf_event *event)
{
	struct rf_verify_job *job = task->owner;
	struct rf_verify_destination *v = job->all;
	if (job->result)
		v->failed = job->error;
	else if (job->ours.low != job->theirs.low || job->ours.high != job->theirs.high)
		rf_fail(&v->failed, RF_E_FAILED, "memory differs: block %s, pages %llu to %llu", job->block->name,
			(unsigned long long)job->run.first, (unsigned long long)(job->run.first + job->run.count - 1));
	else
		v->agreed++;
	free(job);
}

/* One for each slice. */
static uint64_t most_digests(const struct rf_guest *g)
{
	uint64_t most = 0;
	for (unsigned i = 0; i < g->nblocks; i++)
		most += rf_div_round_up(g->blocks[i]->npages, RF_SCAN_SLICE_PAGES);
	return most;
}

int rf_verify_digest(struct rf_verify_destination *v, const struct rf_message *m, struct rf_error *e)
{
	struct rf_guest *g = v->peer->engine->guest;
	struct rf_in in = rf_in_body(m);
	while (rf_in_more(&in)) {
		uint32_t block = rf_get_u32(&in);
		struct rf_run run = {.first = rf_get_u64(&in)};
		struct rf_digest theirs;
		run.count = rf_get_u64(&in);
		theirs.low = rf_get_u64(&in);
		theirs.high = rf_get_u64(&in);
		if (in.bad || block >= g->nblocks || !run.count ||
		    !rf_range_within(run.first, run.count, g->blocks[block]->npages))
			return rf_fail(e, RF_E_FAILED, "the peer's DIGEST is out of range");
		if (v->asked++ == most_digests(g))
			return rf_fail(e, RF_E_FAILED, "the peer sent more DIGESTs than there are slices");
		struct rf_verify_job *job = calloc(1, sizeof(*job));
		if (!job)
			return rf_fail(e, RF_E_FAILED, "no memory for a digest");
		*job = (struct rf_verify_job){.task = {.done = check_done, .owner = job},
					      .all = v,
					      .block = g->blocks[block],
					      .run = run,
					      .theirs = theirs};
		if (rf_peer_run(v->peer, &job->task, check_run, job, e)) {
			free(job);
			return -1;
		}
	}
	return rf_in_end(&in, m, e);
}

int rf_verify_answer(struct rf_verify_destination *v, struct rf_error *e)
{
	if (v->failed.code) {
		*e = v->failed;
		return -1;
	}
	if (v->agreed == v->told)
		return 0;
	v->told = v->agreed;
	struct rf_out *o = rf_peer_begin(v->peer, RF_MSG_DIGEST_OK);
	rf_put_u64(o, v->agreed);
	return rf_peer_send(v->peer, RF_LANE_CONTROL, e);
}
