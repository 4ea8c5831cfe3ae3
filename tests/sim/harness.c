// SPDX-License-Identifier: LGPL-2.1-or-later
/* Telling a story; see harness.h. With VERBOSE in the environment what the engines log is printed with its virtual time. */
#include "harness.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *running_test; /* for the line that replays it */

/* ---- making ---------------------------------------------------------------------------------------------------- */

static void side_begin(struct story *s, struct story_side *side, enum rf_role role)
{
	int i;

	side->story = s;
	rf_versions_spec_init(&side->spec, role, s->seed * 2 + role);
	side->spec.block_pages[0] = 64 * PAGES_PER_MIB;
	rf_options_init(&side->options);
	for (i = 0; i < RF_MSG_TYPES; i++)
		side->sent_ns[i] = side->delivered_ns[i] = -1;
}

void story_begin(struct story *s, uint64_t seed)
{
	memset(s, 0, sizeof(*s));
	s->seed = seed;
	s->faults_cut = true;
	rf_sim_model_init(&s->model);
	s->model.bytes_per_second = 100 * MIB;
	side_begin(s, &s->source, RF_ROLE_SOURCE);
	side_begin(s, &s->destination, RF_ROLE_DESTINATION);
}

void story_writes(struct story *s, uint64_t writes_per_s, uint64_t working_mib)
{
	s->source.spec.load = s->destination.spec.load = RF_VERSIONS_UNIFORM;
	s->source.spec.writes_per_s = s->destination.spec.writes_per_s = writes_per_s;
	s->source.spec.working_pages = s->destination.spec.working_pages = working_mib * PAGES_PER_MIB;
	s->source.spec.zeroing_percent = 5;
}

void story_size(struct story *s, uint64_t mib)
{
	s->source.spec.block_pages[0] = s->destination.spec.block_pages[0] = mib * PAGES_PER_MIB;
}

void story_reads(struct story *s, uint64_t reads_per_s, int64_t longest_ns)
{
	s->source.spec.dma_per_s = reads_per_s;
	s->source.spec.dma_ns = longest_ns;
}

void story_at(struct story *s, int64_t t_ns, void (*fn)(struct story *s))
{
	assert_true(s->nscripts < sizeof(s->scripts) / sizeof(s->scripts[0]));
	s->scripts[s->nscripts].t_ns = t_ns;
	s->scripts[s->nscripts].story = s;
	s->scripts[s->nscripts++].fn = fn;
}

static void cancel(struct story_side *side)
{
	atomic_store(&side->cancelled, true);
	if (!side->ended)
		side->fabric->ops->wake(side->fabric);
}

void cancel_source(struct story *s)
{
	cancel(&s->source);
}

