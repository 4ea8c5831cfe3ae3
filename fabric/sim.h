// SPDX-License-Identifier: LGPL-2.1-or-later
/* A world of two hosts in one process, on a virtual clock. Both sides and their workers are threads, but only the holder
 * of a baton runs, and the baton moves only inside fabric calls, so that a run is a pure function of its seed. An hour of
 * waiting costs nothing. The world also watches the rules of fabric.h and tells the first that was broken.
 *
 *     rf_sim_model_init(&model);
 *     rf_sim_open(&model, seed, &world, &e);
 *     source = rf_sim_fabric(world, RF_SIM_SOURCE, &config);   destination = …
 *     rf_sim_at(world, 100 * RF_MS, cut_the_cable, world);
 *     rf_sim_run(world, run_source, &s, run_destination, &d);   which use the fabrics until they are done
 *     rf_sim_violation(world) is NULL
 *     rf_sim_close(world);
 *
 * Without rf_sim_run() one thread may drive both fabrics itself. */
#ifndef RAMFERRY_FABRIC_SIM_H
#define RAMFERRY_FABRIC_SIM_H

#include "fabric/fabric.h"

#define RF_US INT64_C(1000)
#define RF_MS INT64_C(1000000)
#define RF_S  INT64_C(1000000000)

struct rf_sim;

enum rf_sim_end { RF_SIM_SOURCE, RF_SIM_DESTINATION };

/* What the wire and the hosts cost. */
struct rf_sim_model {
	uint64_t bytes_per_second;            /* of the link, in each direction */
	int64_t delay_ns;                     /* one way */
	int64_t jitter_ns;                    /* up to this much more, from the seed, for all that travels or starts */
	int64_t lane_skew_ns;                 /* a lane is slower than another by up to this much, from the seed */
	int64_t write_ns;                     /* per write, on top of its bytes */
	int64_t message_ns;                   /* per message */
	int64_t register_ns;                  /* per registration … */
	int64_t register_page_ns;             /* … and per 4 KiB page of it */
	int64_t release_ns;                   /* per registration */
	int64_t run_ns;                       /* until a worker begins */
	int64_t poll_ns;                      /* a poll that finds nothing takes that long, so that time goes on */
	unsigned lanes, queue_depth, workers; /* where the configuration does not say; lanes 0: 1 to 4 from the seed */
	uint32_t max_write_bytes, max_message_bytes;
	unsigned max_spans;
	bool local_keys, pins;
	bool overlaps;     /* writes in flight may overlap: a prober writes to the same memory over and over */
	bool on_demand[2]; /* of each side */

	/* Of each side: bytes that can be registered at once (a registration beyond fails, as for lack of memory), and
	 * bytes that can_pin() says may be; on demand nothing counts. 0: no limit. */
	uint64_t pinnable_bytes[2], memlock_bytes[2];
	int64_t limit_ns; /* a run that is not over by then never will be */
};

/* 1 GiB/s, 50 µs, and costs of about that size. */
void rf_sim_model_init(struct rf_sim_model *m);

/* How bytes get from one memory into the other. The default copies them; a simulated guest may keep less than bytes. */
struct rf_sim_memory {
	size_t (*image_size)(void *ctx, uint64_t length);
	void (*load)(void *ctx, const void *local, uint64_t length, void *image);
	void (*store)(void *ctx, uint64_t remote, uint64_t length, const void *image);
	void *ctx;
};

int rf_sim_open(const struct rf_sim_model *m, uint64_t seed, struct rf_sim **out, struct rf_error *e);
void rf_sim_close(struct rf_sim *w); /* after both fabrics are closed. NULL is fine */

/* The fabric of one side; once for each side. Open until its close operation. */
struct rf_fabric *rf_sim_fabric(struct rf_sim *w, enum rf_sim_end end, const struct rf_fabric_config *config);
void rf_sim_set_memory(struct rf_sim *w, enum rf_sim_end end, const struct rf_sim_memory *memory);

/* Run both, each in its thread, until both have returned. */
void rf_sim_run(struct rf_sim *w, void (*source)(void *), void *source_arg, void (*destination)(void *),
		void *destination_arg);

/* Timed scripts: call fn(arg) when it is t_ns. It may wake, cut, spend nothing and call no other fabric operation. */
void rf_sim_at(struct rf_sim *w, int64_t t_ns, void (*fn)(void *), void *arg);

/* Call fn(arg, now) before anything happens at a later time: a guest writes there what it wrote in between. */
void rf_sim_on_time(struct rf_sim *w, void (*fn)(void *arg, int64_t now_ns), void *arg);

/* In work given to run(), or in a side's own thread: this takes ns. Others go on meanwhile. */
void rf_sim_spend(struct rf_sim *w, int64_t ns);

int64_t rf_sim_now(const struct rf_sim *w);
uint64_t rf_sim_random(struct rf_sim *w, uint64_t limit); /* 0 to limit - 1 */

/* Called for every message when it is sent and, unless it is lost, again when it is delivered. */
void rf_sim_on_message(struct rf_sim *w,
		       void (*fn)(void *arg, enum rf_sim_end from, const void *message, size_t length, bool delivered),
		       void *arg);

/* What one side has done so far. */
struct rf_sim_count {
	uint64_t written_bytes; /* put onto the wire by its writes */
	uint64_t writes;
	uint64_t registered_bytes_peak; /* at once; on demand does not count */
	uint64_t registrations, failed_registrations, on_demand_registrations;
	uint64_t releases;
	unsigned in_flight_peak; /* writes posted here and not yet reported, at once */
};
struct rf_sim_count rf_sim_count(const struct rf_sim *w, enum rf_sim_end end);

/* The connection breaks: what travels is lost, and both sides notice a little later. */
void rf_sim_cut(struct rf_sim *w);

/* The first rule that was broken, or NULL. rf_sim_violate() lets a guest or a test add its own rules. */
const char *rf_sim_violation(const struct rf_sim *w);
void rf_sim_violate(struct rf_sim *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
