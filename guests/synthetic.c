// SPDX-License-Identifier: LGPL-2.1-or-later
#include "guests/synthetic.h"

#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_PER_PAGE = RF_PAGE_BYTES / sizeof(uint64_t), BATCH_PAGES = 64 };

static const int64_t SECOND_NS = 1000000000;
static const int64_t TICK_NS = 1000000;
static const int64_t LATE_NS = 100000000; /* beyond that a writer does not catch up */

struct writer {
	struct rf_synthetic *guest;
	pthread_t thread;
	bool started;
	uint64_t first_page, pages; /* its working set */
	uint64_t random, sweep;     /* where it is */
	uint64_t written_pages;     /* in all */
	int64_t cpu_ns;             /* of the threads that have ended */
	double pages_per_ns;        /* 0: no limit */
};

struct rf_synthetic {
	struct rf_synthetic_spec spec;
	struct rf_guest *guest;
	int fd;
	uint64_t *memory;
	atomic_bool running;
	pthread_mutex_t lock;
	pthread_cond_t stop; /* a writer that sleeps wakes up: its nap must not become part of a downtime */
	int64_t started_ns, ran_ns;
	struct writer *writers;
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* ---- the writers ------------------------------------------------------------------------------------------------- */

static void write_page(struct writer *w)
{
	struct rf_synthetic *g = w->guest;
	uint64_t random = next_random(&w->random);
	uint64_t page = w->first_page + (g->spec.sweep ? w->sweep++ : random >> 16) % w->pages;

	/* Whoever sends the page reads it at the same time; that is how guests are. Never 0: no page becomes zero. */
	__atomic_store_n(&g->memory[page * WORDS_PER_PAGE + random % WORDS_PER_PAGE], random | 1, __ATOMIC_RELAXED);
	w->written_pages++;
}

static void nap(struct rf_synthetic *g)
{
	int64_t until = clock_ns(CLOCK_MONOTONIC) + TICK_NS;
	struct timespec t = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};

	pthread_mutex_lock(&g->lock);
	if (atomic_load(&g->running))
		pthread_cond_timedwait(&g->stop, &g->lock, &t);
	pthread_mutex_unlock(&g->lock);
}

static void *write_pages(void *arg)
{
	struct writer *w = arg;
	int64_t done_ns = clock_ns(CLOCK_MONOTONIC); /* it has written what was due until then */

	while (atomic_load(&w->guest->running)) {
		int64_t now = clock_ns(CLOCK_MONOTONIC);
		double due = BATCH_PAGES;

		if (w->pages_per_ns > 0) {
			if (now - done_ns > LATE_NS)
				done_ns = now - LATE_NS;
			due = (double)(now - done_ns) * w->pages_per_ns;
			if (due < 1) {
				nap(w->guest);
				continue;
			}
			if (due > BATCH_PAGES)
				due = BATCH_PAGES;
			done_ns += (int64_t)((double)(unsigned)due / w->pages_per_ns);
		}
		for (unsigned i = 0; i < (unsigned)due; i++)
			write_page(w);
	}
	w->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

int rf_synthetic_start(struct rf_synthetic *g, struct rf_error *e)
{
	int error = 0;

	if (atomic_exchange(&g->running, true))
		return 0;
	g->started_ns = clock_ns(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < g->spec.writers && !error; i++) {
		error = rf_thread_start(&g->writers[i].thread, "rf-writer", write_pages, &g->writers[i]);
		g->writers[i].started = !error;
	}
	if (!error)
		return 0;
	rf_synthetic_stop(g);
	return rf_fail_errno(e, RF_E_FAILED, error, "cannot start a writer of the synthetic guest");
}

void rf_synthetic_stop(struct rf_synthetic *g)
{
	if (!atomic_exchange(&g->running, false))
		return;
	pthread_mutex_lock(&g->lock);
	pthread_cond_broadcast(&g->stop);
	pthread_mutex_unlock(&g->lock);
	for (unsigned i = 0; i < g->spec.writers; i++) {
		if (g->writers[i].started)
			pthread_join(g->writers[i].thread, NULL);
		g->writers[i].started = false;
	}
	g->ran_ns += clock_ns(CLOCK_MONOTONIC) - g->started_ns;
}

/* ---- its life ------------------------------------------------------------------------------------------------------ */

static int tell_facts(void *ctx, char *text, size_t length, struct rf_error *e)
{
	snprintf(text, length, "guest=synthetic");
	return 0;
}

static int pause_writers(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
			 struct rf_error *e)
{
	struct rf_synthetic *g = ctx;

	*was_running = atomic_load(&g->running);
	rf_synthetic_stop(g);
	*stand = RF_STAND_STILL;
	return 0;
}

static int resume_writers(void *ctx, bool run, struct rf_error *e)
{
	return run ? rf_synthetic_start(ctx, e) : 0;
}

/* It is moved only while it runs. */
static int undo_pause(void *ctx, struct rf_error *e)
{
	return rf_synthetic_start(ctx, e);
}

static const struct rf_lifecycle_ops lifecycle = {
    .facts = tell_facts,
    .pause = pause_writers,
    .resume = resume_writers,
    .undo = undo_pause,
};

/* ---- its making ---------------------------------------------------------------------------------------------------- */

static int map_memory(struct rf_synthetic *g, struct rf_error *e)
{
	struct rf_block_source source = {.name = "memory", .length = g->spec.memory_bytes, .writable = true};
	struct rf_block *block;
	void *memory;

	g->fd = memfd_create("ramferry-bench", MFD_CLOEXEC);
	if (g->fd < 0 || ftruncate(g->fd, (off_t)g->spec.memory_bytes))
		return rf_fail_errno(e, RF_E_FAILED, errno, "no memory for a synthetic guest");
	memory = mmap(NULL, g->spec.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->fd, 0);
	if (memory == MAP_FAILED)
		return rf_fail_errno(e, RF_E_FAILED, errno, "no memory for a synthetic guest");
	source.memory = g->memory = memory;
	source.fd = g->fd;
	return rf_block_open(&source, &block, e) || rf_guest_add(g->guest, block, e) ? -1 : 0;
}

static void fill(struct rf_synthetic *g)
{
	uint64_t random = g->spec.seed;

	for (uint64_t i = 0; i < g->spec.memory_bytes / sizeof(*g->memory); i++)
		g->memory[i] = next_random(&random) | 1;
}

static int make_writers(struct rf_synthetic *g, struct rf_error *e)
{
	const struct rf_synthetic_spec *s = &g->spec;

	if (!s->writers)
		return 0;
	g->writers = calloc(s->writers, sizeof(*g->writers));
	if (!g->writers)
		return rf_fail(e, RF_E_FAILED, "no memory for the writers of a synthetic guest");

	uint64_t share = (s->memory_bytes >> RF_PAGE_SHIFT) / s->writers;

	assert(s->working_bytes >= RF_PAGE_BYTES && s->working_bytes >> RF_PAGE_SHIFT <= share);
	for (unsigned i = 0; i < s->writers; i++) {
		g->writers[i] = (struct writer){
		    .guest = g,
		    .first_page = i * share,
		    .pages = s->working_bytes >> RF_PAGE_SHIFT,
		    .random = s->seed + i + 1,
		};
		if (s->bytes_per_second != RF_SYNTHETIC_NO_LIMIT)
			g->writers[i].pages_per_ns = (double)s->bytes_per_second / RF_PAGE_BYTES / s->writers / 1e9;
	}
	return 0;
}

static void init_stop(struct rf_synthetic *g)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->stop, &attributes);
	pthread_condattr_destroy(&attributes);
}

