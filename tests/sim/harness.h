// SPDX-License-Identifier: LGPL-2.1-or-later
/* A story: two guests of versions, two engines and a simulated fabric between them, on a virtual clock.
 *
 *     struct story s;
 *     story_begin(&s, seed);                       // then change what shall be different in this one
 *     s.source.fault = "drop-message=1@18";
 *     story_at(&s, 300 * RF_MS, cancel_source);
 *     story_run(&s);                               // and what must hold in every story is asserted
 *     story_moved(&s);                             // or story_failed(), story_unknown()
 *     story_end(&s);
 *
 * In every story: no rule of the fabric is broken; never do two guests run; memory and state are complete when they are
 * loaded; a source that failed has its guest as it was and tracks nothing; an unknown outcome has its reason in a COMMIT
 * or an answer that was lost. A story that fails prints one line that replays it. */
#ifndef RAMFERRY_TESTS_SIM_HARNESS_H
#define RAMFERRY_TESTS_SIM_HARNESS_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "engine/engine.h"
#include "engine/wire.h"
#include "fabric/fault.h"
#include "fabric/sim.h"
#include "guests/versions.h"

#include <stdlib.h>

#define MIB           (UINT64_C(1) << 20)
#define PAGES_PER_MIB 256

struct story;

struct story_side {
	/* before story_run() */
	struct rf_versions_spec spec;
	struct rf_options options;
	const char *fault; /* as rf_fault_parse() takes it, or NULL */

	/* while it runs, and after it */
	struct story *story;
	struct rf_versions *guest;
	struct rf_fabric *fabric;
	struct rf_engine engine;
	struct rf_stats stats;
	atomic_bool cancelled;
	bool ended, fault_happened;
	int ret;
	struct rf_error error;
	int64_t ended_ns;
	int64_t sent_ns[RF_MSG_TYPES], delivered_ns[RF_MSG_TYPES]; /* the first of each type from this side; -1: none */
	unsigned sent[RF_MSG_TYPES];
};

struct story {
	uint64_t seed;
	struct rf_sim_model model;
	struct story_side source, destination;
	bool may_be_stale; /* a bug is planted, and whether memory arrives whole is what is asked */
	bool faults_cut; /* what a fault loses is lost for both sides at once; otherwise one of them has to notice */

	/* Called with every progress report of the source. */
	void (*on_progress)(struct story *s, const struct rf_engine_progress *p);

	struct rf_sim *world;
	struct rf_versions_world guests;
	uint64_t *samples; /* bytes written by the source every 10 ms */
	size_t nsamples, samples_room;
	bool sampling;
	struct {
		int64_t t_ns;
		void (*fn)(struct story *s);
		struct story *story;
	} scripts[4];
	unsigned nscripts;
};

/* A guest of 64 MiB, three quarters of it data, that does not write; 100 MiB/s; so it moves in half a second. */
void story_begin(struct story *s, uint64_t seed);
void story_writes(struct story *s, uint64_t writes_per_s, uint64_t working_mib);
void story_size(struct story *s, uint64_t mib);
void story_reads(struct story *s, uint64_t reads_per_s, int64_t longest_ns); /* direct I/O into any of its pages */
void story_at(struct story *s, int64_t t_ns, void (*fn)(struct story *s));

void story_run(struct story *s);

/* What came of it. Each asserts what must be so on both sides. `part` is a part of the sentence, or NULL. */
void story_moved(struct story *s);
void story_failed(struct story *s, enum rf_code code, const char *part);
void story_unknown(struct story *s);
void story_end(struct story *s);
bool story_is_stale(const struct story *s); /* a page did not arrive as it was */

/* For scripts */
void cancel_source(struct story *s);
void cancel_destination(struct story *s);

/* SEED=n in the environment runs that seed alone; otherwise from `first` on, `count` seeds. */
#define for_seeds(first, count, tell) story_seeds(__func__, first, count, tell)
void story_seeds(const char *test, uint64_t first, uint64_t count, void (*tell)(uint64_t seed));

/* TEST=name in the environment runs that test alone. */
#define run_stories(name, tests) \
	(cmocka_set_test_filter(getenv("TEST")), cmocka_run_group_tests_name(name, tests, NULL, NULL))

/* As cmocka's asserts, with the line that replays it. */
#define story_assert(s, what) story_check(s, what, #what, __FILE__, __LINE__)
void story_check(struct story *s, bool ok, const char *what, const char *file, int line);

#endif
