// SPDX-License-Identifier: LGPL-2.1-or-later
/* Inside of the verbs fabric: RDMA cards, by librdmacm and libibverbs.
 *
 * Each lane is a reliable connection (RC queue pair). There is no thread per lane: the driving thread posts, and poll()
 * takes completions from one queue that all lanes share, spins for a little while when they come thick and fast, and
 * otherwise sleeps on the card's completion channel, the connection manager's channel and our own queue of events, into
 * which workers put what they have done (registrations, the engine's blocking work).
 *
 * Credits. A SEND that finds no receive posted makes the card try again and again (RNR), so none is sent without knowing
 * that its buffer is there: each side begins with the number of buffers in the other's hello, and one is given back when the
 * engine is done with the message in it (at the next poll) and it is posted again. What was given back on any lane is told on
 * lane 0, alone, because there it never waits behind data: in the head of every frame, and where too few go that way in a
 * frame of its own. Such a frame needs a buffer too. So a message leaves one credit on lane 0, and a frame of credits may
 * take the last one only if it gives at least one of lane 0 back: then both sides cannot come to nothing at once.
 *
 * The send queue of a lane completes in order, and a completion is asked for at a batch's end and every few writes. Each lane
 * remembers what it posted in a ring, and a completion names a place in it: all up to there is done.
 *
 * Loss. Whoever sees trouble first writes the sentence (rf_verbs_lose) and moves all lanes to the error state. What had
 * arrived is still in the completion queue and is delivered; RF_EV_LOST follows when it is empty. The card's errors after
 * the first are consequences and say nothing new.
 *
 * The library's context of a device is shared by the whole process, so its asynchronous events are left alone: another
 * migration could be waiting for them. All that matters comes another way: a removed device by the connection manager, a
 * broken queue pair by its completions; and a port that is down is nothing to act on, for retries may outlive it. */
#ifndef RAMFERRY_FABRIC_VERBS_H
#define RAMFERRY_FABRIC_VERBS_H

#include "common/error.h"
#include "common/workers.h"
#include "fabric/events.h"
#include "fabric/fabric.h"
#include "fabric/verbs_wire.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RF_VERBS_RAISE_MEMLOCK "raise the limit of locked memory (ulimit -l, or LimitMEMLOCK= of a service)"

enum {
	RF_VERBS_MAX_LISTENERS = 8,
	RF_VERBS_CREDIT_FRAMES = 2, /* in flight */
	RF_VERBS_HUGE = 64,         /* mappings of huge pages that are known as such */
};

/* One work request in a send queue. */
enum rf_verbs_post { RF_VERBS_POST_WRITE, RF_VERBS_POST_MESSAGE, RF_VERBS_POST_CREDITS };

struct rf_verbs_lane {
	struct rf_verbs *verbs;
	unsigned number;
	struct rdma_cm_id *id;
	bool established;

	/* What is in the send queue: a rf_verbs_post for each place from `completed` to `posted`. */
	uint8_t *ring;
	uint32_t ring_mask;
	uint32_t posted, completed;
	unsigned writes, messages, credit_frames; /* of them */
	unsigned unsignaled;                      /* writes since the last that asks for a completion */

	/* Buffers, one registered piece: `receives` for frames that come, `sends` for those that go, and those for credits.
	 * Frames leave in order, so that the next buffer is always the one that is longest free. */
	uint8_t *buffers;
	struct ibv_mr *buffers_mr;
	unsigned receives, sends;
	uint32_t next_send, next_credit_frame;

	uint32_t peer_receives;    /* buffers that the peer has for us */
	uint32_t sent, returned;   /* frames sent, and how many of their buffers the peer has posted again */
	uint32_t given_back, told; /* our buffers posted again, and what of it the peer knows */
	uint16_t *delivered;       /* receives whose message the engine has until the next poll */
	unsigned delivered_count;

	uint32_t written; /* writes done that the engine does not know of yet */
	bool starved;     /* send() or write() found no room: an event must follow */
};

