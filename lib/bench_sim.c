// SPDX-License-Identifier: LGPL-2.1-or-later
/* A move in virtual time: two guests of versions, two engines and the simulated fabric between them, in this process.
 *
 * The world is a pure function of model, options, guest and seed, but for rf_cancel(), which comes from outside it. What the
 * model watches (rules of the fabric, pages that do not arrive, two guests that run at once) is an error of the move. */
#include "common/checked.h"
#include "engine/engine.h"
#include "fabric/sim.h"
#include "guests/versions.h"
#include "lib/bench.h"

#include <stdio.h>
#include <string.h>

struct end {
	struct simulation *simulation;
	struct rf_options options;
	struct rf_versions *guest;
	struct rf_fabric *fabric;
	struct rf_engine engine;
	struct rf_stats own_stats; /* of the destination */
	atomic_bool own_cancelled;
	int failed;
	struct rf_error error;
};

struct simulation {
	rf_migration *m;
	struct rf_sim *world;
	struct rf_versions_world guests;
	struct end source, destination;
};

static void spend(void *ctx, int64_t ns)
{
	rf_sim_spend(((struct simulation *)ctx)->world, ns);
}

static void violate(void *ctx, const char *sentence)
{
	rf_sim_violate(((struct simulation *)ctx)->world, "%s", sentence);
}

static void on_time(void *arg, int64_t now_ns)
{
	rf_versions_advance(arg, now_ns);
}

/* ---- both sides ----------------------------------------------------------------------------------------------------- */

static int open_guest(struct end *end, const rf_bench_guest *guest, enum rf_role role, struct rf_error *e)
{
	struct rf_versions_spec spec;

	rf_versions_spec_init(&spec, role, guest->seed);
	spec.nblocks = 1;
	spec.block_pages[0] = guest->memory_bytes >> RF_PAGE_SHIFT;
	spec.data_percent = role == RF_ROLE_SOURCE ? 100 : 0;
	spec.zero_percent = 0;
	spec.never_discards = true;
	/* Nothing writes at the destination, so that memory can be compared afterwards. */
	if (role == RF_ROLE_SOURCE && guest->writers && guest->bytes_per_second) {
		spec.load = guest->pattern == RF_BENCH_SWEEP ? RF_VERSIONS_SWEEP : RF_VERSIONS_UNIFORM;
		spec.working_pages = guest->working_bytes / RF_PAGE_BYTES * guest->writers;
		spec.writes_per_s = guest->bytes_per_second >> RF_PAGE_SHIFT;
	}
	return rf_versions_open(&spec, &end->simulation->guests, &end->guest, e);
}

static int open_end(struct end *end, const rf_bench_guest *guest, enum rf_sim_end side, struct rf_error *e)
{
	struct simulation *s = end->simulation;
	struct rf_sim_memory memory = {rf_versions_image_size, rf_versions_load_image, rf_versions_store_image, NULL};
	const struct rf_options *o = &s->m->options;
	struct rf_fabric_config config = {
	    .lanes = (unsigned)o->lanes,
	    .queue_depth = (unsigned)o->queue_depth,
	    .workers = (unsigned)o->workers,
	    .connect_timeout_ns = (int64_t)o->connect_timeout_ns,
	    .max_write_bytes = (uint32_t)o->max_write_bytes,
	    .signal_interval = (unsigned)o->signal_interval,
	    .log = &s->m->log,
	};

	end->options = *o;
	if (open_guest(end, guest, side == RF_SIM_SOURCE ? RF_ROLE_SOURCE : RF_ROLE_DESTINATION, e))
		return -1;
	memory.ctx = end->guest;
	end->fabric = rf_sim_fabric(s->world, side, &config);
	rf_sim_set_memory(s->world, side, &memory);
	rf_sim_on_time(s->world, on_time, end->guest);
	end->guest->guest->log = side == RF_SIM_SOURCE ? &s->m->log : NULL;
	end->engine = (struct rf_engine){
	    .fabric = end->fabric,
	    .guest = end->guest->guest,
	    .options = &end->options,
	    .log = side == RF_SIM_SOURCE ? &s->m->log : NULL,
	    .stats = side == RF_SIM_SOURCE ? &s->m->stats : &end->own_stats,
	    .cancelled = side == RF_SIM_SOURCE ? &s->m->cancelled : &end->own_cancelled,
	    .name = side == RF_SIM_SOURCE ? "the simulated source" : "the simulated destination",
	};
	if (side != RF_SIM_SOURCE)
		return 0;
	end->engine.progress = rf_migration_tell_progress;
	end->engine.progress_arg = s->m;
	memcpy(end->engine.id, "a simulated move", sizeof end->engine.id);
	return 0;
}