int rf_synthetic_open(const struct rf_synthetic_spec *spec, struct rf_synthetic **out, struct rf_error *e)
{
	struct rf_synthetic *g = calloc(1, sizeof(*g));

	if (!g)
		return rf_fail(e, RF_E_FAILED, "no memory for a synthetic guest");
	g->spec = *spec;
	g->fd = -1;
	if (spec->role == RF_ROLE_DESTINATION || !spec->bytes_per_second)
		g->spec.writers = 0;
	init_stop(g);
	g->guest = rf_guest_create(&lifecycle, g);
	if (!g->guest) {
		rf_fail(e, RF_E_FAILED, "no memory for a synthetic guest");
		goto close;
	}
	g->guest->may_discard = false;
	if (map_memory(g, e) || make_writers(g, e))
		goto close;
	if (spec->role == RF_ROLE_SOURCE)
		fill(g);
	*out = g;
	return 0;
close:
	rf_synthetic_close(g);
	return -1;
}

void rf_synthetic_close(struct rf_synthetic *g)
{
	if (!g)
		return;
	rf_synthetic_stop(g);
	if (g->guest)
		rf_guest_destroy(g->guest);
	if (g->memory)
		munmap(g->memory, g->spec.memory_bytes);
	if (g->fd >= 0)
		close(g->fd);
	pthread_cond_destroy(&g->stop);
	pthread_mutex_destroy(&g->lock);
	free(g->writers);
	free(g);
}

struct rf_guest *rf_synthetic_guest(struct rf_synthetic *g)
{
	return g->guest;
}

struct rf_synthetic_count rf_synthetic_count(const struct rf_synthetic *g)
{
	struct rf_synthetic_count count = {.ran_ns = g->ran_ns};

	for (unsigned i = 0; i < g->spec.writers; i++) {
		count.written_pages += g->writers[i].written_pages;
		count.cpu_ns += g->writers[i].cpu_ns;
	}
	return count;
}

uint64_t rf_synthetic_differences(const struct rf_synthetic *a, const struct rf_synthetic *b)
{
	uint64_t n = 0;

	assert(a->spec.memory_bytes == b->spec.memory_bytes);
	for (uint64_t page = 0; page < a->spec.memory_bytes >> RF_PAGE_SHIFT; page++)
		n += memcmp(&a->memory[page * WORDS_PER_PAGE], &b->memory[page * WORDS_PER_PAGE], RF_PAGE_BYTES) != 0;
	return n;
}
