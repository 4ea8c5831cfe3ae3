// SPDX-License-Identifier: LGPL-2.1-or-later
/* The virtual clock's timers (a binary heap), random numbers from the seed, and the first rule that was broken. */
#include "fabric/sim_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *rf_sim_alloc(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	assert(p);
	return p;
}

/* Room for one more item behind `used`. */
void *rf_sim_grow(void *array, size_t used, size_t *room, size_t item_bytes)
{
	if (used < *room)
		return array;
	*room = *room ? *room * 2 : 64;
	array = realloc(array, *room * item_bytes);
	assert(array);
	return array;
}

/* splitmix64: any seed is a good one. */
static uint64_t next_random(struct rf_sim *w)
{
	uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t rf_sim_random(struct rf_sim *w, uint64_t limit)
{
	assert(limit);
	return next_random(w) % limit;
}

int64_t rf_sim_jitter(struct rf_sim *w)
{
	return w->model.jitter_ns ? (int64_t)rf_sim_random(w, (uint64_t)w->model.jitter_ns) : 0;
}

int64_t rf_sim_now(const struct rf_sim *w)
{
	return w->now_ns;
}

static bool earlier(const struct rf_sim_timer *a, const struct rf_sim_timer *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void rf_sim_set_timer(struct rf_sim *w, int64_t at_ns, void (*fn)(struct rf_sim *w, void *arg), void *arg)
{
	struct rf_sim_timer timer = {.at_ns = at_ns, .order = w->order++, .fn = fn, .arg = arg};
	size_t i = w->ntimers++;

	assert(at_ns >= w->now_ns);
	w->timers = rf_sim_grow(w->timers, i, &w->timers_room, sizeof(*w->timers));
	for (; i && earlier(&timer, &w->timers[(i - 1) / 2]); i = (i - 1) / 2)
		w->timers[i] = w->timers[(i - 1) / 2];
	w->timers[i] = timer;
}

bool rf_sim_next_timer(struct rf_sim *w, struct rf_sim_timer *timer)
{
	struct rf_sim_timer last;
	size_t i = 0, child;

	if (!w->ntimers)
		return false;
	*timer = w->timers[0];
	last = w->timers[--w->ntimers];
	while ((child = 2 * i + 1) < w->ntimers) {
		if (child + 1 < w->ntimers && earlier(&w->timers[child + 1], &w->timers[child]))
			child++;
		if (!earlier(&w->timers[child], &last))
			break;
		w->timers[i] = w->timers[child];
		i = child;
	}
	w->timers[i] = last;
	return true;
}

struct script {
	void (*fn)(void *);
	void *arg;
};

static void run_script(struct rf_sim *w, void *arg)
{
	struct script script = *(struct script *)arg;

	free(arg);
	if (!w->ending)
		script.fn(script.arg);
}

void rf_sim_at(struct rf_sim *w, int64_t t_ns, void (*fn)(void *), void *arg)
{
	struct script *script = rf_sim_alloc(sizeof(*script));

	*script = (struct script){.fn = fn, .arg = arg};
	rf_sim_set_timer(w, t_ns, run_script, script);
}

void rf_sim_on_time(struct rf_sim *w, void (*fn)(void *arg, int64_t now_ns), void *arg)
{
	assert(w->non_time < sizeof(w->on_time) / sizeof(w->on_time[0]));
	w->on_time[w->non_time].fn = fn;
	w->on_time[w->non_time++].arg = arg;
}

const char *rf_sim_violation(const struct rf_sim *w)
{
	return w->violation[0] ? w->violation : NULL;
}

/* The first one is the cause; what comes after it is mostly its consequence. */
void rf_sim_violate(struct rf_sim *w, const char *format, ...)
{
	va_list args;
	int n;

	if (w->violation[0])
		return;
	n = snprintf(w->violation, sizeof(w->violation), "at %.6f s: ", (double)w->now_ns / 1e9);
	va_start(args, format);
	vsnprintf(w->violation + n, sizeof(w->violation) - (size_t)n, format, args);
	va_end(args);
}
