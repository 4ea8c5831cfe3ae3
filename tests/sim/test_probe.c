// SPDX-License-Identifier: LGPL-2.1-or-later
/* A prober and a destination on a virtual clock: what it measures is what the wire is, and whatever happens on the way the
 * destination's guest is not touched and waits on. */
#include "engine/probe.h"
#include "fabric/sim.h"
#include "tests/sim/harness.h"

#include <inttypes.h>
#include <string.h>

struct world {
	struct rf_sim_model model;
	struct rf_sim *sim;
	struct rf_versions_world guests;
	struct rf_versions *guest; /* the destination's */
	struct rf_options options[2];
	struct rf_stats stats[2];
	struct rf_engine engine[2];
	atomic_bool cancelled[2];
	struct rf_error error[2];
	int result[2];
	struct rf_probe_result measured;
};

enum { PROBER, DESTINATION };

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	rf_sim_model_init(&w->model);
	w->model.bytes_per_second = 100 * MIB;
	w->model.delay_ns = RF_MS;
	w->model.overlaps = true;
	w->model.jitter_ns = w->model.lane_skew_ns = 0;
}

static void side_end(struct world *w, int side)
{
	struct rf_fabric *f = w->engine[side].fabric;

	f->ops->close(f);
	rf_engine_free(&w->engine[side]);
	rf_stats_free(&w->stats[side]);
}

static void run_prober(void *arg)
{
	struct world *w = arg;

	w->result[PROBER] = rf_probe_run(&w->engine[PROBER], &w->measured, &w->error[PROBER]);
	side_end(w, PROBER);
}

static void run_destination(void *arg)
{
	struct world *w = arg;

	w->result[DESTINATION] = rf_destination_run(&w->engine[DESTINATION], &w->error[DESTINATION]);
	side_end(w, DESTINATION);
}

static void spend(void *ctx, int64_t ns)
{
	rf_sim_spend(((struct world *)ctx)->sim, ns);
}

static void violate(void *ctx, const char *sentence)
{
	rf_sim_violate(((struct world *)ctx)->sim, "%s", sentence);
}

static void cut(void *arg)
{
	rf_sim_cut(((struct world *)arg)->sim);
}

static void cancel_destination_now(void *arg)
{
	struct world *w = arg;

	atomic_store(&w->cancelled[DESTINATION], true);
	w->engine[DESTINATION].fabric->ops->wake(w->engine[DESTINATION].fabric);
}

/* `happens` at that time, if it is not NULL. */
static void run(struct world *w, uint64_t seed, int64_t at_ns, void (*happens)(void *))
{
	static const char *const names[] = {"a doctor", "a receiver"};
	struct rf_versions_spec spec;
	struct rf_fabric_config config = {.connect_timeout_ns = RF_S};

	assert_int_equal(rf_sim_open(&w->model, seed, &w->sim, NULL), 0);
	w->guests = (struct rf_versions_world){.spend = spend, .violate = violate, .ctx = w};
	rf_versions_spec_init(&spec, RF_ROLE_DESTINATION, seed);
	assert_int_equal(rf_versions_open(&spec, &w->guests, &w->guest, NULL), 0);
	for (int side = 0; side < 2; side++) {
		rf_options_init(&w->options[side]);
		w->engine[side] = (struct rf_engine){
		    .fabric = rf_sim_fabric(w->sim, side == PROBER ? RF_SIM_SOURCE : RF_SIM_DESTINATION, &config),
		    .guest = side == PROBER ? NULL : w->guest->guest,
		    .options = &w->options[side],
		    .stats = &w->stats[side],
		    .cancelled = &w->cancelled[side],
		    .name = names[side],
		};
	}
	if (happens)
		rf_sim_at(w->sim, at_ns, happens, w);
	struct rf_fabric *f = w->engine[DESTINATION].fabric;

	assert_int_equal(f->ops->listen(f, NULL, NULL), 0);
	rf_sim_run(w->sim, run_prober, w, run_destination, w);
	if (rf_sim_violation(w->sim))
		fail_msg("seed %" PRIu64 ": %s", seed, rf_sim_violation(w->sim));
	for (int op = RF_VERSIONS_PREPARE; op < RF_VERSIONS_OPS; op++)
		assert_int_equal(w->guest->calls[op], 0);
	assert_int_equal(w->result[DESTINATION], -1);
}

