// SPDX-License-Identifier: LGPL-2.1-or-later
/* A fabric: one-sided writes into the peer's memory, messages, blocking work, time and waiting.
 *
 * It is all that the engine knows of the world outside: the engine reads no clock, opens no file and starts no thread.
 * One thread drives a fabric (all operations but wake); everything that happens comes back as an event of poll().
 *
 * Lanes. Lane 0 is the control lane and carries messages only, so that they never wait behind data. Lanes 1 to `lanes`
 * carry writes, and messages that must not overtake them. Each lane is one connection and keeps its order: a message
 * sent on a lane is delivered when every write posted on that lane before it is visible to the peer's CPU.
 *
 * Not promised: any order between lanes; that RF_EV_WRITTEN comes before the peer's answer to what was written; that a
 * written buffer is read before RF_EV_WRITTEN, or only once. */
#ifndef RAMFERRY_FABRIC_FABRIC_H
#define RAMFERRY_FABRIC_FABRIC_H

#include "common/error.h"
#include "common/log.h"
#include "common/uri.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a registration is named by. Opaque to the engine; travels as it is. */
struct rf_key {
	uint64_t value[2];
};

/* What a registration is for: one of the first two, and perhaps the third. */
enum rf_access {
	RF_ACCESS_LOCAL_READ = 1,   /* source: writes are sent from there */
	RF_ACCESS_REMOTE_WRITE = 2, /* destination: the peer writes there. tcp populates the pages */
	RF_ACCESS_ON_DEMAND =
	    4, /* pin nothing, the card follows the page tables; only where limits.on_demand says so */
};

/* One transfer. `local` lies in one registration of this side, [remote, remote + length) in one of the peer's. */
struct rf_write {
	const void *local;
	struct rf_key lkey;
	uint64_t remote; /* the peer's address of the first byte */
	struct rf_key rkey;
	uint32_t length; /* 1 to limits.max_write_bytes */
};

enum rf_event_kind {
	RF_EV_REGISTERED, /* cookie; status; key */
	RF_EV_RELEASED,   /* cookie */
	RF_EV_WRITTEN,    /* lane; count: its oldest `count` writes need their local buffers no more, but may not have
			   * landed yet. 0, on any lane: room for what write() or send() did not take */
	RF_EV_MESSAGE,    /* lane; data, length: valid until the next poll */
	RF_EV_DONE,       /* cookie: the function given to run() has returned */
	RF_EV_WOKEN,      /* somebody called wake(); several calls may give one event */
	/* The peer is gone or broke the fabric's rules; text says what happened. Sent once; no message follows it, and
	 * writes in flight may never report. */
	RF_EV_LOST,
};

struct rf_event {
	enum rf_event_kind kind;
	unsigned lane;
	uint64_t cookie;
	int status; /* 0, or -1 with `text` */
	uint32_t count;
	struct rf_key key;
	const void *data;
	size_t length;
	const char *text; /* a sentence; valid until the next poll */
	int error_number; /* of a failed registration: an errno value. ENOMEM: less might go */
};

struct rf_fabric_config {
	unsigned lanes;       /* the connecting side's wish; the accepting side takes what the peer has. 0: choose */
	unsigned queue_depth; /* writes in flight per lane */
	unsigned workers;     /* threads for run() and reg(); 0: choose from the CPU count */
	int64_t connect_timeout_ns;
	const struct rf_log *log;

	/* For RDMA cards; other fabrics read past them. */
	unsigned signal_interval; /* ask for a completion every so many writes; 0: choose */
	uint32_t max_write_bytes; /* the engine will post no longer ones; 0: the card's limit counts */
	int64_t rdma_timeout_ns;  /* how long a card waits for an acknowledgement before it sends again; 0: choose */
	unsigned rdma_retry;      /* how often it sends again, 0 to 7 */
	unsigned traffic_class;   /* of IP or InfiniBand, 0 to 255 */
	const char *device;       /* NULL: the one that the address belongs to */
	int gid_index;            /* -1: the one that the address belongs to */
};

