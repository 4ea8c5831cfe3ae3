// SPDX-License-Identifier: LGPL-2.1-or-later
/* Waiting for a source in a world of strangers: port scanners, browsers, health checks, ramferries of other versions.
 *
 * Whoever connects is a guest, up to 64 at once, and has 5 s to show a preamble. The first preamble that fits makes its
 * token the one we wait for; when all lanes of that token are there, accept() is done and every other guest is sent
 * away. If they do not come within 5 s, or one goes, the token is forgotten and waiting starts anew. So no guest can
 * keep a real source out for longer than that. */
#include "fabric/tcp_listen.h"

#include "common/sizes.h"
#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_GUESTS = 64 };
#define PATIENCE_NS (5 * INT64_C(1000000000))
#define PAUSE_NS    (INT64_C(100000000)) /* before the next try when descriptors ran out */

struct guest {
	int fd;
	size_t got;
	int64_t deadline_ns;
	struct rf_tcp_preamble hello;
	char name[80];
};

struct accepting {
	struct rf_tcp *t;
	struct guest guests[MAX_GUESTS]; /* oldest first */
	unsigned guest_count;
	int64_t listen_again_ns;

	/* the lanes of the token we wait for */
	int fds[1 + RF_TCP_MAX_LANES]; /* -1: not yet there */
	unsigned want, have;           /* want 0: no token yet */
	int64_t lanes_deadline_ns;
	struct rf_tcp_preamble first;
	char peer[80];
};

static void remove_guest(struct accepting *a, unsigned i)
{
	a->guest_count--;
	memmove(&a->guests[i], &a->guests[i + 1], (a->guest_count - i) * sizeof(a->guests[0]));
}

static void send_away(struct accepting *a, unsigned i, const char *why)
{
	rf_log(a->t->config.log, RF_LOG_WARNING, "sent %s away: %s", a->guests[i].name, why);
	close(a->guests[i].fd);
	remove_guest(a, i);
}

static void forget_lanes(struct accepting *a, const char *why)
{
	if (why)
		rf_log(a->t->config.log, RF_LOG_WARNING, "gave up on the source at %s: %s", a->peer, why);
	for (unsigned i = 0; i < a->want; i++)
		if (a->fds[i] >= 0)
			close(a->fds[i]);
	a->want = a->have = 0;
}

