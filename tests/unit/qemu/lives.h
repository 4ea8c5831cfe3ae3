// SPDX-License-Identifier: LGPL-2.1-or-later
/* What children of test_inject.c do all their lives while they watch themselves. */
#ifndef TEST_QEMU_LIVES_H
#define TEST_QEMU_LIVES_H

#include <stdatomic.h>

struct shared {
	atomic_int ready, wrong, signals, ticks;
	atomic_int page_to_write; /* -1: done */
};

typedef void child_life(struct shared *s, char *memory);

child_life busy;        /* computes with every register */
child_life sleeping;    /* in ppoll(), as QEMU's main loop */
child_life napping;     /* in nanosleep() */
child_life threaded;    /* sleeps, and three threads compute */
child_life signalled;   /* computes under a storm of signals, and minds its SIGTRAP handler */
child_life confined;    /* may not call userfaultfd() */
child_life restartable; /* looks like being inside a restartable sequence whenever one looks */

#endif