void cancel_destination(struct story *s)
{
	cancel(&s->destination);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------- */

static void spend(void *ctx, int64_t ns)
{
	rf_sim_spend(((struct story *)ctx)->world, ns);
}

static void violate(void *ctx, const char *sentence)
{
	rf_sim_violate(((struct story *)ctx)->world, "%s", sentence);
}

static void on_time(void *arg, int64_t now_ns)
{
	rf_versions_advance(arg, now_ns);
}

static void on_message(void *arg, enum rf_sim_end from, const void *message, size_t length, bool delivered)
{
	struct story *s = arg;
	struct story_side *side = from == RF_SIM_SOURCE ? &s->source : &s->destination;
	uint16_t type = 0;

	if (length >= RF_FRAME_BYTES)
		memcpy(&type, (const char *)message + 4, sizeof(type));
	if (!type || type >= RF_MSG_TYPES) {
		rf_sim_violate(s->world, "a message of %zu bytes and type %u", length, type);
		return;
	}
	if (delivered && side->delivered_ns[type] < 0)
		side->delivered_ns[type] = rf_sim_now(s->world);
	if (delivered)
		return;
	side->sent[type]++;
	if (side->sent_ns[type] < 0)
		side->sent_ns[type] = rf_sim_now(s->world);
}

static void on_progress(void *arg, const struct rf_engine_progress *p)
{
	struct story *s = arg;

	if (s->on_progress)
		s->on_progress(s, p);
}

static void log_line(void *arg, enum rf_log_level level, const char *sentence)
{
	struct story_side *side = arg;

	if (strstr(sentence, "the other side answers")) /* every second */
		return;
	printf("%11.6f %s %s\n", (double)rf_sim_now(side->story->world) / 1e9,
	       side == &side->story->source ? "source     " : "destination", sentence);
}

static void cut(void *arg)
{
	rf_sim_cut(((struct story *)arg)->world);
}

static void run_script(void *arg)
{
	struct story *s = *(struct story **)arg;
	unsigned i;

	for (i = 0; i < s->nscripts; i++)
		if (arg == &s->scripts[i].story)
			s->scripts[i].fn(s);
}

static void sample(void *arg)
{
	struct story *s = arg;

	if (s->source.ended)
		return;
	if (s->nsamples == s->samples_room) {
		s->samples_room = s->samples_room * 2 + 64;
		s->samples = realloc(s->samples, s->samples_room * sizeof(*s->samples));
		if (!s->samples)
			abort();
	}
	s->samples[s->nsamples++] = rf_sim_count(s->world, RF_SIM_SOURCE).written_bytes;
	rf_sim_at(s->world, rf_sim_now(s->world) + 10 * RF_MS, sample, s);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void side_open(struct story *s, struct story_side *side, enum rf_sim_end end)
{
	struct rf_sim_memory memory = {rf_versions_image_size, rf_versions_load_image, rf_versions_store_image, NULL};
	struct rf_fabric_config config = {.lanes = (unsigned)side->options.lanes,
					  .queue_depth = (unsigned)side->options.queue_depth,
					  .workers = (unsigned)side->options.workers,
					  .connect_timeout_ns = (int64_t)side->options.connect_timeout_ns};
	struct rf_fault_spec fault;
	struct rf_error e;

	assert_int_equal(rf_versions_open(&side->spec, &s->guests, &side->guest, NULL), 0);
	memory.ctx = side->guest;
	side->fabric = rf_sim_fabric(s->world, end, &config);
	rf_sim_set_memory(s->world, end, &memory);
	rf_sim_on_time(s->world, on_time, side->guest);
	if (side->fault) {
		if (rf_fault_parse(side->fault, &fault, &e))
			fail_msg("%s", e.text);
		fault.cut = s->faults_cut ? cut : NULL;
		fault.cut_arg = s;
		side->fabric = rf_fault_wrap(side->fabric, &fault);
	}
	assert_non_null(side->fabric);
}

static void side_engine(struct story *s, struct story_side *side, const struct rf_log *log)
{
	side->engine = (struct rf_engine){.fabric = side->fabric,
					  .guest = side->guest->guest,
					  .options = &side->options,
					  .log = log,
					  .stats = &side->stats,
					  .cancelled = &side->cancelled,
					  .name = side == &s->source ? "host-a" : "host-b"};
	side->guest->guest->log = log;
	if (side != &s->source)
		return;
	memcpy(side->engine.id, "a story's number", sizeof(side->engine.id));
	side->engine.progress = on_progress;
	side->engine.progress_arg = s;
}

static void side_over(struct story_side *side)
{
	side->ended = true;
	side->ended_ns = rf_sim_now(side->story->world);
	side->fault_happened = side->fault && rf_fault_happened(side->fabric);
	side->fabric->ops->close(side->fabric);
	rf_engine_free(&side->engine);
}

/* A source that never came by leaves a destination that waits for ever, as its operator wants it to. */
static void source_thread(void *arg)
{
	struct story *s = arg;
	bool connected;

	s->source.ret = rf_source_run(&s->source.engine, &s->source.error);
	connected = s->source.fabric->limits.lanes != 0;
	side_over(&s->source);
	if (!connected)
		cancel_destination(s);
}

static void destination_thread(void *arg)
{
	struct story *s = arg;

	s->destination.ret = rf_destination_run(&s->destination.engine, &s->destination.error);
	side_over(&s->destination);
}

static void check_rules(struct story *s);

void story_run(struct story *s)
{
	struct rf_log source_log = {log_line, &s->source}, destination_log = {log_line, &s->destination};
	bool verbose = getenv("VERBOSE");
	unsigned i;

	assert_int_equal(rf_sim_open(&s->model, s->seed, &s->world, NULL), 0);
	s->guests = (struct rf_versions_world){.spend = spend, .violate = violate, .ctx = s};
	side_open(s, &s->source, RF_SIM_SOURCE);
	side_open(s, &s->destination, RF_SIM_DESTINATION);
	s->destination.guest->origin = s->source.guest;
	side_engine(s, &s->source, verbose ? &source_log : NULL);
	side_engine(s, &s->destination, verbose ? &destination_log : NULL);
	rf_sim_on_message(s->world, on_message, s);
	for (i = 0; i < s->nscripts; i++)
		rf_sim_at(s->world, s->scripts[i].t_ns, run_script, &s->scripts[i].story);
	if (s->sampling)
		rf_sim_at(s->world, 0, sample, s);
	assert_int_equal(s->destination.fabric->ops->listen(s->destination.fabric, NULL, NULL), 0);
	rf_sim_run(s->world, source_thread, s, destination_thread, s);
	if (verbose)
		printf("            source %d \"%s\", destination %d \"%s\"\n", s->source.ret, s->source.error.text,
		       s->destination.ret, s->destination.error.text);
	check_rules(s);
}

void story_end(struct story *s)
{
	rf_sim_close(s->world);
	rf_versions_close(s->source.guest);
	rf_versions_close(s->destination.guest);
	rf_stats_free(&s->source.stats);
	rf_stats_free(&s->destination.stats);
	free(s->samples);
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

void story_check(struct story *s, bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	print_error("replay: VERBOSE=1 TEST=%s SEED=%" PRIu64 " %s\n", running_test, s->seed, program_invocation_name);
	print_error("source %d \"%s\", fault %s; destination %d \"%s\", fault %s; %s\n",
		    s->source.ret ? s->source.error.code : 0, s->source.error.text,
		    s->source.fault ? s->source.fault : "none", s->destination.ret ? s->destination.error.code : 0,
		    s->destination.error.text, s->destination.fault ? s->destination.fault : "none",
		    rf_sim_violation(s->world) ? rf_sim_violation(s->world) : "no rule broken");
	_assert_true(0, what, file, line);
}

bool story_is_stale(const struct story *s)
{
	const char *violation = rf_sim_violation(s->world);

	return violation && strstr(violation, "are not what they were at the pause");
}

static bool happened(const struct story_side *side, enum rf_versions_op op)
{
	return side->guest->successes[op] > 0;
}

/* Of every story, whatever it was about. */
static void check_rules(struct story *s)
{
	struct rf_versions *source = s->source.guest, *destination = s->destination.guest;
	bool unknown = s->source.ret && s->source.error.code == RF_E_UNKNOWN;

	story_assert(s, !rf_sim_violation(s->world) || (s->may_be_stale && story_is_stale(s)));
	story_assert(s, !s->source.ret || (s->source.error.code && s->source.error.text[0]));
	story_assert(s, !s->destination.ret || (s->destination.error.code && s->destination.error.text[0]));
	story_assert(s, !source->tracking);

	/* a source that says it moved has given its guest away, and the destination has it */
	if (!s->source.ret) {
		story_assert(s, !source->running && happened(&s->destination, RF_VERSIONS_RESUME));
		story_assert(s, destination->running == source->ran && destination->resume_run == source->ran);
	}
	/* one that failed has its guest as it was; the destination's never ran and never will */
	if (s->source.ret && !unknown) {
		story_assert(s, source->running == !source->spec.paused || source->spec.fails[RF_VERSIONS_UNDO]);
		story_assert(s, !happened(&s->destination, RF_VERSIONS_RESUME) && !destination->running);
		story_assert(s, !source->calls[RF_VERSIONS_PREPARE] || source->calls[RF_VERSIONS_UNDO] == 1);
		story_assert(s, !source->calls[RF_VERSIONS_FINISH] && s->destination.ret);
	}
	if (unknown && !source->spec.fails[RF_VERSIONS_UNDO]) {
		story_assert(s, !source->running && s->destination.delivered_ns[RF_MSG_READY] >= 0);
		story_assert(s, s->destination.delivered_ns[RF_MSG_RUNNING] < 0 || s->source.fault_happened);
		story_assert(s, !source->calls[RF_VERSIONS_UNDO]);
	}
	story_assert(s, !source->calls[RF_VERSIONS_DISCARD] && !destination->calls[RF_VERSIONS_UNDO]);
	/* a destination that failed after it was touched is discarded, or could not be */
	if (s->destination.ret && destination->calls[RF_VERSIONS_PREPARE])
		story_assert(s, destination->calls[RF_VERSIONS_DISCARD] > 0);
	if (!s->destination.ret)
		story_assert(s,
			     happened(&s->destination, RF_VERSIONS_RESUME) && !destination->calls[RF_VERSIONS_DISCARD]);
}

void story_moved(struct story *s)
{
	story_assert(s, !s->source.ret && !s->destination.ret);
	story_assert(s, s->source.guest->calls[RF_VERSIONS_FINISH] == 1);
	story_assert(s, !s->source.guest->calls[RF_VERSIONS_UNDO]);
}

void story_failed(struct story *s, enum rf_code code, const char *part)
{
	story_assert(s, s->source.ret && s->source.error.code == code);
	story_assert(s, s->destination.ret);
	if (part && !strstr(s->source.error.text, part))
		print_error("expected \"%s\" in what the source says\n", part);
	story_assert(s, !part || strstr(s->source.error.text, part));
}

void story_unknown(struct story *s)
{
	story_assert(s, s->source.ret && s->source.error.code == RF_E_UNKNOWN);
	story_assert(s, !s->source.guest->running);
}

void story_seeds(const char *test, uint64_t first, uint64_t count, void (*tell)(uint64_t seed))
{
	const char *one = getenv("SEED");
	uint64_t seed;

	running_test = test;

	if (one) {
		tell(strtoull(one, NULL, 10));
		return;
	}
	for (seed = first; seed < first + count; seed++)
		tell(seed);
}
