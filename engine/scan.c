// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine/scan.h"

#include "common/checked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 32 };

struct rf_scan_job {
	struct rf_task task;
	struct rf_scan *scan;
	struct rf_scan_job *next_free;
	uint64_t slice;
	unsigned block;
	struct rf_run run;
	uint64_t data_pages, dirty_pages, send_pages, zero_pages, joined_pages, suspect_pages;
	int result;
	struct rf_error error;
};

/* ---- on a worker: one slice ---- */

/* Move the zero pages of to_send to zero. */
static void sort_zero(const struct rf_block *b, struct rf_sets *set, struct rf_run slice)
{
	struct rf_run run;
	uint64_t at = slice.first, end = slice.first + slice.count;
	for (; rf_pages_next(&set->to_send, at, end, &run); at = run.first + run.count)
		b->ops->find_zero(b, run, &set->zero);
	rf_pages_subtract(&set->to_send, &set->zero, slice.first, slice.count);
}

/* A page that was never sent is zero at the destination already. */
static void drop_never_sent(struct rf_sets *set, struct rf_run slice)
{
	rf_pages_unite(&set->scratch, &set->zero, slice.first, slice.count);
	rf_pages_subtract(&set->scratch, &set->ever_sent, slice.first, slice.count);
	rf_pages_subtract(&set->zero, &set->scratch, slice.first, slice.count);
	rf_pages_remove(&set->scratch, slice.first, slice.count);
}

/* Pages of `set_of` that hold no data: never read them, they go to zero. */
static int sort_holes(const struct rf_block *b, struct rf_sets *set, struct rf_pages *set_of, struct rf_run slice,
		      struct rf_error *e)
{
	struct rf_run run;
	uint64_t at = slice.first, end = slice.first + slice.count;
	if (!rf_pages_next(set_of, at, end, &run))
		return 0;
	if (b->ops->extents(b, slice, &set->scratch, e))
		return -1;
	rf_pages_unite(&set->zero, set_of, slice.first, slice.count);
	rf_pages_subtract(&set->zero, &set->scratch, slice.first, slice.count);
	rf_pages_remove(&set->scratch, slice.first, slice.count);
	rf_pages_subtract(&set->to_send, &set->zero, slice.first, slice.count);
	return 0;
}

static int scan_extents(struct rf_scan_job *job, struct rf_block *b, struct rf_sets *set, struct rf_error *e)
{
	if (b->ops->extents(b, job->run, &set->to_send, e))
		return -1;
	job->data_pages = job->dirty_pages = rf_pages_count(&set->to_send, job->run.first, job->run.count);
	sort_zero(b, set, job->run);
	job->zero_pages = rf_pages_count(&set->zero, job->run.first, job->run.count);
	drop_never_sent(set, job->run);
	return 0;
}

/* What an earlier round left over is looked at again. */
static void take_back(struct rf_sets *set, struct rf_run slice)
{
	rf_pages_unite(&set->to_send, &set->zero, slice.first, slice.count);
	rf_pages_remove(&set->zero, slice.first, slice.count);
}

/* What is found waits in `zero` for the next collect. A page that was never sent is zero over there, hole or not. */
static int scan_holes(struct rf_scan_job *job, struct rf_block *b, struct rf_sets *set, struct rf_error *e)
{
	take_back(set, job->run);
	return sort_holes(b, set, &set->ever_sent, job->run, e);
}

/* What is to be sent now: which of it is a hole or zero? */
static int sort(struct rf_scan_job *job, struct rf_block *b, struct rf_sets *set, struct rf_error *e)
{
	struct rf_run run = job->run;

	if (job->scan->guest->may_discard && sort_holes(b, set, &set->to_send, run, e))
		return -1;
	sort_zero(b, set, run);
	drop_never_sent(set, run);
	job->zero_pages = rf_pages_count(&set->zero, run.first, run.count);
	return 0;
}

/* All that was suspect stands still since the drain point, but for what later collects report. */
static void join_suspect(struct rf_scan_job *job, struct rf_sets *set)
{
	struct rf_run run = job->run;
	uint64_t before = rf_pages_count(&set->to_send, run.first, run.count);

	if (!job->scan->joining)
		return;
	rf_pages_unite(&set->to_send, &set->suspect, run.first, run.count);
	rf_pages_remove(&set->suspect, run.first, run.count);
	job->joined_pages = rf_pages_count(&set->to_send, run.first, run.count) - before;
}

