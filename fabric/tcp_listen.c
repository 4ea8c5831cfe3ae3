// SPDX-License-Identifier: LGPL-2.1-or-later
/* The sockets at which a destination waits. A host may have several addresses ("localhost" has two): all are listened
 * at, with one port. */
#include "fabric/tcp_listen.h"

#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_TRIES = 20 }; /* a port that the system chose for one address may be taken at another */

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_storage a = {0};
	socklen_t length = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &length) < 0)
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
}

/* A listening socket, or -1 with errno. */
static int listen_one(const struct addrinfo *a, uint16_t port)
{
	struct sockaddr_storage address = {0};
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -1;
	assert(a->ai_addrlen <= sizeof(address));
	memcpy(&address, a->ai_addr, a->ai_addrlen);
	set_port(&address, port);
	/* A port that a migration used a minute ago is free. IPv6 sockets take IPv6 only: the IPv4 addresses have their own,
	 * and peers show up under the address that they have. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (a->ai_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
	    bind(fd, (struct sockaddr *)&address, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	int err = errno;

	close(fd);
	errno = err;
	return -1;
}

/* A host without IPv6 still resolves names to it. */
static bool address_is_absent(int err)
{
	return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == EPROTONOSUPPORT;
}

static void close_all(struct rf_tcp_listener *l)
{
	while (l->count)
		close(l->fds[--l->count]);
}

/* At every address, or at none: half a listener would be found by some sources and not by others. 0, or an errno value. */
static int listen_all(struct rf_tcp_listener *l, const struct addrinfo *all, uint16_t port)
{
	int err = 0;

	for (const struct addrinfo *a = all; a && l->count < RF_TCP_MAX_LISTENERS; a = a->ai_next) {
		int fd = listen_one(a, port);

		if (fd < 0 && address_is_absent(errno)) {
			err = errno;
			continue;
		}
		if (fd < 0) {
			err = errno;
			close_all(l);
			return err;
		}
		l->fds[l->count++] = fd;
		if (!port)
			port = port_of(fd);
	}
	return l->count ? 0 : err;
}

int rf_tcp_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct addrinfo *all = NULL;
	char where[300];
	int err = EADDRINUSE;

	assert(!t->listener && !t->lanes);
	if (rf_resolve(uri->host, uri->port, t->events, -1, &all, e) < 0)
		return -1;
	t->listener = calloc(1, sizeof(*t->listener));
	if (!t->listener) {
		freeaddrinfo(all);
		return rf_fail(e, RF_E_FAILED, "out of memory");
	}
	for (int i = 0; err == EADDRINUSE && i < (uri->port ? 1 : PORT_TRIES); i++)
		err = listen_all(t->listener, all, uri->port);
	freeaddrinfo(all);
	if (!err)
		return 0;
	rf_tcp_stop_listening(t);
	return rf_fail_errno(e, RF_E_REFUSED, err, "cannot listen at %s",
			     rf_host_port(*uri->host ? uri->host : "*", uri->port, where, sizeof(where)));
}

int rf_tcp_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct sockaddr_storage a = {0};
	socklen_t a_length = sizeof(a);
	char where[300];

	if (!t->listener)
		return rf_fail(e, RF_E_FAILED, "the fabric does not listen");
	if (getsockname(t->listener->fds[0], (struct sockaddr *)&a, &a_length) < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot tell where the fabric listens");
	rf_address_text((struct sockaddr *)&a, a_length, where, sizeof(where));
	snprintf(text, length, "tcp://%s", where);
	return 0;
}

void rf_tcp_stop_listening(struct rf_tcp *t)
{
	if (t->listener)
		close_all(t->listener);
	free(t->listener);
	t->listener = NULL;
}
