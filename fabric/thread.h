// SPDX-License-Identifier: LGPL-2.1-or-later
/* Threads of a fabric: small stacks, the program's signals blocked. */
#ifndef RAMFERRY_FABRIC_THREAD_H
#define RAMFERRY_FABRIC_THREAD_H

#include <pthread.h>

/* `name` (up to 15 characters) shows in ps and perf. 0 or an errno value. */
int rf_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

#endif
