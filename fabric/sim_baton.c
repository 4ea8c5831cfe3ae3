// SPDX-License-Identifier: LGPL-2.1-or-later
/* Who runs. Tasks (the two sides, their workers, the thread outside) are threads, and one of them holds the baton. A task
 * gives it away by waiting. Among several that are ready the seed chooses; when none is, the clock goes to the next timer,
 * whose function runs on the thread that happens to wait. So nothing depends on the scheduler of the kernel.
 *
 * Where nothing is ready and no timer is left, nothing can ever happen again: a violation, and both sides lose their peer, so
 * that their engines come to an end and the test can tell. */
#include "fabric/sim_private.h"

#include <assert.h>

enum { HOPELESS_TRIES = 64 };

void rf_sim_task_init(struct rf_sim *w, struct rf_sim_task *t)
{
	*t = (struct rf_sim_task){.world = w, .deadline_ns = -1, .timer_ns = -1, .state = RF_SIM_TASK_RUNS};
	pthread_cond_init(&t->turn, NULL);
}

void rf_sim_make_ready(struct rf_sim_task *t)
{
	if (t->state != RF_SIM_TASK_WAITS)
		return;
	t->state = RF_SIM_TASK_READY;
	t->next = t->world->ready;
	t->world->ready = t;
	t->world->nready++;
}

static struct rf_sim_task *take_ready(struct rf_sim *w)
{
	struct rf_sim_task **at = &w->ready, *t;
	uint64_t skip;

	if (!w->nready)
		return NULL;
	for (skip = w->nready > 1 ? rf_sim_random(w, w->nready) : 0; skip; skip--)
		at = &(*at)->next;
	t = *at;
	*at = t->next;
	w->nready--;
	t->state = RF_SIM_TASK_RUNS;
	return t;
}

/* Ends every wait there is. Engines that wait for ever again and again after that cannot be helped. */
static void end_hope(struct rf_sim *w, const char *what)
{
	int i;

	assert(w->hopeless < HOPELESS_TRIES);
	w->hopeless++;
	rf_sim_violate(w, "%s", what);
	for (i = 0; i < 2; i++) {
		if (w->sides[i].lost)
			rf_sim_push(&w->sides[i], &(struct rf_event){.kind = RF_EV_WOKEN});
		rf_sim_lose(&w->sides[i], what);
	}
}

static void look_for_wakes(struct rf_sim *w)
{
	int i;

	for (i = 0; i < 2; i++)
		if (atomic_load_explicit(&w->sides[i].woken, memory_order_relaxed))
			rf_sim_notify(&w->sides[i]);
}

/* One step of the clock. */
static void advance(struct rf_sim *w)
{
	struct rf_sim_timer timer;
	unsigned i;

	if (!rf_sim_next_timer(w, &timer)) {
		end_hope(w, "virtual time does not end: nothing can ever happen again");
		return;
	}
	if (timer.at_ns > w->model.limit_ns) {
		w->model.limit_ns = timer.at_ns + w->model.limit_ns / 16;
		end_hope(w, "virtual time does not end: the limit has passed");
	}
	if (timer.at_ns > w->now_ns) {
		for (i = 0; i < w->non_time; i++)
			w->on_time[i].fn(w->on_time[i].arg, timer.at_ns);
		w->now_ns = timer.at_ns;
	}
	timer.fn(w, timer.arg);
	look_for_wakes(w);
}

static struct rf_sim_task *next_task(struct rf_sim *w)
{
	struct rf_sim_task *next;

	look_for_wakes(w);
	while (!(next = take_ready(w)))
		advance(w);
	return next;
}

static void give(struct rf_sim *w, struct rf_sim_task *next)
{
	pthread_mutex_lock(&w->lock);
	w->running = next;
	pthread_cond_signal(&next->turn);
	pthread_mutex_unlock(&w->lock);
}

static void take(struct rf_sim *w, struct rf_sim_task *self)
{
	pthread_mutex_lock(&w->lock);
	while (w->running != self)
		pthread_cond_wait(&self->turn, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void late(struct rf_sim *w, void *arg)
{
	struct rf_sim_task *t = arg;

	if (t->timer_ns == w->now_ns)
		t->timer_ns = -1;
	if (t->state != RF_SIM_TASK_WAITS || t->deadline_ns < 0)
		return;
	if (t->deadline_ns <= w->now_ns) {
		rf_sim_make_ready(t);
	} else if (t->timer_ns < 0) {
		t->timer_ns = t->deadline_ns;
		rf_sim_set_timer(w, t->deadline_ns, late, t);
	}
}

void rf_sim_wait(struct rf_sim *w, int64_t deadline_ns)
{
	struct rf_sim_task *self = w->running, *next;

	self->deadline_ns = deadline_ns;
	self->state = RF_SIM_TASK_WAITS;
	if (deadline_ns >= 0 && deadline_ns < w->now_ns)
		self->deadline_ns = deadline_ns = w->now_ns;
	if (deadline_ns >= 0 && (self->timer_ns < 0 || self->timer_ns > deadline_ns)) {
		self->timer_ns = deadline_ns;
		rf_sim_set_timer(w, deadline_ns, late, self);
	}
	next = next_task(w);
	if (next == self)
		return;
	give(w, next);
	take(w, self);
}

void rf_sim_spend(struct rf_sim *w, int64_t ns)
{
	int64_t end = w->now_ns + ns;

	while (w->now_ns < end)
		rf_sim_wait(w, end);
}

static void *thread_main(void *arg)
{
	struct rf_sim_task *t = arg;
	struct rf_sim *w = t->world;

	take(w, t);
	t->fn(t->arg);
	give(w, next_task(w));
	return NULL;
}

void rf_sim_task_start(struct rf_sim_task *t, void (*fn)(void *), void *arg)
{
	int err;

	t->fn = fn;
	t->arg = arg;
	t->state = RF_SIM_TASK_WAITS;
	rf_sim_make_ready(t);
	err = pthread_create(&t->thread, NULL, thread_main, t);
	assert(!err);
	(void)err;
}

struct end {
	void (*fn)(void *);
	void *arg;
	struct rf_sim *world;
};

static void run_end(void *arg)
{
	struct end *end = arg;

	end->fn(end->arg);
	if (!--end->world->unfinished)
		rf_sim_make_ready(&end->world->outside);
}

void rf_sim_run(struct rf_sim *w, void (*source)(void *), void *source_arg, void (*destination)(void *),
		void *destination_arg)
{
	struct end ends[2] = {{source, source_arg, w}, {destination, destination_arg, w}};
	int i;

	assert(w->running == &w->outside);
	w->unfinished = 2;
	for (i = 0; i < 2; i++)
		rf_sim_task_start(&w->sides[i].task, run_end, &ends[i]);
	while (w->unfinished)
		rf_sim_wait(w, -1);
	for (i = 0; i < 2; i++)
		pthread_join(w->sides[i].task.thread, NULL);
}
