// SPDX-License-Identifier: LGPL-2.1-or-later
/* A fabric whose only activity is what a test gives it: for parts of the engine that a test drives alone. */
#ifndef RAMFERRY_TESTS_QUIET_FABRIC_H
#define RAMFERRY_TESTS_QUIET_FABRIC_H

#include "engine/peer.h"

enum { QUIET_MESSAGES = 64 };

struct quiet_fabric {
	struct rf_fabric base;
	struct rf_event events[64]; /* what poll() gives next */
	int nevents;
	int64_t now_ns; /* moves on with every poll by its timeout */
	uint8_t sent[QUIET_MESSAGES][RF_MESSAGE_BYTES_MAX];
	size_t sent_length[QUIET_MESSAGES];
	int nsent;
	struct rf_options options;
	struct rf_stats stats;
	atomic_bool cancelled;
	struct rf_engine engine;
	struct rf_peer peer;
};

/* A connected source over it. `guest` may be NULL. */
struct quiet_fabric *quiet_fabric_new(struct rf_guest *guest);
void quiet_fabric_free(struct quiet_fabric *q);

/* The message sent as the n-th, parsed; fails the test when there is none. */
struct rf_message quiet_sent(struct quiet_fabric *q, int n);

/* Build a message as the peer would; valid until the next call. */
struct rf_message quiet_message(const struct rf_out *o);

#endif