/* What this fabric can do; final once connected. */
struct rf_fabric_limits {
	unsigned lanes; /* lanes for writes: numbered 1 to lanes */
	unsigned queue_depth;
	uint32_t max_write_bytes;
	uint32_t max_message_bytes;
	unsigned max_spans; /* sensible number of registrations per chunk: many where they are cheap */
	bool local_keys;    /* does the sending side register too? */
	bool pins;          /* registered pages stay where they are: what the guest gives back (balloon) goes stale */
	bool on_demand;     /* RF_ACCESS_ON_DEMAND works here */
};

/* What was done so far, for people who tune. */
struct rf_fabric_counters {
	uint64_t registrations, registration_ns; /* that succeeded, and the time they took, added up over workers */
	uint64_t doorbells;                      /* times that posted work was handed to a card */
	uint64_t completions;                    /* that a card reported */
};

struct rf_fabric_ops;

struct rf_fabric {
	const struct rf_fabric_ops *ops;
	struct rf_fabric_limits limits;
};

/* Unless said otherwise: 0 is success, -1 failure with *e filled in. */
struct rf_fabric_ops {
	const char *scheme; /* "tcp", "rdma", "sim" */

	/* What does this host offer? A sentence for people into `text`; -1 when it cannot serve here, with the reason. */
	int (*probe)(char *text, size_t length, struct rf_error *e);

	int (*open)(const struct rf_fabric_config *config, struct rf_fabric **out, struct rf_error *e);

	/* Wait for a peer at `uri`; accept() takes the first that speaks this fabric's language, strangers are logged and
	 * sent away. Both accept and connect end early with RF_E_CANCELLED after wake(). timeout_ns < 0: for ever. */
	int (*listen)(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);
	/* Where it listens, as a URI. */
	int (*address)(struct rf_fabric *f, char *text, size_t length, struct rf_error *e);
	int (*accept)(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e);
	int (*connect)(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e);

	/* Ends everything; what was sent before still goes out if the peer takes it within a second (by a card: five).
	 * Waits for work given to run(). Frees f. NULL is fine. */
	void (*close)(struct rf_fabric *f);

	/* A hint, for memory that the peer will write to: [address, address + length) is a shared mapping of `fd` from
	 * `offset` on, both for as long as the fabric lives. A fabric whose data passes through the CPU may put it into
	 * the file. NULL where it means nothing. */
	void (*file)(struct rf_fabric *f, const void *address, uint64_t length, int fd, uint64_t offset);

	/* May this process keep `bytes` of memory registered at once? -1 (RF_E_REFUSED) with the bytes that are missing
	 * and how to get them. NULL: nothing is pinned here. Good from open() on. */
	int (*can_pin)(struct rf_fabric *f, uint64_t bytes, struct rf_error *e);

	/* NULL where there is nothing to count. */
	void (*count)(struct rf_fabric *f, struct rf_fabric_counters *counters);

	/* → RF_EV_REGISTERED. [address, address + length) is page-aligned and stays mapped until released. */
	int (*reg)(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie);
	/* → RF_EV_RELEASED. No write uses it any more. */
	int (*dereg)(struct rf_fabric *f, struct rf_key key, uint64_t cookie);

	/* How many of the n were taken, in order: 0 when the lane is full (an RF_EV_WRITTEN will come), -1 when lost. */
	int (*write)(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n);

	/* Copies the message. 1 taken, 0 try again after the next event, -1 lost. */
	int (*send)(struct rf_fabric *f, unsigned lane, const void *message, size_t length);

	/* Run fn(arg) on a worker → RF_EV_DONE. -1 only for lack of memory. */
	int (*run)(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie);

	/* Up to `max` events; waits for the first until timeout_ns has passed (0: do not wait, < 0: for ever). The number
	 * of events. Never fails: what goes wrong is an event. */
	int (*poll)(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns);

	/* From any thread or signal handler: poll, accept or connect returns soon. */
	void (*wake)(struct rf_fabric *f);

	int64_t (*now)(struct rf_fabric *f); /* monotonic nanoseconds; virtual in sim */
};

extern const struct rf_fabric_ops rf_fabric_tcp;
extern const struct rf_fabric_ops rf_fabric_verbs; /* "rdma"; only in builds with rdma-core */

/* The fabric for a URI's scheme; NULL with a sentence (RF_E_USAGE) that names those there are. */
const struct rf_fabric_ops *rf_fabric_find(const char *scheme, struct rf_error *e);

#endif