/* Our preamble, so that even a refused peer can say why. A fresh socket has room for it; if not, the peer is gone. */
static bool answer(const struct guest *g, enum rf_tcp_status status)
{
	struct rf_tcp_preamble p;

	rf_tcp_fill_preamble(&p, status);
	memcpy(p.token, g->hello.token, sizeof(p.token));
	p.lane = g->hello.lane;
	p.lanes = g->hello.lanes;
	return send(g->fd, &p, sizeof(p), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(p);
}

static bool hello_makes_sense(const struct rf_tcp_preamble *p)
{
	return p->status == RF_TCP_HELLO && p->lanes >= 1 && p->lanes <= RF_TCP_MAX_LANES && p->lane <= p->lanes &&
	       p->max_message_bytes >= RF_TCP_MIN_MESSAGE_BYTES;
}

/* Does it belong to the lanes that we have? */
static bool hello_fits(const struct accepting *a, const struct rf_tcp_preamble *p)
{
	return memcmp(p->token, a->first.token, sizeof(p->token)) == 0 && p->lanes == a->first.lanes &&
	       a->fds[p->lane] < 0;
}

static void expect_lanes(struct accepting *a, const struct guest *g)
{
	a->first = g->hello;
	a->want = 1u + g->hello.lanes;
	a->have = 0;
	for (unsigned i = 0; i < a->want; i++)
		a->fds[i] = -1;
	snprintf(a->peer, sizeof(a->peer), "%s", g->name);
}

/* The guest has shown its whole preamble: it becomes a lane, or goes. */
static void judge(struct accepting *a, unsigned i)
{
	struct guest *g = &a->guests[i];
	const struct rf_tcp_preamble *p = &g->hello;
	char why[120];

	if (p->version != RF_TCP_VERSION) {
		answer(g, RF_TCP_VERSION_DIFFERS);
		snprintf(why, sizeof(why), "it speaks version %u of ramferry's tcp fabric, we speak %u", p->version,
			 RF_TCP_VERSION);
		return send_away(a, i, why);
	}
	if (!hello_makes_sense(p)) {
		answer(g, RF_TCP_BAD);
		return send_away(a, i, "its preamble makes no sense");
	}
	if (a->want && !hello_fits(a, p)) {
		answer(g, RF_TCP_BUSY);
		return send_away(a, i, "another source was first");
	}
	if (rf_tcp_tune(g->fd) < 0 || !answer(g, RF_TCP_WELCOME))
		return send_away(a, i, "it is gone");
	if (!a->want)
		expect_lanes(a, g);
	a->fds[p->lane] = g->fd;
	a->have++;
	a->lanes_deadline_ns = rf_monotonic_ns() + PATIENCE_NS;
	remove_guest(a, i);
}

static void read_guest(struct accepting *a, unsigned i)
{
	struct guest *g = &a->guests[i];
	ssize_t n = recv(g->fd, (char *)&g->hello + g->got, sizeof(g->hello) - g->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		return send_away(a, i, "it closed the connection");
	g->got += (size_t)n;
	if (!rf_tcp_magic_fits(&g->hello, g->got)) {
		char said[100], why[160];

		rf_tcp_quote(&g->hello, g->got, said, sizeof(said));
		snprintf(why, sizeof(why), "it does not speak ramferry's protocol (it said \"%s\")", said);
		return send_away(a, i, why);
	}
	if (g->got == sizeof(g->hello))
		judge(a, i);
}

static void take_guests(struct accepting *a, int listener)
{
	for (;;) {
		struct sockaddr_storage from = {0};
		socklen_t length = sizeof(from);
		int fd = accept4(listener, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == ECONNABORTED || errno == EINTR)
				continue;
			if (errno != EAGAIN) {
				a->listen_again_ns = rf_monotonic_ns() + PAUSE_NS;
				if (a->guest_count)
					send_away(a, 0, "descriptors ran out");
			}
			return;
		}
		if (a->guest_count == MAX_GUESTS)
			send_away(a, 0, "too many wait");
		struct guest *g = &a->guests[a->guest_count++];

		*g = (struct guest){.fd = fd, .deadline_ns = rf_monotonic_ns() + PATIENCE_NS};
		rf_address_text((struct sockaddr *)&from, length, g->name, sizeof(g->name));
	}
}

static void drop_the_late(struct accepting *a)
{
	int64_t now = rf_monotonic_ns();

	for (unsigned i = a->guest_count; i-- > 0;)
		if (now >= a->guests[i].deadline_ns)
			send_away(a, i, "it was silent for 5 s");
	if (a->want && now >= a->lanes_deadline_ns)
		forget_lanes(a, "its other lanes did not come");
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Wait for something and deal with it. As rf_wait_sockets. */
static int step(struct accepting *a, int64_t deadline_ns, struct rf_error *e)
{
	struct rf_tcp_listener *l = a->t->listener;
	struct pollfd p[1 + RF_TCP_MAX_LISTENERS + MAX_GUESTS + 1 + RF_TCP_MAX_LANES];
	int64_t until = deadline_ns;
	unsigned n = 1;

	bool listening = rf_monotonic_ns() >= a->listen_again_ns;

	if (!listening)
		until = earlier(until, a->listen_again_ns);
	for (unsigned i = 0; i < l->count; i++)
		p[n++] = (struct pollfd){.fd = listening ? l->fds[i] : -1, .events = POLLIN};
	unsigned first_guest = n, guests = a->guest_count;

	for (unsigned i = 0; i < guests; i++) {
		p[n++] = (struct pollfd){.fd = a->guests[i].fd, .events = POLLIN};
		until = earlier(until, a->guests[i].deadline_ns);
	}
	unsigned first_lane = n;

	for (unsigned i = 0; i < a->want; i++)
		p[n++] = (struct pollfd){.fd = a->fds[i], .events = POLLIN};
	if (a->want)
		until = earlier(until, a->lanes_deadline_ns);

	int r = rf_wait_sockets(a->t->events, p, n, until, e);

	if (r < 0)
		return -1;
	for (unsigned i = first_lane; r && i < n; i++)
		if (p[i].revents) {
			forget_lanes(a, "it closed a lane or spoke too early");
			break;
		}
	/* From the last to the first, so that removing one leaves the numbers of those before it. */
	for (unsigned i = guests; r && i-- > 0;)
		if (p[first_guest + i].revents)
			read_guest(a, i);
	for (unsigned i = 0; r && i < l->count; i++)
		if (p[1 + i].revents)
			take_guests(a, l->fds[i]);
	drop_the_late(a);
	return r > 0 || deadline_ns < 0 || rf_monotonic_ns() < deadline_ns;
}

static int gather_lanes(struct accepting *a, int64_t timeout_ns, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ns(timeout_ns);

	while (!a->want || a->have < a->want) {
		int r = step(a, deadline, e);
		char limit[40];

		if (r < 0)
			return -1;
		if (r == 0)
			return rf_fail(e, RF_E_REFUSED, "no source came within %s",
				       rf_format_duration((uint64_t)timeout_ns, limit, sizeof(limit)));
	}
	return 0;
}

int rf_tcp_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct accepting *a = calloc(1, sizeof(*a));

	assert(t->listener && !t->lanes);
	if (!a)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	a->t = t;
	int r = gather_lanes(a, timeout_ns, e);

	while (a->guest_count)
		send_away(a, a->guest_count - 1, "another source was first");
	if (r == 0) {
		snprintf(t->peer, sizeof(t->peer), "%s", a->peer);
		r = rf_tcp_start(t, a->fds, a->want, &a->first, e);
	}
	if (r == 0)
		rf_tcp_stop_listening(t); /* later callers hear at once that nobody waits for them */
	else
		forget_lanes(a, NULL);
	free(a);
	return r;
}
