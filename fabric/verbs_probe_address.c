// SPDX-License-Identifier: LGPL-2.1-or-later
/* How RDMA devices are addressed. A port has a table of GIDs; a URI has an IP address, and the connection manager finds the
 * port that belongs to it. So each address of this host is bound to once, which tells the device that it leads to. */
#include "fabric/verbs_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIDS_MAX = 256, ADDRESS_BYTES = INET6_ADDRSTRLEN + IF_NAMESIZE + 1 };
static const char AREA[] = "rdma";

/* ---- GIDs ---- */

static const char *type_of(const struct ibv_gid_entry *gid)
{
	switch (gid->gid_type) {
	case IBV_GID_TYPE_IB:
		return "InfiniBand";
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	}
	return "of an unknown type";
}

/* A GID that was made of an IPv4 address holds it. */
static void gid_text(const struct ibv_gid_entry *gid, char text[INET6_ADDRSTRLEN])
{
	const struct in6_addr *address = (const struct in6_addr *)gid->gid.raw;

	if (IN6_IS_ADDR_V4MAPPED(address))
		inet_ntop(AF_INET, &gid->gid.raw[12], text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
}

/* *count entries; the caller's to free. NULL: none. */
static struct ibv_gid_entry *read_gids(struct ibv_context *context, ssize_t *count)
{
	struct ibv_gid_entry *gids = calloc(GIDS_MAX, sizeof(*gids));

	*count = gids ? ibv_query_gid_table(context, gids, GIDS_MAX, 0) : 0;
	if (*count > 0)
		return gids;
	free(gids);
	return NULL;
}

void rf_verbs_examine_gids(const struct rf_findings *f, struct ibv_context *context, const char *device)
{
	ssize_t count;
	struct ibv_gid_entry *gids = read_gids(context, &count);

	for (ssize_t i = 0; gids && i < count; i++) {
		char what[100], address[INET6_ADDRSTRLEN], interface[IF_NAMESIZE] = "";

		snprintf(what, sizeof(what), "%s port %u GID %u", device, gids[i].port_num, gids[i].gid_index);
		gid_text(&gids[i], address);
		if (gids[i].ndev_ifindex)
			if_indextoname(gids[i].ndev_ifindex, interface);
		rf_found(f, RF_FOUND_OK, AREA, what, NULL, "%s, %s%s%s", type_of(&gids[i]), address,
			 *interface ? " on " : "", interface);
	}
	free(gids);
}

void rf_verbs_interface(struct ibv_context *context, unsigned port, char *name, unsigned length)
{
	char found[IF_NAMESIZE] = "";
	ssize_t count;
	struct ibv_gid_entry *gids = read_gids(context, &count);

	for (ssize_t i = 0; gids && i < count && !*found; i++)
		if (gids[i].port_num == port && gids[i].ndev_ifindex)
			if_indextoname(gids[i].ndev_ifindex, found);
	free(gids);
	snprintf(name, length, "%s", found);
}

/* ---- addresses ---- */

/* As it stands in a URI; a link-local one with its interface. */
static void uri_text(const struct sockaddr *address, char *text, size_t length)
{
	char host[INET6_ADDRSTRLEN] = "", zone[IF_NAMESIZE] = "";
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;

	if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, host, sizeof(host));
		snprintf(text, length, "rdma://%s", host);
		return;
	}
	inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
	if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) && six->sin6_scope_id)
		if_indextoname(six->sin6_scope_id, zone);
	snprintf(text, length, "rdma://[%s%s%s]", host, *zone ? "%" : "", zone);
}

/* Does it lead to a device? Then that is said. */
static bool examine_address(const struct rf_findings *f, struct rdma_event_channel *channel, struct sockaddr *address)
{
	struct rdma_cm_id *id;
	char uri[sizeof("rdma://[]") + ADDRESS_BYTES];
	bool leads = false;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return false;
	if (!rdma_bind_addr(id, address) && id->verbs) {
		leads = true;
		uri_text(address, uri, sizeof(uri));
		rf_found(f, RF_FOUND_OK, AREA, "address", NULL, "%s leads to %s port %u", uri,
			 ibv_get_device_name(id->verbs->device), id->port_num);
	}
	rdma_destroy_id(id);
	return leads;
}

static bool is_candidate(const struct ifaddrs *a)
{
	return a->ifa_addr && (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6) &&
	       !(a->ifa_flags & IFF_LOOPBACK);
}

bool rf_verbs_examine_addresses(const struct rf_findings *f, bool asked)
{
	enum rf_finding_verdict otherwise = asked ? RF_FOUND_NEEDED : RF_FOUND_ADVICE;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *all = NULL;
	bool found = false;

	if (!channel) {
		rf_found(f, otherwise, AREA, "connections", "load the module for that: modprobe rdma_ucm",
			 "the kernel's connection manager cannot be used: %s", strerror(errno));
		return false;
	}
	if (!getifaddrs(&all)) {
		for (struct ifaddrs *a = all; a; a = a->ifa_next)
			found |= is_candidate(a) && examine_address(f, channel, a->ifa_addr);
		freeifaddrs(all);
	}
	rdma_destroy_event_channel(channel);
	if (!found)
		rf_found(f, otherwise, AREA, "address",
			 "set the device's interface up and give it one: ip address add ADDRESS/24 dev INTERFACE",
			 "no address of this host leads to an RDMA device");
	return found;
}
