// SPDX-License-Identifier: LGPL-2.1-or-later
/* The sending half of a lane: a ring that the driving thread fills, and the thread that empties it into the socket. */
#include "fabric/tcp.h"

#include "common/checked.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Enough to make the system call's price small; little enough that completions come often. */
enum { BATCH_BYTES = 4 << 20 };
_Static_assert(BATCH_BYTES + (uint64_t)RF_TCP_MAX_WRITE_BYTES <= RF_TCP_MAX_FRAME_BYTES, "a batch is a legal frame");

struct batch {
	struct rf_tcp_frame frame;
	struct rf_tcp_vector vectors[RF_TCP_MAX_VECTORS]; /* follows the frame without a gap: one piece of iov */
	struct iovec iov[1 + RF_TCP_MAX_VECTORS];
	unsigned pieces;
	unsigned writes; /* posts it holds; or */
	bool is_message; /* one message */
};
_Static_assert(offsetof(struct batch, vectors) == sizeof(struct rf_tcp_frame), "frame and vectors are one piece");

static struct rf_tcp_post *post_at(struct rf_tcp_lane *lane, uint64_t index)
{
	return &lane->ring[index & lane->ring_mask];
}

/* Where the posts end that may be taken; equal to `taken` when the lane ends. */
static uint64_t wait_for_posts(struct rf_tcp_lane *lane)
{
	pthread_mutex_lock(&lane->lock);
	while (lane->posted == lane->taken && !lane->ending) {
		lane->sender_idle = true;
		pthread_cond_wait(&lane->work, &lane->lock);
	}
	lane->sender_idle = false;
	uint64_t end = lane->posted;

	pthread_mutex_unlock(&lane->lock);
	return end;
}

/* A message is a frame of its own: it is rare, and the batch before it has just filled the socket. */
static void take_message(struct batch *b, const struct rf_tcp_post *post)
{
	b->is_message = true;
	b->writes = 0;
	b->frame = (struct rf_tcp_frame){.kind = RF_TCP_MESSAGE, .bytes = post->length};
	b->iov[0] = (struct iovec){&b->frame, sizeof(b->frame)};
	b->iov[1] = (struct iovec){(void *)(uintptr_t)post->local, post->length};
	b->pieces = 2;
}

/* Does it go on where the batch's last piece ends, on both sides? */
static bool continues(const struct batch *b, unsigned count, const struct rf_tcp_post *post)
{
	const struct rf_tcp_vector *v = &b->vectors[count - 1];
	const struct iovec *piece = &b->iov[count];

	return v->key == post->key && v->remote + v->length == post->remote &&
	       (const char *)piece->iov_base + piece->iov_len == (const char *)post->local;
}

/* Without the lock: posts up to `end` are the sender's. Runs that the engine gave page by page become one piece. */
static void take_writes(struct batch *b, struct rf_tcp_lane *lane, uint64_t end)
{
	unsigned count = 0;
	uint64_t bytes = 0, at = lane->taken;

	for (; at < end && bytes < BATCH_BYTES; at++) {
		const struct rf_tcp_post *post = post_at(lane, at);

		if (post->is_message)
			break;
		if (count && continues(b, count, post)) {
			b->vectors[count - 1].length += post->length;
			b->iov[count].iov_len += post->length;
		} else if (count < RF_TCP_MAX_VECTORS) {
			b->vectors[count++] =
			    (struct rf_tcp_vector){.remote = post->remote, .key = post->key, .length = post->length};
			b->iov[count] = (struct iovec){(void *)(uintptr_t)post->local, post->length};
		} else {
			break;
		}
		bytes += post->length;
	}
	b->is_message = false;
	b->writes = (unsigned)(at - lane->taken);
	b->frame = (struct rf_tcp_frame){.kind = RF_TCP_WRITES, .count = count, .bytes = bytes};
	b->iov[0] = (struct iovec){b, sizeof(b->frame) + count * sizeof(b->vectors[0])};
	b->pieces = 1 + count;
}

