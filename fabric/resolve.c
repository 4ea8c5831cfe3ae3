// SPDX-License-Identifier: LGPL-2.1-or-later
/* getaddrinfo() cannot be interrupted. Names are therefore looked up in a thread that nobody waits for when it takes too
 * long: it owns half of a small record, and whoever lets go last frees it. */
#include "fabric/resolve.h"

#include "common/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
	atomic_int owners;
	int done; /* eventfd */
	char host[256], service[8];
	struct addrinfo *result;
	int rc, error_number;
};

static void lookup_let_go(struct lookup *l)
{
	if (atomic_fetch_sub(&l->owners, 1) > 1)
		return;
	if (l->result)
		freeaddrinfo(l->result);
	close(l->done);
	free(l);
}

static void *lookup_thread(void *arg)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct lookup *l = arg;
	uint64_t one = 1;

	l->rc = getaddrinfo(l->host, l->service, &hints, &l->result);
	l->error_number = errno;
	if (l->rc)
		l->result = NULL;
	/* It cannot fail: the counter is 0. */
	if (write(l->done, &one, sizeof(one)) == sizeof(one))
		lookup_let_go(l);
	return NULL;
}

static struct lookup *lookup_start(const char *host, const char *service)
{
	struct lookup *l = calloc(1, sizeof(*l));
	pthread_t thread;

	if (!l)
		return NULL;
	snprintf(l->host, sizeof(l->host), "%s", host);
	snprintf(l->service, sizeof(l->service), "%s", service);
	l->done = eventfd(0, EFD_CLOEXEC);
	if (l->done < 0)
		goto free_lookup;
	atomic_store(&l->owners, 2);
	if (rf_thread_start(&thread, "resolve", lookup_thread, l))
		goto close_done;
	pthread_detach(thread);
	return l;

close_done:
	close(l->done);
free_lookup:
	free(l);
	return NULL;
}

static int cannot_resolve(const char *host, int rc, int error_number, struct rf_error *e)
{
	if (rc == EAI_SYSTEM)
		return rf_fail_errno(e, RF_E_REFUSED, error_number, "cannot resolve host \"%s\"", host);
	return rf_fail(e, RF_E_REFUSED, "cannot resolve host \"%s\": %s", host, gai_strerror(rc));
}

static int resolve_name(const char *host, const char *service, struct rf_events *events, int64_t deadline_ns,
			struct addrinfo **out, struct rf_error *e)
{
	struct lookup *l = lookup_start(host, service);
	uint64_t count;
	int r;

	if (!l)
		return rf_fail(e, RF_E_FAILED, "cannot start a look-up of host \"%s\"", host);
	struct pollfd p[2] = {{0}, {.fd = l->done, .events = POLLIN}};

	r = rf_wait_sockets(events, p, 2, deadline_ns, e);
	if (r == 0)
		r = rf_fail(e, RF_E_REFUSED, "cannot resolve host \"%s\": no name server answered in time", host);
	else if (r > 0 && read(l->done, &count, sizeof(count)) == sizeof(count) && l->rc)
		r = cannot_resolve(host, l->rc, l->error_number, e);
	if (r > 0) {
		*out = l->result;
		l->result = NULL;
		r = 0;
	}
	lookup_let_go(l);
	return r;
}

/* Such an address means something only together with the interface it is behind. */
static bool lacks_interface(const struct addrinfo *a)
{
	const struct sockaddr_in6 *v6 = (const void *)a->ai_addr;

	return a->ai_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) && !v6->sin6_scope_id;
}

int rf_resolve(const char *host, uint16_t port, struct rf_events *events, int64_t deadline_ns, struct addrinfo **out,
	       struct rf_error *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
	char service[8];

	*out = NULL;
	snprintf(service, sizeof(service), "%u", port);
	/* RFC 6761: localhost is this host, whatever name servers say, and also where /etc/hosts does not name it. */
	bool here = strcasecmp(host, "localhost") == 0;
	if (here)
		hints.ai_flags = AI_NUMERICSERV;
	int rc = getaddrinfo(*host && !here ? host : NULL, service, &hints, out);

	if (rc == 0 && lacks_interface(*out)) {
		freeaddrinfo(*out);
		*out = NULL;
		return rf_fail(e, RF_E_USAGE, "the address %s needs an interface, as in [%s%%eth0]", host, host);
	}
	if (rc == 0)
		return 0;
	*out = NULL;
	if (rc != EAI_NONAME || !*host)
		return cannot_resolve(host, rc, errno, e);
	return resolve_name(host, service, events, deadline_ns, out, e);
}

const char *rf_host_port(const char *host, unsigned port, char *text, size_t room)
{
	snprintf(text, room, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
	return text;
}

const char *rf_address_text(const struct sockaddr *address, socklen_t address_length, char *text, size_t room)
{
	char host[NI_MAXHOST], service[NI_MAXSERV];

	if (getnameinfo(address, address_length, host, sizeof(host), service, sizeof(service),
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(text, room, "an unknown address");
		return text;
	}
	return rf_host_port(host, (unsigned)strtoul(service, NULL, 10), text, room);
}

int rf_wait_sockets(struct rf_events *events, struct pollfd *p, unsigned n, int64_t deadline_ns, struct rf_error *e)
{
	p[0] = (struct pollfd){.fd = rf_events_fd(events), .events = POLLIN};
	for (;;) {
		int64_t left = deadline_ns < 0 ? 0 : deadline_ns - rf_monotonic_ns();
		struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

		/* The flag, not the descriptor: a call from before we came here counts too. */
		if (rf_events_take_wake(events))
			return rf_fail(e, RF_E_CANCELLED, "cancelled");
		if (left < 0)
			return 0;
		if (ppoll(p, n, deadline_ns < 0 ? NULL : &t, NULL) <= 0)
			continue;
		for (unsigned i = 1; i < n; i++)
			if (p[i].revents)
				return 1;
	}
}