static void close_fabric(struct end *end)
{
	if (end->fabric)
		end->fabric->ops->close(end->fabric);
	end->fabric = NULL;
	rf_engine_free(&end->engine);
}

static void run_source(void *arg)
{
	struct simulation *s = arg;
	bool connected;

	s->source.failed = rf_source_run(&s->source.engine, &s->source.error);
	connected = s->source.fabric->limits.lanes != 0;
	rf_migration_withdraw(s->m);
	close_fabric(&s->source);
	if (connected)
		return;
	/* Nobody will call the other side any more. */
	atomic_store(&s->destination.own_cancelled, true);
	if (s->destination.fabric)
		s->destination.fabric->ops->wake(s->destination.fabric);
}

static void run_destination(void *arg)
{
	struct simulation *s = arg;

	s->destination.failed = rf_destination_run(&s->destination.engine, &s->destination.error);
	close_fabric(&s->destination);
}

/* Until the fabric has profiles of its own there is the model that its tests use. */
static int model_of(const char *profile, struct rf_sim_model *model, struct rf_error *e)
{
	if (strcmp(profile, "default"))
		return rf_fail(e, RF_E_USAGE, "there is no profile \"%.60s\"", profile);
	rf_sim_model_init(model);
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

static int judge(struct simulation *s, struct rf_error *e)
{
	char where[200] = "";
	uint64_t n;

	if (rf_sim_violation(s->world))
		return rf_fail(e, RF_E_FAILED, "the simulation broke a rule: %s", rf_sim_violation(s->world));
	if (s->source.failed) {
		*e = s->source.error;
		return -1;
	}
	if (s->destination.failed)
		return rf_fail(e, RF_E_FAILED, "the receiver: %s", s->destination.error.text);
	n = rf_versions_differences(s->destination.guest, where, sizeof where);
	return n ? rf_fail(e, RF_E_FAILED, "%llu pages at the destination differ from the source's: %s",
			   (unsigned long long)n, where)
		 : 0;
}

static int run_world(struct simulation *s, const rf_bench_guest *guest, rf_bench_outcome *outcome, struct rf_error *e)
{
	uint64_t written;

	if (open_end(&s->source, guest, RF_SIM_SOURCE, e) || open_end(&s->destination, guest, RF_SIM_DESTINATION, e) ||
	    s->destination.fabric->ops->listen(s->destination.fabric, NULL, e)) {
		close_fabric(&s->source);
		close_fabric(&s->destination);
		return -1;
	}
	s->destination.guest->origin = s->source.guest;
	written = s->source.guest->writes;
	rf_migration_publish(s->m, s->source.fabric);
	rf_sim_run(s->world, run_source, s, run_destination, s);
	outcome->written_bytes = (s->source.guest->writes - written) << RF_PAGE_SHIFT;
	outcome->ran_ns = (uint64_t)(s->source.guest->paused_ns - s->source.guest->started_ns);
	return judge(s, e);
}

int rf_bench_simulate(rf_migration *m, const rf_bench_guest *guest, const char *profile, rf_bench_outcome *outcome,
		      struct rf_error *e)
{
	struct simulation s = {.m = m, .guests = {.spend = spend, .violate = violate, .ctx = &s}};
	struct rf_sim_model model;
	int failed = -1;

	s.source.simulation = s.destination.simulation = &s;
	outcome->virtual_time = 1;
	if (guest->bytes_per_second == RF_BENCH_NO_LIMIT && guest->writers)
		return rf_fail(e, RF_E_USAGE, "a guest of a simulation writes at a rate, not as fast as it can");
	if (model_of(profile, &model, e) || rf_sim_open(&model, guest->seed, &s.world, e))
		return -1;
	m->used = true;

	int64_t began_ns = rf_bench_now_ns(), cpu_ns = rf_bench_cpu_ns();

	failed = run_world(&s, guest, outcome, e);
	outcome->real_ns = (uint64_t)(rf_bench_now_ns() - began_ns);
	outcome->cpu_ns = (uint64_t)(rf_bench_cpu_ns() - cpu_ns);
	rf_sim_close(s.world);
	rf_versions_close(s.source.guest);
	rf_versions_close(s.destination.guest);
	rf_stats_free(&s.destination.own_stats);
	return failed;
}
