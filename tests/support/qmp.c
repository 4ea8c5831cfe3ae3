// SPDX-License-Identifier: LGPL-2.1-or-later
#include "qmp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int connect_to(const char *path, int timeout_ms)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timespec pause = {.tv_nsec = 20000000};

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(address.sun_path, path);
	/* A QEMU that was just started creates its socket a little later. */
	for (;; timeout_ms -= 20) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address)))
			return fd;
		if (fd >= 0)
			close(fd);
		if (timeout_ms <= 0)
			return -1;
		nanosleep(&pause, NULL);
	}
}

static json_t *take_line(struct qmp *q)
{
	char *end = q->used ? memchr(q->buffer, '\n', q->used) : NULL;
	json_t *message;
	size_t length;

	if (!end)
		return NULL;
	length = (size_t)(end - q->buffer);
	message = json_loadb(q->buffer, length, 0, NULL);
	q->used -= length + 1;
	memmove(q->buffer, end + 1, q->used);
	return message ? message : json_null();
}

json_t *qmp_next(struct qmp *q, int timeout_ms)
{
	for (;;) {
		struct pollfd p = {.fd = q->fd, .events = POLLIN};
		json_t *message = take_line(q);
		ssize_t n;

		if (message)
			return message;
		if (q->used == q->size) {
			q->size = q->size ? 2 * q->size : 65536;
			q->buffer = realloc(q->buffer, q->size);
			if (!q->buffer)
				abort();
		}
		if (poll(&p, 1, timeout_ms) <= 0)
			return NULL;
		n = read(q->fd, q->buffer + q->used, q->size - q->used);
		if (n <= 0)
			return NULL;
		q->used += (size_t)n;
	}
}

int qmp_send(struct qmp *q, const char *command, const char *arguments_json)
{
	char *text = NULL;
	int n =
	    asprintf(&text, "{\"execute\":\"%s\",\"arguments\":%s}\n", command, arguments_json ? arguments_json : "{}");
	int result = n > 0 && send(q->fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;

	free(text);
	return result;
}

int qmp_open(struct qmp *q, const char *path, int timeout_ms)
{
	json_t *message;

	memset(q, 0, sizeof(*q));
	q->fd = connect_to(path, timeout_ms);
	if (q->fd < 0) {
		fprintf(stderr, "%s: cannot connect: %s\n", path, strerror(errno));
		return -1;
	}
	message = qmp_next(q, 5000);
	if (!message || !json_object_get(message, "QMP")) {
		fprintf(stderr, "%s: no QMP greeting\n", path);
		json_decref(message);
		qmp_close(q);
		return -1;
	}
	json_decref(message);
	if (qmp_send(q, "qmp_capabilities", NULL)) {
		qmp_close(q);
		return -1;
	}
	while ((message = qmp_next(q, 5000)) && !json_object_get(message, "return"))
		json_decref(message);
	json_decref(message);
	return 0;
}

void qmp_close(struct qmp *q)
{
	if (q->fd >= 0)
		close(q->fd);
	free(q->buffer);
	memset(q, 0, sizeof(*q));
	q->fd = -1;
}