/* What a registration is named by: see verbs_regions.c. */
struct rf_verbs_region {
	struct ibv_mr *mr; /* NULL: free */
	uint32_t serial;
	uint32_t next_free;
};

struct rf_verbs {
	struct rf_fabric fabric; /* first: an rf_fabric pointer is an rf_verbs pointer */
	struct rf_fabric_config config;
	struct rf_events *events;
	struct rf_workers *workers;
	struct rdma_event_channel *channel;
	char peer[300]; /* "host:port" for sentences */

	struct rdma_cm_id *listeners[RF_VERBS_MAX_LISTENERS];
	unsigned listener_count;

	/* The device, from the first lane on. */
	struct ibv_context *context; /* librdmacm's; NULL: none yet */
	uint8_t port;
	bool accepted; /* the peer connected to us, not we to it */
	struct ibv_device_attr device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	atomic_bool relaxed_ordering; /* until the card has refused it */

	struct rf_verbs_lane *lanes; /* lane_count of them: control and limits.lanes; none before connected */
	unsigned lane_count;

	/* poll() */
	bool armed;         /* the completion channel will ring */
	bool drained;       /* the completion queue was empty at the last look */
	int64_t cm_look_ns; /* when the connection manager was asked last */
	int64_t gap_ns;     /* how long nothing came before something did, on average; decides whether to spin */
	bool may_spin;

	bool flushed; /* a request was given up on flushed_lane, and nobody has said yet why */
	unsigned flushed_lane;
	int64_t flushed_ns;
	bool losing, lost; /* the sentence is known; it was told */
	char loss[500];

	pthread_mutex_t lock; /* the table of registrations */
	struct rf_verbs_region *regions;
	uint32_t region_count, region_room, free_region;

	/* Filled by the driving thread, read by workers. */
	struct {
		uint64_t address, length;
	} huge[RF_VERBS_HUGE];
	atomic_uint huge_count;

	atomic_uint_least64_t registrations, registration_ns;
	uint64_t doorbells, completion_count;
};

static inline struct rf_verbs *rf_verbs_of(struct rf_fabric *f)
{
	return (struct rf_verbs *)f;
}

/* ---- verbs_hello.c: introductions, and what to think of them ---- */

void rf_verbs_fill_hello(struct rf_verbs_hello *h, enum rf_verbs_status status);
bool rf_verbs_is_hello(const void *data, size_t length);
bool rf_verbs_hello_makes_sense(const struct rf_verbs_hello *h);
/* Who else speaks like that? A few words for a log. */
const char *rf_verbs_stranger(const void *data, size_t length);

/* ---- verbs_device.c: the card of this migration, and all there are ---- */

int rf_verbs_device_open(struct rf_verbs *v, struct rdma_cm_id *id, unsigned lane_count, struct rf_error *e);
void rf_verbs_device_close(struct rf_verbs *v); /* no queue pair and no registration is left */
int rf_verbs_port_is_up(struct rdma_cm_id *id, struct rf_error *e);

/* verbs_devices.c. How many; in `text` "rxe0 (10.0.0.1, fe80::1%rdma0)" and so on, or why there is none. */
unsigned rf_verbs_devices(char *text, size_t room);
/* The address of config.device and config.gid_index to talk to `to` from; `length` 0 when nothing was asked for. */
int rf_verbs_own_address(const struct rf_fabric_config *config, const struct sockaddr *to, struct sockaddr_storage *own,
			 socklen_t *length, struct rf_error *e);

/* ---- verbs_cm.c: the connection manager ---- */

/* What of an event survives its acknowledgement. */
struct rf_verbs_cm_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	uint8_t data[256];
	size_t length;
};

int rf_verbs_channel_open(struct rf_verbs *v, struct rf_error *e); /* if it is not yet */
/* 1: *event is the next; 0: none came until the deadline; -1: woken. */
int rf_verbs_cm_wait(struct rf_verbs *v, struct rf_verbs_cm_event *event, int64_t deadline_ns, struct rf_error *e);
/* The next, if there is one: does not wait. */
bool rf_verbs_cm_next(struct rf_verbs *v, struct rf_verbs_cm_event *event);
int rf_verbs_set_options(struct rf_verbs *v, struct rdma_cm_id *id, struct rf_error *e);

