// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite in simulated worlds: of some seeds, with and without the wrapper that makes faults, which shall make no
 * difference as long as it makes none. */
#include "fabric/fault.h"
#include "fabric/sim.h"
#include "tests/unit/fabric/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct world {
	uint64_t seed;
	bool wrapped;
};

static struct world world;

struct end {
	struct suite_side *side;
	struct rf_fabric *f;
	bool source, connected;
	struct rf_error e;
};

static void run_end(void *arg)
{
	struct end *end = arg;
	const struct rf_fabric_ops *ops = end->f->ops;

	end->connected = !(end->source ? ops->connect(end->f, NULL, &end->e) : ops->accept(end->f, -1, &end->e));
	if (end->connected)
		suite_side_run(end->side, end->f);
	ops->close(end->f);
}

static bool open_end(struct rf_sim *w, enum rf_sim_end which, const struct rf_fabric_config *config, struct end *end)
{
	const struct rf_fault_spec none = {.kind = RF_FAULT_NONE};

	end->f = rf_sim_fabric(w, which, config);
	if (world.wrapped)
		end->f = rf_fault_wrap(end->f, &none);
	return end->f;
}

static bool run_pair(const struct suite_fabric *on, const struct rf_fabric_config *config, struct suite_side *source,
		     struct suite_side *destination)
{
	struct end ends[2] = {{.side = source, .source = true}, {.side = destination}};
	struct rf_sim_model model;
	const char *violation;
	struct rf_sim *w;
	bool good;

	rf_sim_model_init(&model);
	model.max_write_bytes = UINT32_MAX; /* as tcp */
	if (rf_sim_open(&model, world.seed, &w, NULL) || !open_end(w, RF_SIM_SOURCE, config, &ends[0]) ||
	    !open_end(w, RF_SIM_DESTINATION, config, &ends[1]))
		return false;
	ends[1].f->ops->listen(ends[1].f, NULL, NULL);
	rf_sim_run(w, run_end, &ends[0], run_end, &ends[1]);
	/* the cases that break the rules on purpose look at what comes of it */
	violation = rf_sim_violation(w);
	if (violation && (strstr(violation, "living registration") || strstr(violation, "overlap")))
		violation = NULL;
	good = ends[0].connected && ends[1].connected && !violation;
	if (!good)
		fprintf(stderr, "seed %llu: %s%s%s\n", (unsigned long long)world.seed, ends[0].e.text, ends[1].e.text,
			violation ? violation : "");
	rf_sim_close(w);
	return good;
}

/* Some cases leave memory mapped until the fabric is closed, and for good. */
static void *map(const struct suite_fabric *on, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int main(void)
{
	const struct suite_fabric sim = {"sim", run_pair, map, suite_bytes_unmap, suite_bytes_put, suite_bytes_hold};
	int failed = 0;

	for (world.seed = 1; !failed && world.seed <= 4; world.seed++) {
		world.wrapped = world.seed % 2;
		failed = suite_run(&sim);
	}
	return failed ? 1 : 0;
}