/* Collect, and remember what: it may be on its way to become something else. */
static int collect_suspect(struct rf_scan_job *job, struct rf_sets *set, struct rf_error *e)
{
	struct rf_scan *s = job->scan;
	struct rf_run run = job->run;

	if (s->tracker->ops->collect(s->tracker, job->block, run, &set->scratch, e))
		return -1;
	rf_pages_unite(&set->to_send, &set->scratch, run.first, run.count);
	job->dirty_pages = rf_pages_count(&set->to_send, run.first, run.count);
	join_suspect(job, set);
	rf_pages_unite(&set->suspect, &set->scratch, run.first, run.count);
	rf_pages_remove(&set->scratch, run.first, run.count);
	job->suspect_pages = rf_pages_count(&set->suspect, run.first, run.count);
	return 0;
}

static int scan_collect(struct rf_scan_job *job, struct rf_block *b, struct rf_sets *set, struct rf_error *e)
{
	struct rf_scan *s = job->scan;
	struct rf_run run = job->run;

	take_back(set, run);
	if (s->suspicious)
		return collect_suspect(job, set, e) ? -1 : sort(job, b, set, e);
	if (s->tracker->ops->collect(s->tracker, job->block, run, &set->to_send, e))
		return -1;
	job->dirty_pages = rf_pages_count(&set->to_send, run.first, run.count);
	return sort(job, b, set, e);
}

static int scan_suspect(struct rf_scan_job *job, struct rf_block *b, struct rf_sets *set, struct rf_error *e)
{
	take_back(set, job->run);
	join_suspect(job, set);
	return sort(job, b, set, e);
}

static void job_run(void *arg)
{
	struct rf_scan_job *job = arg;
	struct rf_scan *s = job->scan;
	struct rf_block *b = s->guest->blocks[job->block];
	struct rf_sets *set = &s->sets[job->block];

	job->result = 0;
	job->data_pages = job->dirty_pages = job->zero_pages = job->send_pages = 0;
	job->joined_pages = job->suspect_pages = 0;
	switch (s->kind) {
	case RF_SCAN_ARM:
		job->result = s->tracker->ops->arm(s->tracker, job->block, job->run, &job->error);
		return;
	case RF_SCAN_DROP:
		s->tracker->ops->drop(s->tracker, job->block, job->run);
		return;
	case RF_SCAN_EXTENTS:
		job->result = scan_extents(job, b, set, &job->error);
		break;
	case RF_SCAN_COLLECT:
		job->result = scan_collect(job, b, set, &job->error);
		break;
	case RF_SCAN_SUSPECT:
		job->result = scan_suspect(job, b, set, &job->error);
		break;
	case RF_SCAN_HOLES:
		job->result = scan_holes(job, b, set, &job->error);
		break;
	}
	job->send_pages = rf_pages_count(&set->to_send, job->run.first, job->run.count);
}

/* ---- on the engine's thread ---- */

static void job_done(struct rf_task *task, const struct rf_event *event)
{
	struct rf_scan_job *job = task->owner;
	struct rf_scan *s = job->scan;

	if (job->result && !s->failed.code)
		s->failed = job->error;
	s->finished[job->slice] = 1;
	s->data_pages += job->data_pages;
	s->dirty_pages += job->dirty_pages;
	s->zero_pages += job->zero_pages;
	s->send_pages += job->send_pages;
	s->joined_pages += job->joined_pages;
	s->suspect_pages += job->suspect_pages;
	while (s->ready < s->slices && s->finished[s->ready])
		s->ready++;
	if (s->ready == s->slices)
		s->ended_ns = rf_peer_now(s->peer);
	job->next_free = s->free_jobs;
	s->free_jobs = job;
}

static int open_sets(struct rf_scan *s, struct rf_error *e)
{
	uint64_t total = 0;
	for (unsigned i = 0; i < s->guest->nblocks; i++) {
		uint64_t npages = s->guest->blocks[i]->npages;
		struct rf_sets *set = &s->sets[i];
		s->first_slice[i] = total;
		total += rf_div_round_up(npages, RF_SCAN_SLICE_PAGES);
		if (rf_pages_init(&set->to_send, npages, e) || rf_pages_init(&set->zero, npages, e) ||
		    rf_pages_init(&set->ever_sent, npages, e) || rf_pages_init(&set->suspect, npages, e) ||
		    rf_pages_init(&set->scratch, npages, e))
			return -1;
	}
	s->first_slice[s->guest->nblocks] = s->slices = total;
	s->finished = calloc(total + 1, 1);
	return s->finished ? 0 : rf_fail(e, RF_E_FAILED, "no memory for %llu slices", (unsigned long long)total);
}

