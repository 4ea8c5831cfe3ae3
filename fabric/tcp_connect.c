// SPDX-License-Identifier: LGPL-2.1-or-later
/* The source's way to its peer: every address is tried for the first lane; the other lanes follow to the one that
 * answered. Nothing was touched when it fails, so failures are RF_E_REFUSED. */
#include "fabric/tcp.h"

#include "common/sizes.h"
#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

struct connecting {
	struct rf_tcp *t;
	int64_t deadline_ns;
	struct rf_tcp_preamble hello;  /* ours */
	struct rf_tcp_preamble answer; /* to lane 0 */
	int fds[1 + RF_TCP_MAX_LANES];
	unsigned count;
	bool reached; /* the last attempt got as far as a connection */
};

static int too_late(const struct connecting *c, const char *what, struct rf_error *e)
{
	char limit[40];

	rf_format_duration((uint64_t)c->t->config.connect_timeout_ns, limit, sizeof(limit));
	return rf_fail(e, RF_E_REFUSED, "%s %s within %s", c->t->peer, what, limit);
}

/* A connected socket, or -1. Non-blocking until the lanes start, so that wake() and the time limit count everywhere. */
static int connect_one(const struct connecting *c, const struct addrinfo *a, int64_t deadline_ns, struct rf_error *e)
{
	struct rf_tcp *t = c->t;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(int);
	int err = 0, r;

	if (fd < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot make a socket for %s", t->peer);
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		struct pollfd p[2] = {{0}, {.fd = fd, .events = POLLOUT}};

		if (errno != EINPROGRESS) {
			err = errno;
			goto failed;
		}
		r = rf_wait_sockets(t->events, p, 2, deadline_ns, e);
		if (r == 0)
			too_late(c, "does not answer", e);
		if (r <= 0)
			goto close_socket;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &length) < 0 || err)
			goto failed;
	}
	if (rf_tcp_tune(fd) == 0)
		return fd;
	err = errno;

failed:
	rf_fail_errno(e, RF_E_REFUSED, err, "cannot connect to %s", t->peer);
close_socket:
	close(fd);
	return -1;
}

static int send_hello(const struct connecting *c, int fd, unsigned lane, struct rf_error *e)
{
	struct rf_tcp_preamble hello = c->hello;

	hello.lane = (uint16_t)lane;
	/* A fresh socket has room for 64 bytes, so there is nothing to wait for. */
	ssize_t sent = send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);

	if (sent == sizeof(hello))
		return 0;
	return rf_fail_errno(e, RF_E_REFUSED, sent < 0 ? errno : EIO, "cannot talk to %s", c->t->peer);
}

static int strange_answer(const struct connecting *c, const struct rf_tcp_preamble *answer, size_t got,
			  struct rf_error *e)
{
	char said[200];

	rf_tcp_quote(answer, got, said, sizeof(said));
	return rf_fail(e, RF_E_REFUSED, "%s does not speak ramferry's protocol (it answered \"%s\")", c->t->peer, said);
}

