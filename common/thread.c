// SPDX-License-Identifier: LGPL-2.1-or-later
#include "common/thread.h"

#include <signal.h>
#include <stddef.h>

enum { STACK_BYTES = 256 << 10 };

/* A thread inherits the mask of its creator, so that one is changed for a moment. Signals that a thread brings on itself
 * stay as they are: a program's own handlers for faults (and the sanitizers') keep working. */
int rf_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
	static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	pthread_attr_t attributes;
	sigset_t blocked, before;
	int err = pthread_attr_init(&attributes);

	if (err)
		return err;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&blocked);
	for (size_t i = 0; i < sizeof(own_faults) / sizeof(own_faults[0]); i++)
		sigdelset(&blocked, own_faults[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	err = pthread_create(thread, &attributes, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!err)
		pthread_setname_np(*thread, name);
	return err;
}
