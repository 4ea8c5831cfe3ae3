// SPDX-License-Identifier: LGPL-2.1-or-later
/* A list under a lock, and an eventfd that is rung only when somebody sleeps on it. */
#include "fabric/events.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct rf_events {
	pthread_mutex_t lock;
	pthread_cond_t room; /* an inbox was emptied, or messages are not wanted any more */
	struct rf_event_node *head, **tail;
	struct rf_event_node *delivered; /* given out by the last poll: freed by the next */
	bool sleeping;                   /* the driving thread waits on fd: only then is a post worth a system call */
	bool refuse_messages;
	atomic_bool woken;
	int fd;
};

int rf_events_open(struct rf_events **out, struct rf_error *e)
{
	struct rf_events *q = calloc(1, sizeof(*q));

	*out = NULL;
	if (!q)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->fd < 0) {
		rf_fail_errno(e, RF_E_FAILED, errno, "cannot make an eventfd");
		free(q);
		return -1;
	}
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->room, NULL);
	q->tail = &q->head;
	*out = q;
	return 0;
}

static void free_list(struct rf_event_node *node)
{
	while (node) {
		struct rf_event_node *next = node->next;

		if (node->owned)
			rf_event_node_free(node);
		node = next;
	}
}

void rf_events_close(struct rf_events *q)
{
	if (!q)
		return;
	free_list(q->head);
	free_list(q->delivered);
	close(q->fd);
	pthread_cond_destroy(&q->room);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

struct rf_event_node *rf_event_node_new(enum rf_event_kind kind, uint64_t cookie, size_t payload)
{
	struct rf_event_node *node = malloc(sizeof(*node) + payload);

	if (!node)
		return NULL;
	memset(node, 0, sizeof(*node));
	node->owned = true;
	node->payload = node + 1;
	node->event.kind = kind;
	node->event.cookie = cookie;
	return node;
}

void rf_event_node_free(struct rf_event_node *node)
{
	if (node)
		free(node->text);
	free(node);
}

static void ring(struct rf_events *q)
{
	uint64_t one = 1;
	ssize_t r;

	/* It fails only when the counter is full, and then the descriptor is readable anyway. */
	do
		r = write(q->fd, &one, sizeof(one));
	while (r < 0 && errno == EINTR);
}

static void append(struct rf_events *q, struct rf_event_node *node)
{
	assert(!node->queued);
	node->queued = true;
	node->next = NULL;
	*q->tail = node;
	q->tail = &node->next;
	if (q->sleeping) {
		q->sleeping = false;
		ring(q);
	}
}

void rf_events_post(struct rf_events *q, struct rf_event_node *node)
{
	pthread_mutex_lock(&q->lock);
	if (node->event.kind == RF_EV_LOST) {
		q->refuse_messages = true;
		pthread_cond_broadcast(&q->room);
	}
	append(q, node);
	pthread_mutex_unlock(&q->lock);
}

void rf_events_post_written(struct rf_events *q, struct rf_event_node *node, uint32_t count)
{
	pthread_mutex_lock(&q->lock);
	if (node->queued) {
		node->event.count += count;
	} else {
		node->event.count = count;
		append(q, node);
	}
	pthread_mutex_unlock(&q->lock);
}

bool rf_events_wait_inbox(struct rf_events *q, struct rf_inbox *inbox, size_t length)
{
	bool wanted;

	pthread_mutex_lock(&q->lock);
	while (!q->refuse_messages && inbox->messages > 0 &&
	       (inbox->messages >= RF_INBOX_MESSAGES || inbox->bytes + length > RF_INBOX_BYTES))
		pthread_cond_wait(&q->room, &q->lock);
	wanted = !q->refuse_messages;
	pthread_mutex_unlock(&q->lock);
	return wanted;
}

void rf_events_post_message(struct rf_events *q, struct rf_inbox *inbox, struct rf_event_node *node)
{
	node->event.data = node->payload;
	node->inbox = inbox;
	pthread_mutex_lock(&q->lock);
	if (!q->refuse_messages) {
		inbox->messages++;
		inbox->bytes += node->event.length;
		append(q, node);
		node = NULL;
	}
	pthread_mutex_unlock(&q->lock);
	rf_event_node_free(node);
}

void rf_events_refuse_messages(struct rf_events *q)
{
	pthread_mutex_lock(&q->lock);
	q->refuse_messages = true;
	pthread_cond_broadcast(&q->room);
	pthread_mutex_unlock(&q->lock);
}

/* The driving thread is done with what the last poll gave it. */
static struct rf_event_node *retire_delivered(struct rf_events *q)
{
	struct rf_event_node *old = q->delivered;
	bool room = false;

	for (struct rf_event_node *node = old; node; node = node->next) {
		if (!node->inbox)
			continue;
		node->inbox->messages--;
		node->inbox->bytes -= node->event.length;
		room = true;
	}
	if (room)
		pthread_cond_broadcast(&q->room);
	q->delivered = NULL;
	return old;
}

/* Waking comes first: whoever called wants to be heard before a long queue. */
static int deliver(struct rf_events *q, struct rf_event *events, int max)
{
	int n = 0;

	if (n < max && atomic_exchange(&q->woken, false))
		events[n++] = (struct rf_event){.kind = RF_EV_WOKEN};
	while (n < max && q->head) {
		struct rf_event_node *node = q->head;

		q->head = node->next;
		if (!q->head)
			q->tail = &q->head;
		node->queued = false;
		events[n++] = node->event;
		if (node->owned) {
			node->next = q->delivered;
			q->delivered = node;
		}
	}
	return n;
}

/* Sleep until rung or until the deadline (< 0: none). false: the deadline has passed. */
static bool sleep_until(struct rf_events *q, int64_t deadline_ns)
{
	struct pollfd p = {.fd = q->fd, .events = POLLIN};
	struct timespec t;
	uint64_t count;

	if (deadline_ns >= 0) {
		int64_t left = deadline_ns - rf_monotonic_ns();

		if (left <= 0)
			return false;
		t = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
	}
	if (ppoll(&p, 1, deadline_ns < 0 ? NULL : &t, NULL) > 0 && read(q->fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	return true;
}

int rf_events_poll(struct rf_events *q, struct rf_event *events, int max, int64_t timeout_ns)
{
	int64_t deadline = timeout_ns ? rf_deadline_ns(timeout_ns) : 0;
	bool again = timeout_ns != 0;
	int n;

	assert(max > 0);
	pthread_mutex_lock(&q->lock);
	struct rf_event_node *old = retire_delivered(q);

	/* `sleeping` is set under the lock that posters take, so a post between the look and the sleep rings. */
	while ((n = deliver(q, events, max)) == 0 && again) {
		q->sleeping = true;
		pthread_mutex_unlock(&q->lock);
		again = sleep_until(q, deadline);
		pthread_mutex_lock(&q->lock);
		q->sleeping = false;
	}
	pthread_mutex_unlock(&q->lock);
	free_list(old);
	return n;
}

bool rf_events_sleep_begin(struct rf_events *q)
{
	pthread_mutex_lock(&q->lock);
	q->sleeping = !q->head && !atomic_load(&q->woken);
	bool sleep = q->sleeping;

	pthread_mutex_unlock(&q->lock);
	return sleep;
}

/* The bell may have rung, or ring a little late for what was delivered meanwhile; either way it is quiet from here on. */
void rf_events_sleep_end(struct rf_events *q)
{
	uint64_t count;

	pthread_mutex_lock(&q->lock);
	q->sleeping = false;
	pthread_mutex_unlock(&q->lock);
	if (read(q->fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
}

/* For signal handlers: no lock, and errno as it was. */
void rf_events_wake(struct rf_events *q)
{
	int saved = errno;

	atomic_store(&q->woken, true);
	ring(q);
	errno = saved;
}

int rf_events_fd(const struct rf_events *q)
{
	return q->fd;
}

bool rf_events_take_wake(struct rf_events *q)
{
	uint64_t count;

	if (read(q->fd, &count, sizeof(count)) < 0)
		assert(errno == EAGAIN || errno == EINTR);
	return atomic_exchange(&q->woken, false);
}

int64_t rf_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t rf_deadline_ns(int64_t timeout_ns)
{
	int64_t deadline;

	/* What does not fit is centuries away. */
	if (timeout_ns < 0 || __builtin_add_overflow(rf_monotonic_ns(), timeout_ns, &deadline))
		return -1;
	return deadline;
}
