// SPDX-License-Identifier: LGPL-2.1-or-later
/* A small engine: what the real one does with two guests, one step after the other, in one thread. */
#ifndef TEST_QEMU_MOVER_H
#define TEST_QEMU_MOVER_H

#include "machine.h"

#include "memory/guest.h"

/* A sink for rf_state_sink. */
struct bytes {
	char *data;
	size_t length;
};
int mover_keep(void *arg, const void *data, size_t length);

/* All steps of a pause. */
int mover_pause(struct rf_guest *s, const struct rf_state_sink *early, bool *was_running, struct rf_error *e);

/* Fail the test with the sentence unless r is 0. */
void must(int r, const struct rf_error *e);

/* The guest of that QEMU, checked. */
struct rf_guest *mover_open(const struct machine *m, enum rf_role role);

/* Everything up to a loaded destination whose memory is the source's. */
void mover_move(struct rf_guest *s, struct rf_guest *d, bool *was_running);

/* Since *then, which becomes now. */
double ms_since(int64_t *then);

#endif
