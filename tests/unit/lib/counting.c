// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/lib/counting.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *count(void *arg)
{
	struct counting *c = arg;

	/* A burst, then a rest: much slower than loopback, or the move would not come to its end. */
	while (atomic_load(&c->running)) {
		for (int i = 0; i < 8; i++) {
			++c->memory[c->total * 2654435761u % COUNTING_PAGES][i];
			__atomic_store_n(&c->total, c->total + 1, __ATOMIC_RELAXED);
		}
		nap();
	}
	return NULL;
}

void counting_run(struct counting *c)
{
	if (!atomic_exchange(&c->running, 1))
		assert(!pthread_create(&c->thread, NULL, count, c));
}

void counting_stop(struct counting *c)
{
	if (atomic_exchange(&c->running, 0))
		pthread_join(c->thread, NULL);
}

/* Put the callback into the story; does it fail? */
static int step(struct counting *c, const char *name, char *why, size_t why_length)
{
	pthread_mutex_lock(&c->lock);
	if (c->story[0])
		strncat(c->story, " ", sizeof(c->story) - strlen(c->story) - 1);
	strncat(c->story, name, sizeof(c->story) - strlen(c->story) - 1);
	pthread_mutex_unlock(&c->lock);
	if (!c->fails || strcmp(c->fails, name))
		return 0;
	snprintf(why, why_length, "no %s today", name);
	return -1;
}

static int on_facts(void *ctx, char *text, size_t length, char *why, size_t why_length)
{
	struct counting *c = ctx;

	/* Not in order: that is the library's work. */
	snprintf(text, length, "pages=%d\nkind=%s", COUNTING_PAGES, c->fact ? c->fact : "counting");
	return step(c, "facts", why, why_length);
}

static int on_prepare(void *ctx, int destination, char *why, size_t why_length)
{
	struct counting *c = ctx;

	assert(destination == c->receives);
	return step(c, "prepare", why, why_length);
}

static int on_drain(void *ctx, char *why, size_t why_length)
{
	struct counting *c = ctx;

	counting_stop(c);
	if (step(c, "drain", why, why_length))
		return -1;
	counting_run(c);
	return 0;
}

static int on_pause(void *ctx, int *was_running, char *why, size_t why_length)
{
	struct counting *c = ctx;

	*was_running = atomic_load(&c->running);
	counting_stop(c);
	return step(c, "pause", why, why_length);
}

static int on_save(void *ctx, int (*write)(void *sink, const void *data, size_t length), void *sink, char *why,
		   size_t why_length)
{
	struct counting *c = ctx;

	/* In two pieces. */
	if (write(sink, &c->total, 3) || write(sink, (char *)&c->total + 3, sizeof(c->total) - 3))
		return -1;
	return step(c, "save", why, why_length);
}

static int on_load(void *ctx, const void *state, size_t length, char *why, size_t why_length)
{
	struct counting *c = ctx;

	if (length != sizeof(c->total)) {
		snprintf(why, why_length, "%zu bytes of state", length);
		return -1;
	}
	memcpy(&c->total, state, length);
	c->loaded = c->total;
	if (counting_sum(c) != c->total) {
		snprintf(why, why_length, "memory and state do not fit");
		return -1;
	}
	return step(c, "load", why, why_length);
}

static int on_resume(void *ctx, int run, char *why, size_t why_length)
{
	struct counting *c = ctx;

	if (step(c, run ? "resume" : "stay-paused", why, why_length))
		return -1;
	if (run)
		counting_run(c);
	return 0;
}

static int on_undo(void *ctx, char *why, size_t why_length)
{
	counting_run(ctx);
	return step(ctx, "undo", why, why_length);
}

static int on_discard(void *ctx, char *why, size_t why_length)
{
	return step(ctx, "discard", why, why_length);
}

static int on_finish(void *ctx, char *why, size_t why_length)
{
	return step(ctx, "finish", why, why_length);
}

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	struct counting *c = arg;
	static const char listening[] = "listening at ";

	if (!c->receives || strncmp(sentence, listening, sizeof(listening) - 1))
		return;
	snprintf(c->uri, sizeof(c->uri), "%s", sentence + sizeof(listening) - 1);
	atomic_store(&c->listening, 1);
}

static void on_progress(void *arg, const rf_progress *progress)
{
	struct counting *c = arg;

	assert(progress->size == sizeof(*progress));
	atomic_store(&c->phase, (int)progress->phase);
	if (c->cancels && progress->phase == c->cancel_in)
		rf_cancel(c->m);
}

static void open_with(struct counting *c, bool receives, bool drains)
{
	const rf_guest_ops ops = {
	    .size = sizeof(ops),
	    .facts = on_facts,
	    .prepare = on_prepare,
	    .pause = on_pause,
	    .save = on_save,
	    .load = on_load,
	    .resume = on_resume,
	    .undo = on_undo,
	    .discard = on_discard,
	    .finish = on_finish,
	    .drain = drains ? on_drain : NULL,
	};
	size_t length = COUNTING_PAGES * sizeof(*c->memory);

	*c = (struct counting){.fd = memfd_create("counting", MFD_CLOEXEC), .receives = receives};
	pthread_mutex_init(&c->lock, NULL);
	assert(!ftruncate(c->fd, (off_t)length));
	c->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	assert(c->memory != MAP_FAILED);
	c->guest = rf_guest_new(&ops, c);
	assert(rf_guest_add_block(c->guest, "memory", c->memory, length, c->fd, 0, NULL, 0) == RF_OK);
	assert(rf_guest_set_discarder(c->guest, NULL) == RF_OK);
	c->m = rf_migration_new(c->guest);
	rf_on_log(c->m, on_log, c);
	rf_on_progress(c->m, on_progress, c);
}

void counting_open(struct counting *c, bool receives)
{
	open_with(c, receives, false);
}

void counting_open_with_direct_io(struct counting *c)
{
	open_with(c, false, true);
}

void counting_close(struct counting *c)
{
	counting_stop(c);
	rf_migration_free(c->m);
	rf_guest_free(c->guest);
	munmap(c->memory, COUNTING_PAGES * sizeof(*c->memory));
	close(c->fd);
	pthread_mutex_destroy(&c->lock);
}

uint64_t counting_sum(const struct counting *c)
{
	uint64_t sum = 0;

	for (size_t page = 0; page < COUNTING_PAGES; page++)
		for (size_t i = 0; i < 512; i++)
			sum += c->memory[page][i];
	return sum;
}

bool counting_goes_on(struct counting *c)
{
	uint64_t before = __atomic_load_n(&c->total, __ATOMIC_RELAXED);

	for (int i = 0; i < 5000 && atomic_load(&c->running); i++) {
		if (__atomic_load_n(&c->total, __ATOMIC_RELAXED) > before)
			return true;
		nap();
	}
	return false;
}

static void *move(void *arg)
{
	struct counting *c = arg;

	c->result = c->receives ? rf_receive(c->m, c->uri) : rf_send(c->m, c->uri);
	snprintf(c->error, sizeof(c->error), "%s", c->result == RF_OK ? "" : rf_error(c->m));
	atomic_store(&c->listening, -1);
	return NULL;
}

void counting_start(struct counting *c, const char *uri)
{
	snprintf(c->uri, sizeof(c->uri), "%s", uri);
	assert(!pthread_create(&c->mover, NULL, move, c));
	while (c->receives && !atomic_load(&c->listening))
		nap();
}

void counting_join(struct counting *c)
{
	pthread_join(c->mover, NULL);
}