/* MSG_NOSIGNAL: a library must not raise SIGPIPE. */
static int send_all(int fd, struct iovec *iov, unsigned pieces)
{
	while (pieces) {
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = pieces};
		ssize_t sent = sendmsg(fd, &m, MSG_NOSIGNAL);

		if (sent < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		for (; pieces && (size_t)sent >= iov->iov_len; iov++, pieces--)
			sent -= (ssize_t)iov->iov_len;
		if (pieces) {
			iov->iov_base = (char *)iov->iov_base + sent;
			iov->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

/* Room first, then the event: whoever is woken by it must find the room. */
static void batch_done(struct rf_tcp_lane *lane, const struct batch *b)
{
	struct rf_tcp_post *post = post_at(lane, lane->taken);
	void *message = b->is_message ? (void *)(uintptr_t)post->local : NULL;

	pthread_mutex_lock(&lane->lock);
	bool was_full = lane->full;

	lane->full = false;
	if (b->is_message) {
		lane->messages--;
		lane->message_bytes -= post->length;
		lane->taken++;
	} else {
		lane->writes -= b->writes;
		lane->taken += b->writes;
	}
	pthread_mutex_unlock(&lane->lock);
	free(message);
	if (b->writes || was_full)
		rf_events_post_written(lane->tcp->events, &lane->written, b->writes);
}

static void send_posts(struct rf_tcp_lane *lane, struct batch *b)
{
	for (;;) {
		uint64_t end = wait_for_posts(lane);

		if (end == lane->taken)
			return;
		if (post_at(lane, lane->taken)->is_message)
			take_message(b, post_at(lane, lane->taken));
		else
			take_writes(b, lane, end);
		if (send_all(lane->fd, b->iov, b->pieces) < 0) {
			char why[100];

			rf_tcp_lose(lane->tcp, "sending to %s: %s", lane->tcp->peer,
				    strerror_r(errno, why, sizeof(why)));
			return;
		}
		batch_done(lane, b);
	}
}

void *rf_tcp_sender(void *arg)
{
	struct rf_tcp_lane *lane = arg;
	struct rf_tcp *t = lane->tcp;
	struct batch *b = malloc(sizeof(*b));

	if (b)
		send_posts(lane, b);
	else
		rf_tcp_lose(t, "out of memory");
	free(b);
	pthread_mutex_lock(&t->lock);
	lane->drained = true;
	pthread_cond_signal(&t->drained);
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Called with the lane's lock held. */
static void put(struct rf_tcp_lane *lane, const struct rf_tcp_post *post)
{
	assert(lane->posted - lane->taken <= lane->ring_mask);
	*post_at(lane, lane->posted++) = *post;
	if (lane->sender_idle) {
		lane->sender_idle = false;
		pthread_cond_signal(&lane->work);
	}
}

int rf_tcp_post_writes(struct rf_tcp_lane *lane, const struct rf_write *w, int n)
{
	int taken = 0;

	if (atomic_load(&lane->tcp->losing))
		return -1;
	/* One lock for the whole batch; the sender holds it for a few instructions at a time. */
	pthread_mutex_lock(&lane->lock);
	for (; taken < n && lane->writes < lane->tcp->fabric.limits.queue_depth; taken++, lane->writes++) {
		assert(w[taken].length && w[taken].length <= RF_TCP_MAX_WRITE_BYTES);
		put(lane, &(struct rf_tcp_post){
			      .local = w[taken].local,
			      .remote = w[taken].remote,
			      .key = w[taken].rkey.value[0],
			      .length = w[taken].length,
			  });
	}
	if (taken < n)
		lane->full = true;
	pthread_mutex_unlock(&lane->lock);
	return taken;
}

int rf_tcp_post_message(struct rf_tcp_lane *lane, const void *message, size_t length)
{
	assert(length <= lane->tcp->fabric.limits.max_message_bytes);
	if (atomic_load(&lane->tcp->losing))
		return -1;

	/* Without memory now: as if the queue were full, though nothing may be in it. So it is an end, not a retry. */
	void *copy = malloc(length ? length : 1);

	if (!copy) {
		rf_tcp_lose(lane->tcp, "out of memory for a message of %zu bytes", length);
		return -1;
	}
	memcpy(copy, message, length);
	pthread_mutex_lock(&lane->lock);
	bool room = lane->messages == 0 || (lane->messages < RF_TCP_QUEUED_MESSAGES &&
					    lane->message_bytes + length <= RF_TCP_QUEUED_MESSAGE_BYTES);

	if (room) {
		lane->messages++;
		lane->message_bytes += length;
		put(lane, &(struct rf_tcp_post){.local = copy, .length = (uint32_t)length, .is_message = true});
	} else {
		lane->full = true;
	}
	pthread_mutex_unlock(&lane->lock);
	if (!room)
		free(copy);
	return room ? 1 : 0;
}
