// SPDX-License-Identifier: LGPL-2.1-or-later
/* Threads of the library: small stacks, for hosts run hundreds of them, and the program's signals blocked. */
#ifndef RAMFERRY_COMMON_THREAD_H
#define RAMFERRY_COMMON_THREAD_H

#include <pthread.h>

/* `name` (up to 15 characters) shows in ps and perf. 0 or an errno value. */
int rf_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

#endif
