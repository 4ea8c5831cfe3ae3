// SPDX-License-Identifier: LGPL-2.1-or-later
/* A peer of the tcp fabric that keeps no rules: plain sockets, and bytes as a test wants them. */
#ifndef RAMFERRY_TESTS_UNIT_FABRIC_RAW_PEER_H
#define RAMFERRY_TESTS_UNIT_FABRIC_RAW_PEER_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "fabric/fabric.h"
#include "fabric/tcp_wire.h"

#include <pthread.h>

#define SECONDS(n) ((n)*INT64_C(1000000000))
#define MILLIS(n)  ((n)*INT64_C(1000000))

/* Sentences that the fabric logged. */
struct raw_log {
	struct rf_log log;
	pthread_mutex_t lock;
	char text[8000];
};
void raw_log_init(struct raw_log *l);
bool raw_log_has(struct raw_log *l, const char *part);

/* An open fabric; listening at 127.0.0.1 or the given host, with *uri where. */
struct rf_fabric *raw_open(unsigned lanes, int64_t connect_timeout_ns, const struct rf_log *log);
struct rf_fabric *raw_listen(const char *host, const struct rf_log *log, struct rf_uri *uri);

/* accept() on a thread. */
struct raw_accept {
	pthread_t thread;
	struct rf_fabric *f;
	int64_t timeout_ns;
	int result;
	struct rf_error e;
};
void raw_accept_start(struct raw_accept *a, struct rf_fabric *f, int64_t timeout_ns);
int raw_accept_end(struct raw_accept *a);

/* A source that connects with real rules; closes the fabric again. 0 or -1 with *e. */
int raw_try_source(const struct rf_uri *uri, unsigned lanes, struct rf_error *e);

/* Blocking sockets that give up after 10 s. */
int raw_connect(const struct rf_uri *uri);
int raw_server(struct rf_uri *uri); /* a listening one at 127.0.0.1 */
int raw_take(int listener);

struct rf_tcp_preamble raw_hello(uint16_t lane, uint16_t lanes);
void raw_send(int fd, const void *bytes, size_t length);
size_t raw_read(int fd, void *bytes, size_t length); /* fewer at the end of the stream */
bool raw_is_closed(int fd);                          /* waits for it */

/* A fabric and its raw source with `lanes` lanes, past the preambles. fds[0] is control. */
struct raw_pair {
	struct rf_fabric *f;
	struct raw_log log;
	int fds[5];
	unsigned count;
};
void raw_pair_open(struct raw_pair *p, unsigned lanes);
void raw_pair_close(struct raw_pair *p);

/* The next event but RF_EV_WRITTEN, within 10 s. */
struct rf_event raw_event(struct rf_fabric *f);
/* Events until the loss; its sentence must have `part` in it. */
void raw_expect_loss(struct rf_fabric *f, const char *part);

#endif