int rf_scan_open(struct rf_scan *s, struct rf_peer *peer, struct rf_tracker *tracker, struct rf_error *e)
{
	struct rf_guest *g = peer->engine->guest;
	*s = (struct rf_scan){.peer = peer, .guest = g, .tracker = tracker};
	s->sets = calloc(g->nblocks + 1, sizeof(*s->sets));
	s->first_slice = calloc(g->nblocks + 1, sizeof(*s->first_slice));
	s->jobs = calloc(JOBS, sizeof(*s->jobs));
	if (!s->sets || !s->first_slice || !s->jobs)
		return rf_fail(e, RF_E_FAILED, "no memory for a scan of %u blocks", g->nblocks);
	for (unsigned i = 0; i < JOBS; i++) {
		struct rf_scan_job *job = &s->jobs[i];
		job->scan = s;
		job->task = (struct rf_task){.done = job_done, .owner = job};
		job->next_free = s->free_jobs;
		s->free_jobs = job;
	}
	if (open_sets(s, e))
		return -1;
	s->submitted = s->ready = s->slices; /* no scan goes on */
	return 0;
}

void rf_scan_free(struct rf_scan *s)
{
	for (unsigned i = 0; s->sets && i < s->guest->nblocks; i++) {
		rf_pages_free(&s->sets[i].to_send);
		rf_pages_free(&s->sets[i].zero);
		rf_pages_free(&s->sets[i].ever_sent);
		rf_pages_free(&s->sets[i].suspect);
		rf_pages_free(&s->sets[i].scratch);
	}
	free(s->sets);
	free(s->first_slice);
	free(s->finished);
	free(s->jobs);
	*s = (struct rf_scan){0};
}

void rf_scan_start(struct rf_scan *s, enum rf_scan_kind kind)
{
	assert(rf_scan_ended(s));
	s->kind = kind;
	s->submitted = s->ready = 0;
	s->data_pages = s->dirty_pages = s->send_pages = s->zero_pages = 0;
	s->joined_pages = 0;
	/* What is suspect is counted anew by whatever may change it. */
	if (kind == RF_SCAN_COLLECT || kind == RF_SCAN_SUSPECT) {
		s->suspect_pages = 0;
		s->joining = s->drained;
		s->drained = false;
	}
	s->started_ns = rf_peer_now(s->peer);
	s->ended_ns = s->slices ? 0 : s->started_ns;
	memset(s->finished, 0, s->slices);
}

void rf_scan_drained(struct rf_scan *s)
{
	assert(rf_scan_ended(s));
	s->drained = true;
}

int rf_scan_feed(struct rf_scan *s, struct rf_error *e)
{
	if (s->failed.code) {
		*e = s->failed;
		return -1;
	}
	while (s->submitted < s->slices && s->free_jobs) {
		struct rf_scan_job *job = s->free_jobs;
		job->slice = s->submitted;
		job->block = rf_scan_slice(s, job->slice, &job->run);
		if (rf_peer_run(s->peer, &job->task, job_run, job, e))
			return -1;
		s->free_jobs = job->next_free;
		s->submitted++;
	}
	return 0;
}

bool rf_scan_ended(const struct rf_scan *s)
{
	return s->ready == s->slices;
}

int rf_scan_all(struct rf_scan *s, enum rf_scan_kind kind, struct rf_error *e)
{
	rf_scan_start(s, kind);
	for (;;) {
		if (rf_scan_feed(s, e))
			return -1;
		if (rf_scan_ended(s))
			return 0;
		if (rf_peer_pump(s->peer, -1, e))
			return -1;
	}
}

void rf_scan_stop(struct rf_scan *s)
{
	s->submitted = s->ready = s->slices;
	s->failed.code = RF_E_NONE;
}

unsigned rf_scan_slice(const struct rf_scan *s, uint64_t slice, struct rf_run *run)
{
	unsigned block = 0;
	assert(slice < s->slices);
	while (s->first_slice[block + 1] <= slice)
		block++;
	run->first = (slice - s->first_slice[block]) * RF_SCAN_SLICE_PAGES;
	run->count = rf_min_u64(RF_SCAN_SLICE_PAGES, s->guest->blocks[block]->npages - run->first);
	return block;
}

uint64_t rf_scan_ready_end(const struct rf_scan *s, unsigned block)
{
	if (s->ready <= s->first_slice[block])
		return 0;
	return rf_min_u64((s->ready - s->first_slice[block]) * RF_SCAN_SLICE_PAGES, s->guest->blocks[block]->npages);
}
