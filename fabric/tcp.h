// SPDX-License-Identifier: LGPL-2.1-or-later
/* Inside of the tcp fabric.
 *
 * Each lane has a socket, a sender thread and a receiver thread; the driving thread never touches a socket once connected.
 * The sender makes one frame of all writes that wait (up to 1023 pieces), so batches grow by themselves when the network
 * is slower than the engine. The receiver checks a frame's targets and then reads from the socket into their place.
 *
 * Loss. The first thread that sees trouble on any lane records the sentence (rf_tcp_lose) and ends reading on all lanes;
 * what had already arrived is still delivered. The last receiver to end tells RF_EV_LOST, so it follows all messages. */
#ifndef RAMFERRY_FABRIC_TCP_H
#define RAMFERRY_FABRIC_TCP_H

#include "common/error.h"
#include "common/workers.h"
#include "fabric/events.h"
#include "fabric/fabric.h"
#include "fabric/files.h"
#include "fabric/regions.h"
#include "fabric/tcp_wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rf_tcp_listener;

/* One thing to send: a write, or a message (then `local` is our copy, freed once sent). */
struct rf_tcp_post {
	const void *local;
	uint64_t remote, key;
	uint32_t length;
	bool is_message;
};

enum {
	RF_TCP_QUEUED_MESSAGES = 128, /* per lane, beside the writes */
	RF_TCP_QUEUED_MESSAGE_BYTES = 8 << 20,
};

struct rf_tcp_lane {
	struct rf_tcp *tcp;
	unsigned number;
	int fd;
	bool started; /* its two threads run */
	pthread_t sender, receiver;

	/* The ring of posts. The driving thread fills at `posted`, the sender empties at `taken`; what lies between
	 * belongs to the sender alone and is read without the lock. */
	pthread_mutex_t lock;
	pthread_cond_t work; /* something was posted, or the lane ends */
	struct rf_tcp_post *ring;
	uint64_t ring_mask;
	uint64_t posted, taken;
	unsigned writes, messages; /* in the ring */
	size_t message_bytes;
	bool sender_idle;
	bool full;   /* write() or send() found no room: an event must follow */
	bool ending; /* send what is in the ring, then end */
	bool drained;
	struct rf_event_node written;

	struct rf_inbox inbox;
};

struct rf_tcp {
	struct rf_fabric fabric; /* first: an rf_fabric pointer is an rf_tcp pointer */
	struct rf_fabric_config config;
	struct rf_events *events;
	struct rf_regions *regions;
	struct rf_files files; /* that the memory of either side is a mapping of */
	struct rf_workers *workers;
	struct rf_tcp_listener *listener;
	char peer[300]; /* "host:port" for sentences */

	struct rf_tcp_lane *lanes; /* lane_count of them: control and limits.lanes; none before connected */
	unsigned lane_count;

	pthread_mutex_t lock;
	pthread_cond_t drained; /* a sender has ended */
	unsigned receivers;     /* that still run */
	atomic_bool losing;
	int64_t losing_since_ns;
	char loss[500];
	struct rf_event_node lost;
	atomic_bool closing;
};

static inline struct rf_tcp *rf_tcp_of(struct rf_fabric *f)
{
	return (struct rf_tcp *)f;
}

/* tcp.c: the lanes of a connection. fds[0] is control; on failure they still belong to the caller. */
int rf_tcp_start(struct rf_tcp *t, const int *fds, unsigned lane_count, const struct rf_tcp_preamble *peer,
		 struct rf_error *e);

/* tcp_loss.c: something went wrong on a lane; the first sentence counts. */
void rf_tcp_lose(struct rf_tcp *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rf_tcp_receiver_ended(struct rf_tcp *t);
bool rf_tcp_out_of_patience(struct rf_tcp *t); /* losing, and what had arrived was given time enough */

/* tcp_socket.c */
int rf_tcp_tune(int fd);
void rf_tcp_fill_preamble(struct rf_tcp_preamble *p, enum rf_tcp_status status);
bool rf_tcp_magic_fits(const struct rf_tcp_preamble *p, size_t received);
void rf_tcp_quote(const void *bytes, size_t length, char *text, size_t room); /* as C would write it */

/* tcp_send.c */
void *rf_tcp_sender(void *arg); /* a lane */
int rf_tcp_post_writes(struct rf_tcp_lane *lane, const struct rf_write *w, int n);
int rf_tcp_post_message(struct rf_tcp_lane *lane, const void *message, size_t length);

/* tcp_recv.c */
void *rf_tcp_receiver(void *arg); /* a lane */

/* tcp_connect.c, tcp_listen.c, tcp_accept.c */
int rf_tcp_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);
int rf_tcp_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);
int rf_tcp_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e);
int rf_tcp_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e);
void rf_tcp_stop_listening(struct rf_tcp *t);

/* tcp_work.c */
int rf_tcp_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie);
int rf_tcp_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie);
int rf_tcp_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie);

/* populate.c: first touch of [address, address + length) without changing it, in pieces until *stop. 0 or an errno. */
int rf_populate(void *address, uint64_t length, const atomic_bool *stop);

#endif
