// SPDX-License-Identifier: LGPL-2.1-or-later
/* Two verbs fabrics of this process, connected over the device that has the given address. */
#ifndef RAMFERRY_TESTS_RDMA_VERBS_PAIR_H
#define RAMFERRY_TESTS_RDMA_VERBS_PAIR_H

#include "fabric/fabric.h"

#include <stdbool.h>
#include <stddef.h>

extern const char *verbs_address; /* of the device; "10.0.0.1" */

/* Is there any? false, and says so: the test ends with status VERBS_SKIPPED. */
enum { VERBS_SKIPPED = 77 };
bool verbs_have_device(void);

/* As fabric.h, with what lib/ would fill in, and a log that is kept in verbs_log. */
struct rf_fabric_config verbs_config(void);
extern char verbs_log[4000];

struct verbs_pair {
	struct rf_fabric *source, *destination;
	struct rf_error e;
};

/* A fabric that listens, and where. */
struct rf_fabric *verbs_listen(struct rf_uri *where, struct rf_error *e);

bool verbs_pair_open(struct verbs_pair *p, const struct rf_fabric_config *config);
void verbs_pair_close(struct verbs_pair *p);

/* For suite_run(). */
struct suite_fabric;
extern const struct suite_fabric verbs_suite_fabric;

/* The next event of this kind of `f`, within 20 s; others are let pass. */
bool verbs_await(struct rf_fabric *f, enum rf_event_kind kind, struct rf_event *event);

/* Shared memory, as a guest's is; *fd, if wanted, stays open. */
void *verbs_map(size_t bytes, int rights, int *fd);

#endif
