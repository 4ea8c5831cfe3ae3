// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest in this process for tests of the library: a thread adds 1 to a counter in some page and 1 to a total, which
 * is the device state. What the library calls is kept as a story, such as "facts prepare pause save finish". */
#ifndef RAMFERRY_TESTS_LIB_COUNTING_H
#define RAMFERRY_TESTS_LIB_COUNTING_H

#include <ramferry.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { COUNTING_PAGES = 2048 };

struct counting {
	uint64_t (*memory)[512];
	int fd;
	uint64_t total;
	uint64_t loaded; /* the total that arrived */
	pthread_t thread;
	atomic_int running;
	const char *fails; /* the callback that fails, with the sentence "no NAME today" */
	const char *fact;  /* what facts() says */
	char story[400];
	pthread_mutex_t lock;
	rf_guest *guest;

	/* The side as a thread: rf_receive() or rf_send(). */
	rf_migration *m;
	pthread_t mover;
	bool receives;
	char uri[100]; /* to send to; where it listens, once `listening` */
	atomic_int listening, phase;
	rf_phase cancel_in; /* with `cancels`: rf_cancel() when this phase is reported */
	bool cancels;
	rf_result result;
	char error[600];
};

/* Memory, guest and migration. The guest does not run yet. */
void counting_open(struct counting *c, bool receives);
void counting_open_with_direct_io(struct counting *c); /* a source that says so: drain() is one of its callbacks */
void counting_run(struct counting *c);
void counting_stop(struct counting *c);
void counting_close(struct counting *c);

/* All counters together; the guest stands still. */
uint64_t counting_sum(const struct counting *c);

/* Is `total` still rising? Waits for it a while, if it has to. */
bool counting_goes_on(struct counting *c);

/* Start the side's thread; a receiver listens when this returns. counting_join() fills in result and error. */
void counting_start(struct counting *c, const char *uri);
void counting_join(struct counting *c);

#endif