static void end(struct world *w)
{
	rf_versions_close(w->guest);
	rf_sim_close(w->sim);
}

static void assert_near(uint64_t value, uint64_t expected, unsigned percent)
{
	assert_in_range(value, expected - expected / 100 * percent, expected + expected / 100 * percent);
}

static void test_measures_the_wire(void **state)
{
	for (uint64_t seed = 0; seed < 24; seed++) {
		struct world w;

		begin(&w);
		w.model.lanes = 1 + seed % 4;
		w.model.local_keys = seed / 4 % 2;
		w.model.bytes_per_second = (seed % 3 ? 100 : 1000) * MIB;
		run(&w, seed, 0, NULL);
		assert_int_equal(w.result[PROBER], 0);
		assert_true(w.engine[DESTINATION].probed);
		assert_int_equal(w.measured.lanes, w.model.lanes);
		assert_near((uint64_t)w.measured.round_trip_ns, 2 * RF_MS, 15);
		assert_near(w.measured.bytes_per_second, w.model.bytes_per_second, 15);
		assert_true(w.measured.register_ns >= 2 * RF_MS && w.measured.connect_ns >= 0);
		assert_true(rf_sim_now(w.sim) < 3 * RF_S);
		end(&w);
	}
}

/* A wire of 100 KB/s with a tenth of a second each way: one pass has to be enough. */
static void test_slow_wire(void **state)
{
	struct world w;

	begin(&w);
	w.model.bytes_per_second = 100000;
	w.model.delay_ns = 100 * RF_MS;
	run(&w, 1, 0, NULL);
	assert_int_equal(w.result[PROBER], 0);
	assert_true(w.engine[DESTINATION].probed);
	assert_near(w.measured.bytes_per_second, w.model.bytes_per_second, 20);
	assert_true(rf_sim_now(w.sim) < 12 * RF_S);
	end(&w);
}

static void test_cut_anywhere(void **state)
{
	unsigned probed = 0;

	for (int64_t at_ns = RF_MS / 2; at_ns < 400 * RF_MS; at_ns += at_ns < 10 * RF_MS ? RF_MS / 2 : 10 * RF_MS) {
		struct world w;

		begin(&w);
		run(&w, 1, at_ns, cut);
		assert_int_equal(w.result[PROBER], -1);
		assert_true(w.error[PROBER].text[0]);
		probed += w.engine[DESTINATION].probed;
		end(&w);
	}
	assert_true(probed > 20);
}

static void test_destination_is_cancelled(void **state)
{
	struct world w;

	begin(&w);
	run(&w, 1, 100 * RF_MS, cancel_destination_now);
	assert_false(w.engine[DESTINATION].probed);
	assert_int_equal(w.error[DESTINATION].code, RF_E_CANCELLED);
	assert_int_equal(w.result[PROBER], -1);
	assert_non_null(strstr(w.error[PROBER].text, "cancelled"));
	end(&w);
}

/* A destination that may pin next to nothing says so, and waits on. */
static void test_nothing_can_be_registered(void **state)
{
	struct world w;

	begin(&w);
	w.model.pinnable_bytes[RF_SIM_DESTINATION] = MIB;
	run(&w, 1, 0, NULL);
	assert_int_equal(w.result[PROBER], -1);
	assert_non_null(strstr(w.error[PROBER].text, "cannot register 4 MiB"));
	assert_true(w.engine[DESTINATION].probed);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_measures_the_wire),
	    cmocka_unit_test(test_slow_wire),
	    cmocka_unit_test(test_cut_anywhere),
	    cmocka_unit_test(test_destination_is_cancelled),
	    cmocka_unit_test(test_nothing_can_be_registered),
	};

	return run_stories("probe", tests);
}
