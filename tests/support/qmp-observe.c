// SPDX-License-Identifier: LGPL-2.1-or-later
/* qmp-observe SOURCE DESTINATION SECONDS: an outside observer of one move, whoever makes it. Waits for STOP at the source's
 * monitor and RESUME at the destination's, by QEMU's own time stamps, which both take from the same clock of this host,
 * and prints "STOP_US RESUME_US" (microseconds since 1970). Prints "watching" once it is connected to both. */
#include "qmp.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Until `name` comes: its time stamp. 0: the end of the connection or the deadline. */
static int64_t wait_event(struct qmp *q, const char *name, time_t deadline)
{
	json_t *message;

	while (time(NULL) < deadline && (message = qmp_next(q, (int)(deadline - time(NULL)) * 1000))) {
		const char *event = json_string_value(json_object_get(message, "event"));
		json_t *stamp = json_object_get(message, "timestamp");
		int64_t at = 0;

		if (event && !strcmp(event, name))
			at = json_integer_value(json_object_get(stamp, "seconds")) * INT64_C(1000000) +
			     json_integer_value(json_object_get(stamp, "microseconds"));
		json_decref(message);
		if (at)
			return at;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct qmp source, destination;
	int64_t stop, resume;
	time_t deadline;

	if (argc != 4) {
		fprintf(stderr, "usage: qmp-observe SOURCE DESTINATION SECONDS\n");
		return 2;
	}
	if (qmp_open(&source, argv[1], 10000) || qmp_open(&destination, argv[2], 10000))
		return 1;
	puts("watching");
	fflush(stdout);
	deadline = time(NULL) + atoi(argv[3]);
	stop = wait_event(&source, "STOP", deadline);
	resume = stop ? wait_event(&destination, "RESUME", deadline) : 0;
	qmp_close(&source);
	qmp_close(&destination);
	if (!resume) {
		fprintf(stderr, "qmp-observe: no %s\n", stop ? "RESUME at the destination" : "STOP at the source");
		return 1;
	}
	printf("%lld %lld\n", (long long)stop, (long long)resume);
	return 0;
}
