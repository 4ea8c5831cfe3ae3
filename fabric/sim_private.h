// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared by the files of the simulated fabric:
 *
 *   sim.c         the operations of fabric.h that wait: connecting, poll, close
 *   sim_baton.c   who runs: tasks, the virtual clock's next step, the end of hope
 *   sim_clock.c   the heap of timers, the random numbers, violations
 *   sim_wire.c    what travels: writes and messages
 *   sim_host.c    what a host does by itself: registrations and work, on a few workers
 *
 * Everything below is touched by the holder of the baton only, but for `woken`. */
#ifndef RAMFERRY_FABRIC_SIM_PRIVATE_H
#define RAMFERRY_FABRIC_SIM_PRIVATE_H

#include "fabric/sim.h"

#include <pthread.h>
#include <stdatomic.h>

enum { RF_SIM_MAX_LANES = 64, RF_SIM_MESSAGES_PER_LANE = 64 };

struct rf_sim_side;

struct rf_sim_timer {
	int64_t at_ns;
	uint64_t order; /* of two at the same time, the one set first comes first */
	void (*fn)(struct rf_sim *w, void *arg);
	void *arg;
};

/* A thread that takes its turn. */
struct rf_sim_task {
	struct rf_sim *world;
	pthread_t thread;
	pthread_cond_t turn;
	enum { RF_SIM_TASK_RUNS, RF_SIM_TASK_READY, RF_SIM_TASK_WAITS } state;
	int64_t deadline_ns;      /* of its wait; -1: none */
	int64_t timer_ns;         /* its earliest timer in the heap; -1: none. Saves a timer for every poll */
	struct rf_sim_task *next; /* ready */
	void (*fn)(void *);
	void *arg;
};

struct rf_sim_event {
	struct rf_event event;
	struct rf_sim_event *next;
	char bytes[]; /* of its message or text */
};

struct rf_sim_registration {
	uint64_t address, length, nonce;
	unsigned access;
	unsigned in_flight; /* writes that need it */
	bool live;
	bool counted; /* among registered_bytes */
};

struct rf_sim_job {
	struct rf_sim_side *side;
	enum { RF_SIM_JOB_REGISTER, RF_SIM_JOB_RELEASE, RF_SIM_JOB_RUN } kind;
	uint64_t cookie;
	size_t registration;
	void (*fn)(void *);
	void *arg;
	struct rf_sim_job *next;
};

struct rf_sim_worker {
	struct rf_sim_task task;
	struct rf_sim_job *job;
	struct rf_sim_worker *next;
};

/* Where writes in flight will land, sorted; no two may overlap. */
struct rf_sim_landing {
	uint64_t first, end;
};

struct rf_sim_lane {
	unsigned writes;   /* posted, not yet reported */
	unsigned messages; /* travelling */
	int64_t skew_ns;
	int64_t sent_ns, arrived_ns, reported_ns; /* of the last; a lane keeps its order */
	bool refused;                             /* a send: an event must follow */
};

struct rf_sim_side {
	struct rf_fabric fabric; /* first */
	struct rf_sim *world;
	unsigned index;
	struct rf_fabric_config config;
	struct rf_sim_memory memory;
	struct rf_sim_task task;
	struct rf_sim_task *waiter; /* in poll, accept, connect or close */
	enum { RF_SIM_FREE, RF_SIM_LISTENS, RF_SIM_CALLS, RF_SIM_CONNECTED, RF_SIM_CLOSED } state;
	bool called;   /* listens, and somebody asks for it */
	bool answered; /* its call was taken */
	bool lost;
	bool closing;
	atomic_bool woken;

	struct rf_sim_event *events, **events_end, *delivered;
	struct rf_sim_lane lanes[RF_SIM_MAX_LANES + 1];
	int64_t link_free_ns;
	struct rf_sim_count count;
	uint64_t registered_bytes;
	int64_t registration_ns;
	uint64_t doorbells, completions;
	unsigned unsent; /* posted here and not yet on the wire */
	unsigned unreported;

	struct rf_sim_registration *registrations;
	size_t nregistrations, registrations_room;
	struct rf_sim_landing *landings;
	size_t nlandings, landings_room;

	unsigned busy; /* workers */
	struct rf_sim_job *jobs, **jobs_end;
	struct rf_sim_worker *workers;
};

struct rf_sim {
	struct rf_sim_model model;
	uint64_t random;
	int64_t now_ns;
	struct rf_sim_timer *timers; /* a heap */
	size_t ntimers, timers_room;
	uint64_t order;

	pthread_mutex_t lock;
	struct rf_sim_task outside; /* the thread that made the world */
	struct rf_sim_task *running;
	struct rf_sim_task *ready;
	unsigned nready, unfinished, hopeless;
	bool ending;

	struct {
		void (*fn)(void *arg, int64_t now_ns);
		void *arg;
	} on_time[4];
	unsigned non_time;
	void (*on_message)(void *arg, enum rf_sim_end from, const void *message, size_t length, bool delivered);
	void *on_message_arg;

	struct rf_sim_side sides[2];
	bool cut;
	char violation[500];
};

static inline struct rf_sim_side *rf_sim_peer(struct rf_sim_side *s)
{
	return &s->world->sides[!s->index];
}

static inline struct rf_sim_side *rf_sim_of(struct rf_fabric *f)
{
	return (struct rf_sim_side *)f;
}

/* sim_clock.c. An allocation that fails ends a simulation: there is nobody to tell. */
void *rf_sim_alloc(size_t bytes);
void *rf_sim_grow(void *array, size_t used, size_t *room, size_t item_bytes);
void rf_sim_set_timer(struct rf_sim *w, int64_t at_ns, void (*fn)(struct rf_sim *w, void *arg), void *arg);
bool rf_sim_next_timer(struct rf_sim *w, struct rf_sim_timer *timer);
int64_t rf_sim_jitter(struct rf_sim *w);

/* sim_baton.c */
void rf_sim_task_init(struct rf_sim *w, struct rf_sim_task *t);
void rf_sim_task_start(struct rf_sim_task *t, void (*fn)(void *), void *arg);
void rf_sim_make_ready(struct rf_sim_task *t);           /* if it waits */
void rf_sim_wait(struct rf_sim *w, int64_t deadline_ns); /* the running task; until made ready or late. May end early */

/* sim.c */
void rf_sim_push(struct rf_sim_side *s, const struct rf_event *event); /* copies data and text */
void rf_sim_notify(struct rf_sim_side *s);                             /* its waiter looks again */
void rf_sim_lose(struct rf_sim_side *s, const char *text);

/* sim_wire.c */
int rf_sim_write(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n);
int rf_sim_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length);
extern const struct rf_sim_memory rf_sim_bytes;

/* sim_host.c. rf_sim_registered: the registration that holds the range, or NULL. */
int rf_sim_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie);
int rf_sim_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie);
int rf_sim_can_pin(struct rf_fabric *f, uint64_t bytes, struct rf_error *e);
void rf_sim_counters(struct rf_fabric *f, struct rf_fabric_counters *counters);
uint64_t rf_sim_living(const struct rf_sim_side *s); /* registrations */
int rf_sim_run_job(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie);
struct rf_sim_registration *rf_sim_registered(struct rf_sim_side *s, struct rf_key key, uint64_t address,
					      uint64_t length, unsigned access);
void rf_sim_landing_add(struct rf_sim_side *s, uint64_t address, uint64_t length);
void rf_sim_landing_remove(struct rf_sim_side *s, uint64_t address);
void rf_sim_end_workers(struct rf_sim_side *s);

#endif
