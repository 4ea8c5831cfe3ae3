// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a host does by itself: registrations, and work on a few workers. Jobs begin in the order they were given. A
 * registration only takes time; a function given to run() runs in a thread of its own, with the baton, and may spend
 * virtual time while others go on.
 *
 * Here also stand the checks that need to know what is registered and what is about to land. */
#include "fabric/sim_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void start_jobs(struct rf_sim_side *s);

/* ---- registrations ------------------------------------------------------------------------------------------- */

static struct rf_sim_registration *find(struct rf_sim_side *s, struct rf_key key)
{
	struct rf_sim_registration *r;

	if (!key.value[0] || key.value[0] > s->nregistrations)
		return NULL;
	r = &s->registrations[key.value[0] - 1];
	return r->live && r->nonce == key.value[1] ? r : NULL;
}

struct rf_sim_registration *rf_sim_registered(struct rf_sim_side *s, struct rf_key key, uint64_t address,
					      uint64_t length, unsigned access)
{
	struct rf_sim_registration *r = find(s, key);

	if (!r || (r->access & ~(unsigned)RF_ACCESS_ON_DEMAND) != access || address < r->address ||
	    length > r->length || address - r->address > r->length - length)
		return NULL;
	return r;
}

static void submit(struct rf_sim_side *s, const struct rf_sim_job *job)
{
	struct rf_sim_job *copy = rf_sim_alloc(sizeof(*copy));

	*copy = *job;
	copy->side = s;
	copy->next = NULL;
	*s->jobs_end = copy;
	s->jobs_end = &copy->next;
	start_jobs(s);
}

int rf_sim_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie)
{
	struct rf_sim_side *s = rf_sim_of(f);
	struct rf_sim_registration *r;

	if (!length || (uintptr_t)address % 4096 || length % 4096)
		rf_sim_violate(s->world, "a registration that is not page-aligned: %p, %llu bytes", address,
			       (unsigned long long)length);
	s->registrations = rf_sim_grow(s->registrations, s->nregistrations, &s->registrations_room, sizeof(*r));
	r = &s->registrations[s->nregistrations++];
	*r = (struct rf_sim_registration){.address = (uint64_t)(uintptr_t)address, .length = length, .access = access};
	r->nonce = rf_sim_random(s->world, UINT64_MAX);
	if (access & RF_ACCESS_ON_DEMAND && !s->world->model.on_demand[s->index])
		rf_sim_violate(s->world, "a registration on demand, which nobody offered");
	submit(s, &(struct rf_sim_job){
		      .kind = RF_SIM_JOB_REGISTER, .cookie = cookie, .registration = s->nregistrations - 1});
	return 0;
}

/* From here on the registration is dead, however long the release takes. */
int rf_sim_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie)
{
	struct rf_sim_side *s = rf_sim_of(f);
	struct rf_sim_registration *r = find(s, key);

	if (!r)
		rf_sim_violate(s->world, "the release of a registration that there is not");
	else if (r->in_flight && !s->world->cut && !s->lost)
		rf_sim_violate(s->world, "the release of a registration that %u writes in flight need", r->in_flight);
	if (r) {
		r->live = false;
		s->registered_bytes -= r->counted ? r->length : 0;
		s->count.releases++;
	}
	submit(s, &(struct rf_sim_job){.kind = RF_SIM_JOB_RELEASE, .cookie = cookie});
	return 0;
}

int rf_sim_can_pin(struct rf_fabric *f, uint64_t bytes, struct rf_error *e)
{
	struct rf_sim_side *s = rf_sim_of(f);
	uint64_t most = s->world->model.memlock_bytes[s->index];

	if (most && bytes > most)
		return rf_fail(e, RF_E_REFUSED, "%llu bytes more would have to be pinned than this host allows",
			       (unsigned long long)(bytes - most));
	return 0;
}

/* Every call that posts counts as one doorbell, every write is reported by itself. */
void rf_sim_counters(struct rf_fabric *f, struct rf_fabric_counters *counters)
{
	const struct rf_sim_side *s = rf_sim_of(f);

	*counters = (struct rf_fabric_counters){.registrations = s->count.registrations,
						.registration_ns = (uint64_t)s->registration_ns,
						.doorbells = s->doorbells,
						.completions = s->completions};
}

uint64_t rf_sim_living(const struct rf_sim_side *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->nregistrations; i++)
		n += s->registrations[i].live;
	return n;
}

/* ---- what is about to land --------------------------------------------------------------------------------------- */

