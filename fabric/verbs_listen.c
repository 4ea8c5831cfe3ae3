// SPDX-License-Identifier: LGPL-2.1-or-later
/* Where a destination waits. A host may have several addresses: all that are on an RDMA device are listened at, with one
 * port. */
#include "fabric/verbs.h"

#include "fabric/resolve.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { PORT_TRIES = 20, BACKLOG = 128 };

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

/* The connection manager takes loopback addresses as well, at which nobody ever arrives. */
static bool leads_somewhere(const struct rdma_cm_id *id, const struct sockaddr_storage *a)
{
	const struct sockaddr_in *v4 = (const void *)a;
	const struct sockaddr_in6 *v6 = (const void *)a;
	bool any = a->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
					    : v4->sin_addr.s_addr == htonl(INADDR_ANY);

	errno = ENODEV;
	return any || id->verbs;
}

/* A listening id; NULL with errno. */
static struct rdma_cm_id *listen_one(struct rf_verbs *v, const struct addrinfo *a, uint16_t port)
{
	struct sockaddr_storage address = {0};
	struct rdma_cm_id *id;
	int on = 1;

	assert(a->ai_addrlen <= sizeof(address));
	memcpy(&address, a->ai_addr, a->ai_addrlen);
	set_port(&address, port);
	if (rdma_create_id(v->channel, &id, NULL, RDMA_PS_TCP))
		return NULL;
	/* A port that a migration used a minute ago is free. IPv6 takes IPv6 only: the IPv4 addresses have their own. */
	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on)) == 0 &&
	    (a->ai_family != AF_INET6 ||
	     rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)) == 0) &&
	    rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && leads_somewhere(id, &address) &&
	    rdma_listen(id, BACKLOG) == 0)
		return id;
	int err = errno;

	rdma_destroy_id(id);
	errno = err;
	return NULL;
}

/* The address is another interface's, or this host has none of that kind. */
static bool is_absent(int err)
{
	return err == ENODEV || err == EADDRNOTAVAIL || err == EAFNOSUPPORT || err == EPROTONOSUPPORT;
}

/* At every address that is on an RDMA device. 0, or an errno value. */
static int listen_all(struct rf_verbs *v, const struct addrinfo *all, uint16_t port)
{
	int err = ENODEV;

	for (const struct addrinfo *a = all; a && v->listener_count < RF_VERBS_MAX_LISTENERS; a = a->ai_next) {
		struct rdma_cm_id *id = listen_one(v, a, port);

		if (!id && is_absent(errno)) {
			err = errno;
			continue;
		}
		if (!id) {
			err = errno;
			rf_verbs_stop_listening(v);
			return err;
		}
		v->listeners[v->listener_count++] = id;
		if (!port)
			port = ntohs(rdma_get_src_port(id));
	}
	return v->listener_count ? 0 : err;
}

static int cannot_listen(const char *host, uint16_t port, int err, struct rf_error *e)
{
	char where[300], devices[400];

	rf_host_port(*host ? host : "*", port, where, sizeof(where));
	if (!is_absent(err))
		return rf_fail_errno(e, RF_E_REFUSED, err, "cannot listen at %s by RDMA", where);
	rf_verbs_devices(devices, sizeof(devices));
	return rf_fail(e, RF_E_REFUSED, "cannot listen at %s: no RDMA device has that address; there is: %s", where,
		       devices);
}

/* With a device but no address given, that device's addresses are meant: the first that there is, one that goes far before one
 * that is for the link. */
static int resolve(struct rf_verbs *v, const struct rf_uri *uri, struct addrinfo **all, struct rf_error *e)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in6 link = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0xfe, 0x80}};
	const void *kinds[] = {&v4, &v6, &link};
	struct sockaddr_storage own;
	char host[NI_MAXHOST];
	socklen_t length = 0;
	struct rf_error why[3];

	if (*uri->host || (!v->config.device && v->config.gid_index < 0))
		return rf_resolve(uri->host, uri->port, v->events, -1, all, e);
	for (unsigned i = 0; i < 3 && !length; i++)
		if (rf_verbs_own_address(&v->config, kinds[i], &own, &length, &why[i]) < 0)
			length = 0;
	if (!length && e)
		*e = why[0];
	if (!length)
		return -1;
	if (getnameinfo((struct sockaddr *)&own, length, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		return rf_fail(e, RF_E_REFUSED, "the address of %s cannot be told", v->config.device);
	return rf_resolve(host, uri->port, v->events, -1, all, e);
}

int rf_verbs_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	struct rf_verbs *v = rf_verbs_of(f);
	struct addrinfo *all = NULL;
	int err = EADDRINUSE;

	assert(!v->listener_count && !v->lanes);
	if (rf_verbs_channel_open(v, e) < 0 || resolve(v, uri, &all, e) < 0)
		return -1;
	for (int i = 0; err == EADDRINUSE && i < (uri->port ? 1 : PORT_TRIES); i++)
		err = listen_all(v, all, uri->port);
	freeaddrinfo(all);
	if (err)
		return cannot_listen(uri->host, uri->port, err, e);
	for (unsigned i = 0; i < v->listener_count; i++)
		if (v->listeners[i]->verbs && rf_verbs_port_is_up(v->listeners[i], e) < 0) {
			rf_verbs_stop_listening(v);
			return -1;
		}
	return 0;
}

int rf_verbs_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e)
{
	struct rf_verbs *v = rf_verbs_of(f);
	char where[300];

	if (!v->listener_count)
		return rf_fail(e, RF_E_FAILED, "the fabric does not listen");
	struct sockaddr *a = rdma_get_local_addr(v->listeners[0]);
	socklen_t a_length = a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	snprintf(text, length, "rdma://%s", rf_address_text(a, a_length, where, sizeof(where)));
	return 0;
}

void rf_verbs_stop_listening(struct rf_verbs *v)
{
	while (v->listener_count)
		rdma_destroy_id(v->listeners[--v->listener_count]);
}
