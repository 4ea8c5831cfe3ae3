// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static void *serve(void *arg)
{
	struct fake *f = arg;
	int peer = accept(f->listener, NULL, NULL);
	if (peer >= 0) {
		f->script(peer);
		close(peer);
	}
	return NULL;
}

void fake_start(struct fake *f, fake_script *script)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(f->folder, "/tmp/ramferry.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/qmp", f->folder);
	strcpy(address.sun_path, f->path);
	f->script = script;
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->listener, 1), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void fake_end(struct fake *f)
{
	shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listener);
	unlink(f->path);
	rmdir(f->folder);
}

void fake_say(int peer, const char *text)
{
	size_t length = strlen(text);
	while (length) {
		ssize_t n = send(peer, text, length, MSG_NOSIGNAL);
		if (n <= 0)
			return;
		text += n;
		length -= n;
	}
}

int fake_hear(int peer)
{
	/* Commands are short and the client waits for each answer, so that one read is one command. */
	char text[4096];
	ssize_t n = recv(peer, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return -1;
	text[n] = 0;
	const char *id = strstr(text, "\"id\":");
	return id ? atoi(id + 5) : -1;
}

void fake_answer(int peer, int id, const char *value)
{
	char text[512];
	snprintf(text, sizeof(text), "{\"return\": %s, \"id\": %d}\r\n", value, id);
	fake_say(peer, text);
}

void fake_greet(int peer)
{
	fake_say(peer,
		 "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, \"major\": 7}, \"package\": \"\"}, "
		 "\"capabilities\": [\"oob\"]}}\r\n");
	fake_answer(peer, fake_hear(peer), "{}");
}
