// SPDX-License-Identifier: LGPL-2.1-or-later
/* From the first sign of trouble to RF_EV_LOST: see tcp.h. */
#include "fabric/tcp.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* For what has arrived when the loss is noticed, often the peer's last words on another lane. A peer that goes on
 * sending must not hold the news back for ever. */
enum { PATIENCE_NS = 250 * 1000 * 1000 };

void rf_tcp_lose(struct rf_tcp *t, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&t->losing)) {
		va_start(args, format);
		vsnprintf(t->loss, sizeof(t->loss), format, args);
		va_end(args);
		rf_one_line(t->loss);
		t->losing_since_ns = rf_monotonic_ns();
		atomic_store(&t->losing, true);
		pthread_cond_signal(&t->drained); /* flushing is pointless */
		/* Receivers still get what the kernel has, then the end. */
		for (unsigned i = 0; i < t->lane_count; i++)
			shutdown(t->lanes[i].fd, SHUT_RD);
	}
	pthread_mutex_unlock(&t->lock);
}

bool rf_tcp_out_of_patience(struct rf_tcp *t)
{
	if (!atomic_load(&t->losing))
		return false;
	pthread_mutex_lock(&t->lock);
	int64_t since = t->losing_since_ns;

	pthread_mutex_unlock(&t->lock);
	return rf_monotonic_ns() - since > PATIENCE_NS;
}

void rf_tcp_receiver_ended(struct rf_tcp *t)
{
	pthread_mutex_lock(&t->lock);
	if (--t->receivers == 0 && atomic_load(&t->losing)) {
		t->lost.event = (struct rf_event){.kind = RF_EV_LOST, .status = -1, .text = t->loss};
		rf_events_post(t->events, &t->lost);
		/* Nothing more can go out either: senders that wait for a full socket end now. */
		for (unsigned i = 0; i < t->lane_count; i++)
			shutdown(t->lanes[i].fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&t->lock);
}