/* ---- verbs_lane.c: queue pairs and buffers ---- */

int rf_verbs_lanes_new(struct rf_verbs *v, unsigned lane_count, struct rf_error *e);
/* The queue pair, with its receives posted. The lane keeps the id. */
int rf_verbs_lane_open(struct rf_verbs *v, unsigned number, struct rdma_cm_id *id, struct rf_error *e);
void rf_verbs_lane_meet(struct rf_verbs_lane *lane, const struct rf_verbs_hello *peer);
/* Frees all that belongs to the connection: lanes, registrations, device. */
void rf_verbs_lanes_free(struct rf_verbs *v);
int rf_verbs_post_receive(struct rf_verbs_lane *lane, unsigned buffer);
uint8_t *rf_verbs_receive_buffer(const struct rf_verbs_lane *lane, unsigned buffer);
uint8_t *rf_verbs_send_buffer(const struct rf_verbs_lane *lane, unsigned buffer);
uint8_t *rf_verbs_credit_buffer(const struct rf_verbs_lane *lane, unsigned buffer);
unsigned rf_verbs_receives(unsigned lane, unsigned lanes);         /* how many buffers a lane has for what comes */
uint64_t rf_verbs_own_bytes(unsigned lanes, unsigned queue_depth); /* that a connection pins for itself, at most */

/* A completion's name: the lane, and a place in its ring or a receive buffer. */
static inline uint64_t rf_verbs_name(unsigned lane, bool receive, uint32_t place)
{
	return (uint64_t)receive << 63 | (uint64_t)lane << 32 | place;
}

/* ---- verbs_connect.c, verbs_listen.c, verbs_accept.c ---- */

int rf_verbs_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);
int rf_verbs_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);
int rf_verbs_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e);
int rf_verbs_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e);
void rf_verbs_stop_listening(struct rf_verbs *v);

/* ---- verbs_send.c ---- */

int rf_verbs_write(struct rf_fabric *f, unsigned number, const struct rf_write *w, int n);
int rf_verbs_send(struct rf_fabric *f, unsigned number, const void *message, size_t length);
bool rf_verbs_can_send(const struct rf_verbs_lane *lane);
void rf_verbs_tell_credits(struct rf_verbs *v); /* where it is time */

/* ---- verbs_complete.c ---- */

/* One completion; 1 if *event was made of it. */
int rf_verbs_complete(struct rf_verbs *v, const struct ibv_wc *wc, struct rf_event *event);

/* ---- verbs_poll.c ---- */

int rf_verbs_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns);
void rf_verbs_look_at_cm(struct rf_verbs *v);
void rf_verbs_flush(struct rf_verbs *v, int64_t patience_ns);  /* until all that was posted is done */
void rf_verbs_linger(struct rf_verbs *v, int64_t patience_ns); /* until the peer goes */

/* ---- verbs_loss.c ---- */

void rf_verbs_lose(struct rf_verbs *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rf_verbs_failed(struct rf_verbs *v, const struct ibv_wc *wc); /* a completion with an error */
void rf_verbs_broken_off(struct rf_verbs *v);                      /* nobody said why */

/* ---- verbs_regions.c ---- */

int rf_verbs_add_region(struct rf_verbs *v, struct ibv_mr *mr, struct rf_key *key); /* -1: no memory */
/* The registration is the caller's again; NULL: the key names nothing (any more). */
struct ibv_mr *rf_verbs_take_region(struct rf_verbs *v, struct rf_key key);
void rf_verbs_regions_free(struct rf_verbs *v); /* and all in it */

/* ---- verbs_memory.c, verbs_memlock.c ---- */

void rf_verbs_file(struct rf_fabric *f, const void *address, uint64_t length, int fd, uint64_t offset);
int rf_verbs_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie);
int rf_verbs_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie);
int rf_verbs_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie);
int rf_verbs_can_pin(struct rf_fabric *f, uint64_t bytes, struct rf_error *e);

#endif
