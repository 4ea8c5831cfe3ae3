// SPDX-License-Identifier: LGPL-2.1-or-later
/* rf_bench_move() and its like: a move of a synthetic guest, by the same rf_send() and rf_receive() that move real ones.
 *
 * With both sides in this process the receiver has a thread and a migration of its own, with the caller's options; it tells
 * its address when it listens. It ends when the source is done with it: a source that never came by cancels it. */
#include "lib/bench.h"

#include "common/checked.h"
#include "common/sizes.h"
#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct receiver {
	rf_migration *m;
	const char *uri;
	rf_migration *source; /* whose log gets its warnings */
	pthread_mutex_t lock;
	pthread_cond_t news;
	char address[128]; /* where it listens; "": it does not yet */
	bool ended;
	rf_result result;
	pthread_t thread;
};

static void on_listening(void *arg, const char *address)
{
	struct receiver *r = arg;

	pthread_mutex_lock(&r->lock);
	snprintf(r->address, sizeof r->address, "%s", address);
	pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
}

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	struct receiver *r = arg;

	rf_log(&r->source->log, severity == RF_WARNING ? RF_LOG_WARNING : RF_LOG_DEBUG, "receiver: %s", sentence);
}

static void *receive(void *arg)
{
	struct receiver *r = arg;
	rf_result result = rf_receive(r->m, r->uri);

	pthread_mutex_lock(&r->lock);
	r->ended = true;
	r->result = result;
	pthread_cond_signal(&r->news);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* It listens, or has failed to. */
static int start_receiver(struct receiver *r, struct rf_error *e)
{
	int error = rf_thread_start(&r->thread, "rf-receiver", receive, r);

	if (error)
		return rf_fail_errno(e, RF_E_FAILED, error, "cannot start a receiver");
	pthread_mutex_lock(&r->lock);
	while (!r->address[0] && !r->ended)
		pthread_cond_wait(&r->news, &r->lock);
	pthread_mutex_unlock(&r->lock);
	if (r->address[0])
		return 0;
	pthread_join(r->thread, NULL);
	return rf_fail(e, (enum rf_code)r->result, "the receiver: %s", rf_error(r->m));
}

static int end_receiver(struct receiver *r, rf_result sent, struct rf_error *e)
{
	/* Nobody will call it any more. Where the guest may be there, the engine knows better. */
	if (sent != RF_OK)
		rf_cancel(r->m);
	pthread_join(r->thread, NULL);
	if (sent == RF_OK && r->result != RF_OK)
		return rf_fail(e, RF_E_FAILED, "the receiver: %s", rf_error(r->m));
	return 0;
}

/* Both sides by the caller's options; of the source what it sent and got. */
static int move(rf_migration *m, const char *uri, struct rf_guest *source, struct rf_guest *destination,
		struct rf_error *e)
{
	struct receiver r = {.uri = uri, .source = m, .m = rf_migration_new(destination)};
	int failed = -1;

	if (!r.m)
		return rf_fail(e, RF_E_FAILED, "no memory");
	r.m->options = m->options;
	r.m->listening_fn = on_listening;
	r.m->listening_arg = &r;
	rf_on_log(r.m, on_log, &r);
	pthread_mutex_init(&r.lock, NULL);
	pthread_cond_init(&r.news, NULL);
	if (start_receiver(&r, e))
		goto free;
	m->guest = source;

	rf_result sent = rf_send(m, r.address);

	m->guest = NULL;
	if (sent != RF_OK)
		*e = m->error;
	failed = end_receiver(&r, sent, e) || sent != RF_OK;
free:
	m->used = true; /* whatever happened */
	pthread_cond_destroy(&r.news);
	pthread_mutex_destroy(&r.lock);
	rf_migration_free(r.m);
	return failed ? -1 : 0;
}

static int compare(const struct rf_synthetic *source, const struct rf_synthetic *destination, struct rf_error *e)
{
	uint64_t n = rf_synthetic_differences(source, destination);

	return n ? rf_fail(e, RF_E_FAILED, "%llu pages at the destination differ from the source's",
			   (unsigned long long)n)
		 : 0;
}

struct stopwatch {
	int64_t began_ns, cpu_ns;
};

static struct stopwatch start_stopwatch(void)
{
	return (struct stopwatch){rf_bench_now_ns(), rf_bench_cpu_ns()};
}

/* `g` may be NULL. */
static void stop_stopwatch(const struct stopwatch *s, rf_bench_outcome *outcome)
{
	outcome->real_ns = (uint64_t)(rf_bench_now_ns() - s->began_ns);
	outcome->cpu_ns = (uint64_t)(rf_bench_cpu_ns() - s->cpu_ns);
}

static void count_writers(struct rf_synthetic *g, rf_bench_outcome *outcome)
{
	rf_synthetic_stop(g);

	struct rf_synthetic_count count = rf_synthetic_count(g);

	outcome->written_bytes = count.written_pages << RF_PAGE_SHIFT;
	outcome->ran_ns = (uint64_t)count.ran_ns;
	outcome->cpu_ns -= rf_min_u64(outcome->cpu_ns, (uint64_t)count.cpu_ns);
}

static int move_real(rf_migration *m, const rf_bench_guest *guest, const char *uri, rf_bench_outcome *outcome,
		     struct rf_error *e)
{
	struct rf_synthetic *source, *destination;
	int failed = -1;

	if (rf_bench_check_memory(guest, 2, e) || rf_bench_open_guest(guest, RF_ROLE_SOURCE, &source, e))
		return -1;
	if (rf_bench_open_guest(guest, RF_ROLE_DESTINATION, &destination, e))
		goto close_source;

	struct stopwatch watch = start_stopwatch();

	if (rf_synthetic_start(source, e))
		goto close_destination;
	failed = move(m, uri, rf_synthetic_guest(source), rf_synthetic_guest(destination), e);
	stop_stopwatch(&watch, outcome);
	count_writers(source, outcome);
	if (!failed)
		failed = compare(source, destination, e);
close_destination:
	rf_synthetic_close(destination);
close_source:
	rf_synthetic_close(source);
	return failed;
}

static int move_one_side(rf_migration *m, const rf_bench_guest *guest, const char *uri, enum rf_role role,
			 rf_bench_outcome *outcome, struct rf_error *e)
{
	struct rf_synthetic *g;
	int failed = -1;

	if (rf_bench_check_memory(guest, 1, e) || rf_bench_open_guest(guest, role, &g, e))
		return -1;

	struct stopwatch watch = start_stopwatch();

	if (role == RF_ROLE_SOURCE && rf_synthetic_start(g, e))
		goto close;
	m->guest = rf_synthetic_guest(g);
	failed = (role == RF_ROLE_SOURCE ? rf_send(m, uri) : rf_receive(m, uri)) != RF_OK;
	m->guest = NULL;
	if (failed)
		*e = m->error;
	stop_stopwatch(&watch, outcome);
	count_writers(g, outcome);
close:
	rf_synthetic_close(g);
	return failed ? -1 : 0;
}

enum ends { BOTH_ENDS, SENDING_END, RECEIVING_END };

static int run(rf_migration *m, const rf_bench_guest *guest, const char *uri, enum ends ends, rf_bench_outcome *outcome,
	       struct rf_error *e)
{
	enum rf_role role = ends == SENDING_END ? RF_ROLE_SOURCE : RF_ROLE_DESTINATION;
	const struct rf_fabric_ops *fabric;
	struct rf_uri parsed;

	if (m->guest || m->used)
		return rf_fail(
		    e, RF_E_USAGE,
		    "a move is measured by a migration of its own, made without a guest and not used before");
	if (rf_bench_check_guest(guest, e))
		return -1;
	if (uri && !strncmp(uri, "sim:", 4)) {
		if (ends != BOTH_ENDS)
			return rf_fail(e, RF_E_USAGE, "a simulation has both of its sides in one process");
		return rf_bench_simulate(m, guest, uri + 4, outcome, e);
	}
	if (rf_migration_check_uri(uri, role, &parsed, &fabric, e))
		return -1;
	if (ends == BOTH_ENDS)
		return move_real(m, guest, uri, outcome, e);
	return move_one_side(m, guest, uri, role, outcome, e);
}

static rf_result measure(rf_migration *m, const rf_bench_guest *guest, const char *uri, enum ends ends,
			 rf_bench_outcome *outcome)
{
	rf_bench_outcome unwanted;
	struct rf_error e = {0};

	if (!m)
		return RF_USAGE;
	if (!outcome)
		outcome = &unwanted;
	*outcome = (rf_bench_outcome){.size = sizeof *outcome};
	return run(m, guest, uri, ends, outcome, &e) ? rf_migration_failed(m, &e) : RF_OK;
}

RF_API rf_result rf_bench_move(rf_migration *m, const rf_bench_guest *guest, const char *uri, rf_bench_outcome *outcome)
{
	return measure(m, guest, uri, BOTH_ENDS, outcome);
}

RF_API rf_result rf_bench_send(rf_migration *m, const rf_bench_guest *guest, const char *uri, rf_bench_outcome *outcome)
{
	return measure(m, guest, uri, SENDING_END, outcome);
}

RF_API rf_result rf_bench_receive(rf_migration *m, const rf_bench_guest *guest, const char *uri,
				  rf_bench_outcome *outcome)
{
	return measure(m, guest, uri, RECEIVING_END, outcome);
}

/* ---- numbers as people write them -------------------------------------------------------------------------------- */

RF_API rf_result rf_parse_value(const char *kind, const char *text, uint64_t *value, char *why, size_t why_length)
{
	static const struct {
		const char *kind;
		int (*parse)(const char *text, uint64_t *value, struct rf_error *e);
	} kinds[] = {
	    {"size", rf_parse_size},
	    {"rate", rf_parse_rate},
	    {"duration", rf_parse_duration},
	    {"count", rf_parse_count},
	};
	struct rf_error e = {0};
	uint64_t parsed = 0;

	rf_fail(&e, RF_E_USAGE, "there is no such kind of value");
	for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kinds[i].kind, kind))
			continue;
		rf_error_clear(&e);
		if (!text)
			rf_fail(&e, RF_E_USAGE, "no value was given");
		else
			kinds[i].parse(text, &parsed, &e);
	}
	if (!e.code && value)
		*value = parsed;
	if (e.code && why && why_length)
		snprintf(why, why_length, "%s", e.text);
	return (rf_result)e.code;
}