static int read_answer(const struct connecting *c, int fd, struct rf_tcp_preamble *answer, struct rf_error *e)
{
	struct rf_tcp *t = c->t;
	size_t got = 0;

	while (got < sizeof(*answer)) {
		struct pollfd p[2] = {{0}, {.fd = fd, .events = POLLIN}};
		int r = rf_wait_sockets(t->events, p, 2, c->deadline_ns, e);

		if (r < 0)
			return -1;
		if (r == 0)
			return too_late(c, "took the connection but did not answer in ramferry's protocol", e);
		ssize_t n = recv(fd, (char *)answer + got, sizeof(*answer) - got, 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot talk to %s", t->peer);
		if (n == 0)
			return rf_fail(
			    e, RF_E_REFUSED,
			    "%s closed the connection without an answer: it does not speak ramferry's protocol, "
			    "or has stopped waiting",
			    t->peer);
		got += (size_t)n;
		if (!rf_tcp_magic_fits(answer, got))
			return strange_answer(c, answer, got, e);
	}
	return 0;
}

/* The version first: whatever else another version says may mean something else. */
static int judge_answer(const struct connecting *c, const struct rf_tcp_preamble *answer, struct rf_error *e)
{
	const char *peer = c->t->peer;

	if (answer->version != RF_TCP_VERSION)
		return rf_fail(e, RF_E_REFUSED, "%s speaks version %u of ramferry's tcp fabric, we speak %u", peer,
			       answer->version, RF_TCP_VERSION);
	switch (answer->status) {
	case RF_TCP_WELCOME:
		break;
	case RF_TCP_BUSY:
		return rf_fail(e, RF_E_REFUSED, "%s is busy with another source", peer);
	case RF_TCP_HELLO:
		return rf_fail(e, RF_E_REFUSED, "%s is a source too, not a receiver", peer);
	default:
		return rf_fail(e, RF_E_REFUSED, "%s does not accept our preamble (status %u)", peer, answer->status);
	}
	if (answer->max_message_bytes < RF_TCP_MIN_MESSAGE_BYTES)
		return rf_fail(e, RF_E_REFUSED, "%s takes no messages longer than %u bytes", peer,
			       answer->max_message_bytes);
	return 0;
}

static int open_lane(struct connecting *c, const struct addrinfo *a, int64_t deadline_ns, struct rf_error *e)
{
	struct rf_tcp_preamble answer = {0};
	int fd = connect_one(c, a, deadline_ns, e);

	c->reached = fd >= 0;
	if (fd < 0)
		return -1;
	if (send_hello(c, fd, c->count, e) < 0 || read_answer(c, fd, &answer, e) < 0 ||
	    judge_answer(c, &answer, e) < 0) {
		close(fd);
		return -1;
	}
	if (c->count == 0)
		c->answer = answer;
	c->fds[c->count++] = fd;
	return 0;
}

/* Lane 0, to any of the addresses: the one that took it, or NULL. Each has its share of the time that is left. The first
 * address is the likeliest, so its failure is told, unless a later one got further. */
static const struct addrinfo *open_control(struct connecting *c, const struct addrinfo *all, struct rf_error *e)
{
	unsigned left = 0;

	for (const struct addrinfo *a = all; a; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = all; a; a = a->ai_next, left--) {
		int64_t now = rf_monotonic_ns();
		int64_t share = c->deadline_ns < 0 ? -1 : now + (c->deadline_ns - now) / left;
		struct rf_error latest;

		if (open_lane(c, a, share, &latest) == 0)
			return a;
		if (a == all || c->reached || latest.code == RF_E_CANCELLED)
			*e = latest;
		if (latest.code == RF_E_CANCELLED)
			return NULL;
	}
	return NULL;
}

static int open_lanes(struct connecting *c, const struct addrinfo *all, struct rf_error *e)
{
	const struct addrinfo *a = open_control(c, all, e);

	if (!a)
		return -1;
	/* One after the other: the peer sorts by token and lane, and a round trip for each is little beside a migration. */
	while (c->count < 1u + c->hello.lanes)
		if (open_lane(c, a, c->deadline_ns, e) < 0)
			return -1;
	return rf_tcp_start(c->t, c->fds, c->count, &c->answer, e);
}

int rf_tcp_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct connecting c = {.t = t};
	const char *host = *uri->host ? uri->host : "localhost";
	struct addrinfo *all;
	struct rf_error own;

	assert(!t->lanes);
	if (!e)
		e = &own;
	rf_host_port(host, uri->port, t->peer, sizeof(t->peer));
	c.deadline_ns = rf_deadline_ns(t->config.connect_timeout_ns ? t->config.connect_timeout_ns : -1);
	rf_tcp_fill_preamble(&c.hello, RF_TCP_HELLO);
	c.hello.lanes = (uint16_t)f->limits.lanes;
	if (getrandom(c.hello.token, sizeof(c.hello.token), 0) != sizeof(c.hello.token))
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot get random bytes");
	if (rf_resolve(host, uri->port, t->events, c.deadline_ns, &all, e) < 0)
		return -1;
	int r = open_lanes(&c, all, e);

	freeaddrinfo(all);
	if (r < 0)
		for (unsigned i = 0; i < c.count; i++)
			close(c.fds[i]);
	return r;
}
