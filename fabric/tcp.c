// SPDX-License-Identifier: LGPL-2.1-or-later
/* The tcp fabric: its operations, its beginning and its end. tcp.h tells how it works. */
#include "fabric/tcp.h"

#include "common/checked.h"
#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	DEFAULT_LANES = 8,          /* at most; fewer on fewer CPUs */
	DEFAULT_QUEUE_DEPTH = 2048, /* one full batch on its way, the next one gathering */
	MAX_QUEUE_DEPTH = 1 << 16,
	FLUSH_NS = 1000 * 1000 * 1000,
};

static unsigned choose(unsigned wish, unsigned otherwise, unsigned maximum)
{
	return (unsigned)rf_max_u64(1, rf_min_u64(wish ? wish : otherwise, maximum));
}

static int tcp_probe(char *text, size_t length, struct rf_error *e)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "this host gives no TCP sockets");
	close(fd);
	snprintf(text, length, "TCP sockets; %u lane(s) by default on %u CPU(s)",
		 choose(0, rf_cpu_count(), DEFAULT_LANES), rf_cpu_count());
	return 0;
}

static int tcp_open(const struct rf_fabric_config *config, struct rf_fabric **out, struct rf_error *e)
{
	struct rf_tcp *t = calloc(1, sizeof(*t));
	unsigned cpus = rf_cpu_count();
	pthread_condattr_t monotonic;

	*out = NULL;
	if (!t)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	t->config = *config;
	t->fabric.ops = &rf_fabric_tcp;
	t->fabric.limits = (struct rf_fabric_limits){
	    .lanes = choose(config->lanes, (unsigned)rf_min_u64(cpus, DEFAULT_LANES), RF_TCP_MAX_LANES),
	    .queue_depth = choose(config->queue_depth, DEFAULT_QUEUE_DEPTH, MAX_QUEUE_DEPTH),
	    .max_write_bytes = RF_TCP_MAX_WRITE_BYTES,
	    .max_message_bytes = RF_TCP_MAX_MESSAGE_BYTES,
	    .max_spans = 64,
	};
	if (rf_events_open(&t->events, e) < 0)
		goto free_fabric;
	t->regions = rf_regions_open(t->events);
	if (!t->regions) {
		rf_fail(e, RF_E_FAILED, "out of memory");
		goto close_events;
	}
	/* A guest operation may hold a worker for half a minute; the others must still keep every CPU busy. */
	if (rf_workers_open(&t->workers, choose(config->workers, cpus + 2, 256), e) < 0)
		goto close_regions;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->drained, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = &t->fabric;
	return 0;

close_regions:
	rf_regions_close(t->regions);
close_events:
	rf_events_close(t->events);
free_fabric:
	free(t);
	return -1;
}

/* Everything but the threads. The ring has room for a full queue of writes and of messages, so posting checks counts only. */
static int lane_init(struct rf_tcp *t, struct rf_tcp_lane *lane, unsigned number, int fd)
{
	uint64_t room = 1;

	while (room < t->fabric.limits.queue_depth + RF_TCP_QUEUED_MESSAGES)
		room *= 2;
	*lane = (struct rf_tcp_lane){.tcp = t, .number = number, .fd = fd, .ring_mask = room - 1};
	lane->written.event = (struct rf_event){.kind = RF_EV_WRITTEN, .lane = number};
	lane->ring = calloc(room, sizeof(lane->ring[0]));
	if (!lane->ring)
		return -1;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_cond_init(&lane->work, NULL);
	return 0;
}

