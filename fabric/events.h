// SPDX-License-Identifier: LGPL-2.1-or-later
/* The queue between a fabric's threads and the one thread that drives it.
 *
 * Posting never fails: every event lives in a node that was allocated when the operation began, so lack of memory shows
 * there and not when a completion has to be told. Order is kept. Messages are bounded per inbox: whoever posts one waits
 * until the driving thread has polled enough of the earlier ones away. After RF_EV_LOST messages are dropped. */
#ifndef RAMFERRY_FABRIC_EVENTS_H
#define RAMFERRY_FABRIC_EVENTS_H

#include "common/error.h"
#include "fabric/fabric.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rf_events;

struct rf_event_node {
	struct rf_event_node *next;
	struct rf_event event;
	bool queued;
	bool owned;             /* free(node) once delivered; else it belongs to the poster, who may post it again */
	struct rf_inbox *inbox; /* messages: where it counts until the driving thread is done with it */
	char *text;             /* what event.text points to; freed with the node */
	void *payload;          /* messages: what event.data points to, right behind the node */
};

/* Undelivered messages of one lane. Start with {0}; used under the queue's lock. */
struct rf_inbox {
	size_t bytes;
	unsigned messages;
};

enum {
	RF_INBOX_BYTES = 8 << 20, /* a longer message passes when it is alone */
	RF_INBOX_MESSAGES = 256,
};

int rf_events_open(struct rf_events **out, struct rf_error *e);
void rf_events_close(struct rf_events *q); /* nobody posts any more. NULL is fine */

/* An owned node with room for `payload` bytes; NULL: no memory. */
struct rf_event_node *rf_event_node_new(enum rf_event_kind kind, uint64_t cookie, size_t payload);
void rf_event_node_free(struct rf_event_node *node);

void rf_events_post(struct rf_events *q, struct rf_event_node *node);

/* Add `count` to an RF_EV_WRITTEN node that may still wait in the queue from last time. */
void rf_events_post_written(struct rf_events *q, struct rf_event_node *node, uint32_t count);

/* Wait until a message of `length` may follow into the inbox. false: messages are not wanted any more. */
bool rf_events_wait_inbox(struct rf_events *q, struct rf_inbox *inbox, size_t length);

/* Takes the node in any case. */
void rf_events_post_message(struct rf_events *q, struct rf_inbox *inbox, struct rf_event_node *node);

/* From now on messages are dropped and nobody waits for room. */
void rf_events_refuse_messages(struct rf_events *q);

/* As rf_fabric_ops.poll and wake. */
int rf_events_poll(struct rf_events *q, struct rf_event *events, int max, int64_t timeout_ns);
void rf_events_wake(struct rf_events *q);

/* For a driving thread that sleeps on more than this queue: it takes events with rf_events_poll(…, 0), and between begin
 * and end rf_events_fd() becomes readable when there is something. begin is false when there is already (do not sleep). */
bool rf_events_sleep_begin(struct rf_events *q);
void rf_events_sleep_end(struct rf_events *q);

/* For waiting on sockets too: this descriptor is readable after rf_events_wake(). rf_events_take_wake() makes it quiet
 * and tells whether somebody called. */
int rf_events_fd(const struct rf_events *q);
bool rf_events_take_wake(struct rf_events *q);

int64_t rf_monotonic_ns(void);

/* When `timeout_ns` from now will have passed; -1 (never) for a negative one. */
int64_t rf_deadline_ns(int64_t timeout_ns);

#endif
