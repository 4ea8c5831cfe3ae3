// SPDX-License-Identifier: LGPL-2.1-or-later
/* A QMP client of the tests' own, so that what they claim about a QEMU does not rest on the code under test. */
#ifndef RAMFERRY_TESTS_SUPPORT_QMP_H
#define RAMFERRY_TESTS_SUPPORT_QMP_H

#include <jansson.h>
#include <stdbool.h>

struct qmp {
	int fd;
	char *buffer;
	size_t used, size;
};

/* Connect, take the greeting, leave negotiation mode. -1 with a sentence on stderr. */
int qmp_open(struct qmp *q, const char *path, int timeout_ms);
void qmp_close(struct qmp *q);

int qmp_send(struct qmp *q, const char *command, const char *arguments_json);

/* The next message, answer or event; NULL at the end of the connection or when nothing came for timeout_ms (< 0: wait for
 * ever). The caller owns it. */
json_t *qmp_next(struct qmp *q, int timeout_ms);

#endif