/* Index of the first landing that ends behind `address`. */
static size_t landing_at(const struct rf_sim_side *s, uint64_t address)
{
	size_t low = 0, high = s->nlandings, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (s->landings[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void rf_sim_landing_add(struct rf_sim_side *s, uint64_t address, uint64_t length)
{
	size_t i = landing_at(s, address);

	if (s->world->model.overlaps)
		return;
	if (i < s->nlandings && s->landings[i].first < address + length)
		rf_sim_violate(s->world, "two writes in flight overlap at %#llx", (unsigned long long)address);
	s->landings = rf_sim_grow(s->landings, s->nlandings, &s->landings_room, sizeof(*s->landings));
	memmove(&s->landings[i + 1], &s->landings[i], (s->nlandings - i) * sizeof(*s->landings));
	s->landings[i] = (struct rf_sim_landing){.first = address, .end = address + length};
	s->nlandings++;
}

void rf_sim_landing_remove(struct rf_sim_side *s, uint64_t address)
{
	size_t i = landing_at(s, address);

	if (i == s->nlandings)
		return; /* an overlap has confused the order, and was told; or overlaps are allowed */
	s->nlandings--;
	memmove(&s->landings[i], &s->landings[i + 1], (s->nlandings - i) * sizeof(*s->landings));
}

/* ---- workers ------------------------------------------------------------------------------------------------------- */

int rf_sim_run_job(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie)
{
	submit(rf_sim_of(f), &(struct rf_sim_job){.kind = RF_SIM_JOB_RUN, .fn = fn, .arg = arg, .cookie = cookie});
	return 0;
}

static bool pin(struct rf_sim_side *s, struct rf_sim_registration *r)
{
	uint64_t most = s->world->model.pinnable_bytes[s->index];

	r->counted = !(r->access & RF_ACCESS_ON_DEMAND);
	if (r->counted && most && s->registered_bytes + r->length > most) {
		s->count.failed_registrations++;
		return false;
	}
	r->live = true;
	s->count.registrations++;
	s->count.on_demand_registrations += !r->counted;
	s->registered_bytes += r->counted ? r->length : 0;
	if (s->registered_bytes > s->count.registered_bytes_peak)
		s->count.registered_bytes_peak = s->registered_bytes;
	return true;
}

static void end_job(struct rf_sim_job *job)
{
	static const enum rf_event_kind kinds[] = {RF_EV_REGISTERED, RF_EV_RELEASED, RF_EV_DONE};
	struct rf_sim_side *s = job->side;
	struct rf_event event = {.kind = kinds[job->kind], .cookie = job->cookie};
	struct rf_sim_registration *r;

	if (job->kind == RF_SIM_JOB_REGISTER) {
		r = &s->registrations[job->registration];
		if (pin(s, r)) {
			event.key = (struct rf_key){{job->registration + 1, r->nonce}};
		} else {
			event.status = -1;
			event.text = "there is no memory for it";
			event.error_number = ENOMEM;
		}
	}
	free(job);
	s->busy--;
	rf_sim_push(s, &event);
	start_jobs(s);
}

static void job_over(struct rf_sim *w, void *arg)
{
	end_job(arg);
}

static void worker_main(void *arg)
{
	struct rf_sim_worker *worker = arg;
	struct rf_sim *w = worker->task.world;
	struct rf_sim_job *job;

	for (;;) {
		while (!worker->job && !w->ending)
			rf_sim_wait(w, -1);
		if (!worker->job)
			break;
		job = worker->job;
		job->fn(job->arg);
		worker->job = NULL;
		end_job(job);
	}
	rf_sim_make_ready(&w->outside);
}

static void give_to_worker(struct rf_sim *w, void *arg)
{
	struct rf_sim_job *job = arg;
	struct rf_sim_worker *worker = job->side->workers;

	while (worker && worker->job)
		worker = worker->next;
	if (worker) {
		worker->job = job;
		rf_sim_make_ready(&worker->task);
		return;
	}
	worker = rf_sim_alloc(sizeof(*worker));
	rf_sim_task_init(w, &worker->task);
	worker->job = job;
	worker->next = job->side->workers;
	job->side->workers = worker;
	rf_sim_task_start(&worker->task, worker_main, worker);
}

static int64_t job_ns(const struct rf_sim_model *m, const struct rf_sim_job *job)
{
	if (job->kind == RF_SIM_JOB_RELEASE)
		return m->release_ns;
	if (job->kind == RF_SIM_JOB_RUN)
		return m->run_ns;

	const struct rf_sim_registration *r = &job->side->registrations[job->registration];
	bool pinned = !(r->access & RF_ACCESS_ON_DEMAND);
	int64_t ns = m->register_ns + (pinned ? m->register_page_ns * (int64_t)(r->length / 4096) : 0);

	job->side->registration_ns += ns;
	return ns;
}

static void start_jobs(struct rf_sim_side *s)
{
	struct rf_sim *w = s->world;
	struct rf_sim_job *job;
	int64_t at_ns;

	while (s->jobs && s->busy < s->config.workers) {
		job = s->jobs;
		if (!(s->jobs = job->next))
			s->jobs_end = &s->jobs;
		s->busy++;
		at_ns = w->now_ns + job_ns(&w->model, job) + rf_sim_jitter(w);
		rf_sim_set_timer(w, at_ns, job->kind == RF_SIM_JOB_RUN ? give_to_worker : job_over, job);
	}
}

/* Called from outside, when nobody works any more. */
void rf_sim_end_workers(struct rf_sim_side *s)
{
	struct rf_sim *w = s->world;
	struct rf_sim_worker *worker;

	while ((worker = s->workers)) {
		s->workers = worker->next;
		assert(!worker->job);
		rf_sim_make_ready(&worker->task);
		rf_sim_wait(w, -1);
		pthread_join(worker->task.thread, NULL);
		pthread_cond_destroy(&worker->task.turn);
		free(worker);
	}
}
