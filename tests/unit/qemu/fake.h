// SPDX-License-Identifier: LGPL-2.1-or-later
/* Something that listens at a unix socket and is not quite a QEMU. */
#ifndef TEST_QEMU_FAKE_H
#define TEST_QEMU_FAKE_H

#include <pthread.h>

/* What it does with its one client, on a thread of its own. `peer` is closed afterwards. */
typedef void fake_script(int peer);

struct fake {
	char folder[64], path[80];
	int listener;
	pthread_t thread;
	fake_script *script;
};

void fake_start(struct fake *f, fake_script *script);
void fake_end(struct fake *f);

/* For scripts. */
void fake_say(int peer, const char *text);
int fake_hear(int peer);   /* the id of the next command, or -1 when the client has gone */
void fake_greet(int peer); /* greeting, and qmp_capabilities answered */
void fake_answer(int peer, int id, const char *value);

#endif
