// SPDX-License-Identifier: LGPL-2.1-or-later
/* The receiving half of a lane: reads frames and puts their bytes where they belong.
 *
 * The peer is not trusted. A frame's counts are bounded before anything is read by them, its targets are looked up before
 * the first of its bytes is, and what it makes us allocate is bounded by the inbox. */
#include "fabric/tcp.h"

#include "common/checked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* What a receiver works with; too large for its stack. */
struct intake {
	struct rf_tcp_lane *lane;
	struct rf_tcp *tcp;
	struct rf_tcp_vector vectors[RF_TCP_MAX_VECTORS];
	struct rf_target targets[RF_TCP_MAX_VECTORS];
	struct iovec iov[RF_TCP_MAX_VECTORS];
	struct rf_region *held[RF_TCP_MAX_VECTORS];
	struct rf_splice splice;
};

/* Skip `got` bytes of what is still to be filled. The pieces that are left. */
static unsigned advance(struct iovec **iov, unsigned pieces, size_t got)
{
	for (; pieces && got >= (*iov)->iov_len; (*iov)++, pieces--)
		got -= (*iov)->iov_len;
	if (pieces) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + got;
		(*iov)->iov_len -= got;
	}
	return pieces;
}

static bool failed(struct intake *in, ssize_t got, bool frame_begins)
{
	char why[100];

	if (got < 0)
		rf_tcp_lose(in->tcp, "receiving from %s: %s", in->tcp->peer, strerror_r(errno, why, sizeof(why)));
	else
		rf_tcp_lose(in->tcp,
			    frame_begins ? "%s closed the connection"
					 : "%s closed the connection in the middle of a transfer",
			    in->tcp->peer);
	return false;
}

/* Fill all pieces. false: the lane is over, and rf_tcp_lose() was told why. */
static bool fill(struct intake *in, struct iovec *iov, unsigned pieces, bool frame_begins)
{
	while (pieces) {
		struct msghdr m = {.msg_iov = iov, .msg_iovlen = pieces};
		ssize_t got = recvmsg(in->lane->fd, &m, MSG_WAITALL);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return failed(in, got, frame_begins);
		frame_begins = false;
		pieces = advance(&iov, pieces, (size_t)got);
		if (rf_tcp_out_of_patience(in->tcp))
			return false;
	}
	return true;
}

static bool fill_one(struct intake *in, void *buffer, size_t length, bool frame_begins)
{
	struct iovec piece = {buffer, length};

	return fill(in, &piece, length ? 1 : 0, frame_begins);
}

static bool broken(struct intake *in, const char *what)
{
	rf_tcp_lose(in->tcp, "%s broke the rules of ramferry's tcp fabric: %s", in->tcp->peer, what);
	return false;
}

/* Do the vectors make sense, and do they add up to what the frame says? */
static bool check_vectors(struct intake *in, const struct rf_tcp_frame *frame)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < frame->count; i++) {
		const struct rf_tcp_vector *v = &in->vectors[i];

		if (!v->length || v->zero || v->length > frame->bytes - sum)
			return broken(in, "the lengths of a batch do not add up");
		sum += v->length;
		in->targets[i] = (struct rf_target){.address = v->remote, .key = v->key, .length = v->length};
		in->iov[i] = (struct iovec){(void *)(uintptr_t)v->remote, v->length};
	}
	return sum == frame->bytes || broken(in, "the lengths of a batch do not add up");
}

/* One long piece, by the file that it is a mapping of. */
static bool fill_file(struct intake *in, struct rf_file *file, struct iovec *piece)
{
	char *at = piece->iov_base;
	size_t left = piece->iov_len;

	while (left && !in->splice.useless) {
		ssize_t got = rf_splice_in(&in->splice, in->lane->fd, file, at, left);

		if (got < 0 && in->splice.useless)
			break;
		if (got <= 0)
			return failed(in, got, false);
		at += got;
		left -= (size_t)got;
		if (rf_tcp_out_of_patience(in->tcp))
			return false;
	}
	return fill_one(in, at, left, false);
}

static struct rf_file *long_and_in_a_file(struct intake *in, const struct iovec *piece)
{
	if (piece->iov_len < RF_FILE_PIECE_BYTES || in->splice.useless)
		return NULL;
	return rf_files_find(&in->tcp->files, (uintptr_t)piece->iov_base, piece->iov_len);
}