/* Sockets were non-blocking while they were made; the lane's own threads may wait in them. 0 or an errno value. */
static int lane_start(struct rf_tcp_lane *lane)
{
	char name[16];
	int flags = fcntl(lane->fd, F_GETFL);

	if (flags < 0 || fcntl(lane->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
		return errno;
	snprintf(name, sizeof(name), "tcp-send-%u", lane->number);
	int err = rf_thread_start(&lane->sender, name, rf_tcp_sender, lane);

	if (err)
		return err;
	snprintf(name, sizeof(name), "tcp-recv-%u", lane->number);
	err = rf_thread_start(&lane->receiver, name, rf_tcp_receiver, lane);
	if (err) {
		pthread_mutex_lock(&lane->lock);
		lane->ending = true;
		pthread_cond_signal(&lane->work);
		pthread_mutex_unlock(&lane->lock);
		pthread_join(lane->sender, NULL);
		return err;
	}
	lane->started = true;
	return 0;
}

/* Ends the threads of the lanes whatever they do. The sockets stay open, but dead. */
static void end_lanes(struct rf_tcp *t)
{
	for (unsigned i = 0; i < t->lane_count; i++) {
		struct rf_tcp_lane *lane = &t->lanes[i];

		shutdown(lane->fd, SHUT_RDWR);
		pthread_mutex_lock(&lane->lock);
		lane->ending = true;
		pthread_cond_signal(&lane->work);
		pthread_mutex_unlock(&lane->lock);
	}
	for (unsigned i = 0; i < t->lane_count; i++) {
		if (!t->lanes[i].started)
			continue;
		pthread_join(t->lanes[i].sender, NULL);
		pthread_join(t->lanes[i].receiver, NULL);
	}
}

/* Once their threads have ended and nobody polls: an event of a lane may still be in the queue. */
static void free_lanes(struct rf_tcp *t)
{
	for (unsigned i = 0; i < t->lane_count; i++) {
		struct rf_tcp_lane *lane = &t->lanes[i];

		for (; lane->taken < lane->posted; lane->taken++) {
			struct rf_tcp_post *post = &lane->ring[lane->taken & lane->ring_mask];

			if (post->is_message)
				free((void *)(uintptr_t)post->local);
		}
		free(lane->ring);
		pthread_cond_destroy(&lane->work);
		pthread_mutex_destroy(&lane->lock);
	}
	free(t->lanes);
	t->lanes = NULL;
	t->lane_count = 0;
}

int rf_tcp_start(struct rf_tcp *t, const int *fds, unsigned lane_count, const struct rf_tcp_preamble *peer,
		 struct rf_error *e)
{
	int err = ENOMEM;

	assert(!t->lanes);
	t->lanes = calloc(lane_count, sizeof(t->lanes[0]));
	if (!t->lanes)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	t->fabric.limits.lanes = lane_count - 1;
	t->fabric.limits.max_message_bytes =
	    (uint32_t)rf_min_u64(t->fabric.limits.max_message_bytes, peer->max_message_bytes);
	for (; t->lane_count < lane_count; t->lane_count++)
		if (lane_init(t, &t->lanes[t->lane_count], t->lane_count, fds[t->lane_count]) < 0)
			goto end;
	/* All lanes are there before the first thread can lose them. */
	t->receivers = lane_count;
	for (unsigned i = 0; i < lane_count; i++) {
		err = lane_start(&t->lanes[i]);
		if (err)
			goto end;
	}
	return 0;

end:
	atomic_store(&t->closing, true);
	end_lanes(t);
	free_lanes(t);
	return rf_fail_errno(e, RF_E_FAILED, err, "cannot start the lanes to %s", t->peer);
}

static bool all_drained(const struct rf_tcp *t)
{
	for (unsigned i = 0; i < t->lane_count; i++)
		if (!t->lanes[i].drained)
			return false;
	return true;
}

/* Has the peer's kernel taken every byte? Until then, closing a socket with unread data in it would destroy them. */
static bool all_acknowledged(const struct rf_tcp *t)
{
	for (unsigned i = 0; i < t->lane_count; i++) {
		int unsent = 0;

		if (ioctl(t->lanes[i].fd, SIOCOUTQ, &unsent) == 0 && unsent)
			return false;
	}
	return true;
}

/* All lanes are flushed before the first is closed: the peer must not see the end of one lane before the last message
 * on another. */
static void flush(struct rf_tcp *t)
{
	int64_t deadline = rf_monotonic_ns() + FLUSH_NS;
	struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};

	for (unsigned i = 0; i < t->lane_count; i++) {
		pthread_mutex_lock(&t->lanes[i].lock);
		t->lanes[i].ending = true;
		pthread_cond_signal(&t->lanes[i].work);
		pthread_mutex_unlock(&t->lanes[i].lock);
	}
	pthread_mutex_lock(&t->lock);
	while (!all_drained(t) && !atomic_load(&t->losing))
		if (pthread_cond_timedwait(&t->drained, &t->lock, &until))
			break;
	pthread_mutex_unlock(&t->lock);
	while (!all_acknowledged(t) && !atomic_load(&t->losing) && rf_monotonic_ns() < deadline)
		poll(NULL, 0, 1);
}

/* The order: nobody new comes in, what was sent goes out, the lanes' threads end, then the workers, and last the queue
 * that all of them post to. */
static void tcp_close(struct rf_fabric *f)
{
	struct rf_tcp *t = rf_tcp_of(f);

	if (!f)
		return;
	rf_tcp_stop_listening(t);
	atomic_store(&t->closing, true);
	rf_events_refuse_messages(t->events);
	flush(t);

	end_lanes(t);
	for (unsigned i = 0; i < t->lane_count; i++)
		close(t->lanes[i].fd);
	rf_workers_close(t->workers);
	rf_regions_close(t->regions);
	rf_events_close(t->events);
	free_lanes(t);
	rf_files_close(&t->files);
	pthread_cond_destroy(&t->drained);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct rf_tcp_lane *lane_at(struct rf_tcp *t, unsigned number)
{
	assert(number < t->lane_count);
	return &t->lanes[number];
}

static int tcp_write(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n)
{
	assert(lane >= 1);
	return rf_tcp_post_writes(lane_at(rf_tcp_of(f), lane), w, n);
}

static int tcp_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	return rf_tcp_post_message(lane_at(rf_tcp_of(f), lane), message, length);
}

static int tcp_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	return rf_events_poll(rf_tcp_of(f)->events, events, max, timeout_ns);
}

static void tcp_wake(struct rf_fabric *f)
{
	rf_events_wake(rf_tcp_of(f)->events);
}

static int64_t tcp_now(struct rf_fabric *f)
{
	return rf_monotonic_ns();
}

/* A file lets in one writer at a time, about 3 GB a second; a mapping any number. Two lanes keep each other company there,
 * with more the mapping is faster, and its pages are made ahead of the data. (Lanes that go by the mapping only while the
 * file is busy were tried, and are slower than either.) */
static void tcp_file(struct rf_fabric *f, const void *address, uint64_t length, int fd, uint64_t offset)
{
	if (f->limits.lanes <= RF_FILE_LANES_MAX)
		rf_files_add(&rf_tcp_of(f)->files, address, length, fd, offset);
}

const struct rf_fabric_ops rf_fabric_tcp = {
    .scheme = "tcp",
    .probe = tcp_probe,
    .open = tcp_open,
    .listen = rf_tcp_listen,
    .address = rf_tcp_address,
    .accept = rf_tcp_accept,
    .connect = rf_tcp_connect,
    .close = tcp_close,
    .file = tcp_file,
    .reg = rf_tcp_reg,
    .dereg = rf_tcp_dereg,
    .write = tcp_write,
    .send = tcp_send,
    .run = rf_tcp_run,
    .poll = tcp_poll,
    .wake = tcp_wake,
    .now = tcp_now,
};