static bool fill_in_place(struct intake *in, struct iovec *iov, unsigned pieces)
{
	while (pieces) {
		struct rf_file *file = NULL;
		unsigned n = 0;

		while (n < pieces && !(file = long_and_in_a_file(in, &iov[n])))
			n++;
		if (n && !fill(in, iov, n, false))
			return false;
		if (file && !fill_file(in, file, &iov[n++]))
			return false;
		iov += n;
		pieces -= n;
	}
	return true;
}

static bool receive_writes(struct intake *in, const struct rf_tcp_frame *frame)
{
	struct rf_regions *regions = in->tcp->regions;
	unsigned held, bad;

	/* Control stays quick only if no data can get in its way. */
	if (in->lane->number == 0)
		return broken(in, "writes on the control lane");
	if (frame->count < 1 || frame->count > RF_TCP_MAX_VECTORS || frame->bytes > RF_TCP_MAX_FRAME_BYTES)
		return broken(in, "a batch of impossible size");
	if (!fill_one(in, in->vectors, frame->count * sizeof(in->vectors[0]), false) || !check_vectors(in, frame))
		return false;
	if (!rf_regions_hold(regions, in->targets, frame->count, in->held, &held, &bad)) {
		rf_tcp_lose(in->tcp,
			    "%s wanted to write %" PRIu64 " bytes at 0x%" PRIx64
			    ", which it was not given: nothing was written",
			    in->tcp->peer, in->targets[bad].length, in->targets[bad].address);
		return false;
	}
	/* From here on it is as with a card: memory changes under whoever looks, until the message behind it is there. */
	bool ok = fill_in_place(in, in->iov, frame->count);

	rf_regions_let_go(regions, in->held, held);
	return ok;
}

static bool receive_message(struct intake *in, const struct rf_tcp_frame *frame)
{
	struct rf_events *events = in->tcp->events;

	if (frame->count || frame->bytes > in->tcp->fabric.limits.max_message_bytes)
		return broken(in, "a message of impossible size");
	/* Before the memory is asked for: a side that does not poll pushes back on its peer instead of growing. */
	if (!rf_events_wait_inbox(events, &in->lane->inbox, frame->bytes))
		return false;

	struct rf_event_node *node = rf_event_node_new(RF_EV_MESSAGE, 0, frame->bytes);

	if (!node) {
		rf_tcp_lose(in->tcp, "out of memory for a message of %" PRIu64 " bytes", frame->bytes);
		return false;
	}
	if (!fill_one(in, node->payload, frame->bytes, false)) {
		rf_event_node_free(node);
		return false;
	}
	node->event.lane = in->lane->number;
	node->event.length = frame->bytes;
	rf_events_post_message(events, &in->lane->inbox, node);
	return true;
}

static bool receive_frame(struct intake *in)
{
	struct rf_tcp_frame frame = {0};

	if (!fill_one(in, &frame, sizeof(frame), true))
		return false;
	switch (frame.kind) {
	case RF_TCP_WRITES:
		return receive_writes(in, &frame);
	case RF_TCP_MESSAGE:
		return receive_message(in, &frame);
	default:
		return broken(in, "a frame of unknown kind");
	}
}

/* While we flush our own last words, what the peer still says must not fill its window: it may be stuck in sending and
 * never read ours. */
static void discard(int fd)
{
	ssize_t got;

	do
		got = recv(fd, NULL, 1 << 20, MSG_TRUNC);
	while (got > 0 || (got < 0 && errno == EINTR));
}

void *rf_tcp_receiver(void *arg)
{
	struct rf_tcp_lane *lane = arg;
	struct rf_tcp *t = lane->tcp;
	struct intake *in = malloc(sizeof(*in));

	if (in) {
		in->lane = lane;
		in->tcp = t;
		rf_splice_open(&in->splice);
		while (receive_frame(in) && !atomic_load(&t->closing) && !rf_tcp_out_of_patience(t))
			;
		rf_splice_close(&in->splice);
		free(in);
	} else {
		rf_tcp_lose(t, "out of memory");
	}
	if (atomic_load(&t->closing)) {
		discard(lane->fd);
		rf_tcp_lose(t, "%s closed the connection", t->peer);
	}
	rf_tcp_receiver_ended(t);
	return NULL;
}
