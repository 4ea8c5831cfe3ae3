// SPDX-License-Identifier: LGPL-2.1-or-later
/* The cards of this host and the addresses that are on them, for sentences and for those who name a card. RoCE's GIDs are
 * addresses in IP form. InfiniBand's and iWARP's say nothing of addresses: those belong to an interface, and the connection
 * manager is asked to which card it leads. */
#include "fabric/verbs.h"

#include "common/checked.h"
#include "fabric/resolve.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GIDS = 256 };

/* The socket address that a GID stands for, without port. */
static socklen_t gid_address(const struct ibv_gid_entry *g, struct sockaddr_storage *address)
{
	struct in6_addr raw;

	memset(address, 0, sizeof(*address));
	memcpy(&raw, g->gid.raw, sizeof(raw));
	if (IN6_IS_ADDR_V4MAPPED(&raw)) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)address;

		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, g->gid.raw + 12, 4);
		return sizeof(*v4);
	}
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	v6->sin6_family = AF_INET6;
	v6->sin6_addr = raw;
	if (IN6_IS_ADDR_LINKLOCAL(&raw))
		v6->sin6_scope_id = g->ndev_ifindex;
	return sizeof(*v6);
}

static void append(char *text, size_t room, const char *more)
{
	size_t length = strlen(text);

	snprintf(text + length, room - length, "%s", more);
}

/* Without the port that rf_address_text adds. */
static void append_address(char *text, size_t room, const struct ibv_gid_entry *g)
{
	struct sockaddr_storage address;
	socklen_t length = gid_address(g, &address);
	char host[100];

	rf_address_text((struct sockaddr *)&address, length, host, sizeof(host));
	char *colon = strrchr(host, ':');

	if (colon)
		*colon = '\0';
	append(text, room, host);
}

/* RoCE version 1 and 2 show the same address twice; the one that can be routed counts. */
static bool is_usable(const struct ibv_gid_entry *g)
{
	return g->gid_type == IBV_GID_TYPE_ROCE_V2;
}

static void describe(struct ibv_context *context, char *text, size_t room)
{
	struct ibv_gid_entry *gids = calloc(MAX_GIDS, sizeof(*gids));
	ssize_t n = gids ? ibv_query_gid_table(context, gids, MAX_GIDS, 0) : -1;
	const char *between = "";

	append(text, room, ibv_get_device_name(context->device));
	append(text, room, " (");
	for (ssize_t i = 0; i < n; i++) {
		if (!is_usable(&gids[i]))
			continue;
		append(text, room, between);
		append_address(text, room, &gids[i]);
		between = ", ";
	}
	append(text, room, *between ? ")" : "without an address of its own)");
	free(gids);
}

unsigned rf_verbs_devices(char *text, size_t room)
{
	int n = 0;
	struct ibv_device **all = ibv_get_device_list(&n);

	*text = '\0';
	for (int i = 0; all && i < n; i++) {
		struct ibv_context *context = ibv_open_device(all[i]);

		if (i)
			append(text, room, ", ");
		if (context) {
			describe(context, text, room);
			ibv_close_device(context);
		} else {
			append(text, room, ibv_get_device_name(all[i]));
			append(text, room, " (which may not be opened)");
		}
	}
	if (all)
		ibv_free_device_list(all);
	if (all && n > 0)
		return (unsigned)n;
	append(text, room,
	       "this host has no RDMA device (rdma link add makes a software one of an Ethernet interface)");
	return 0;
}

static struct ibv_context *open_named(const char *name)
{
	int n = 0;
	struct ibv_device **all = ibv_get_device_list(&n);
	struct ibv_context *context = NULL;

	for (int i = 0; all && i < n; i++)
		if (strcmp(ibv_get_device_name(all[i]), name) == 0)
			context = ibv_open_device(all[i]);
	if (all)
		ibv_free_device_list(all);
	return context;
}

static bool is_link_local(const void *address)
{
	const struct sockaddr_in6 *v6 = address;

	return v6->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* From a link-local address one gets no further than the link, so each calls its own kind. */
static bool fits(const struct rf_fabric_config *config, const struct ibv_gid_entry *g, const struct sockaddr *to,
		 struct sockaddr_storage *own, socklen_t *length)
{
	bool named = config->gid_index >= 0;

	if (named ? g->gid_index != (uint32_t)config->gid_index : !is_usable(g))
		return false;
	*length = gid_address(g, own);
	return own->ss_family == to->sa_family && (named || is_link_local(own) == is_link_local(to));
}

static bool leads_to(struct rdma_event_channel *channel, struct sockaddr *address, const char *device)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return false;
	bool leads =
	    !rdma_bind_addr(id, address) && id->verbs && strcmp(ibv_get_device_name(id->verbs->device), device) == 0;

	rdma_destroy_id(id);
	return leads;
}

/* Where GIDs are no addresses. */
static bool find_by_interface(const char *device, const struct sockaddr *to, struct sockaddr_storage *own,
			      socklen_t *length)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *all = NULL;
	bool found = false;

	if (channel && getifaddrs(&all))
		all = NULL;
	for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != to->sa_family ||
		    is_link_local(a->ifa_addr) != is_link_local(to) || !leads_to(channel, a->ifa_addr, device))
			continue;
		*length = to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		memcpy(own, a->ifa_addr, *length);
		found = true;
	}
	if (all)
		freeifaddrs(all);
	if (channel)
		rdma_destroy_event_channel(channel);
	return found;
}

int rf_verbs_own_address(const struct rf_fabric_config *config, const struct sockaddr *to, struct sockaddr_storage *own,
			 socklen_t *length, struct rf_error *e)
{
	struct ibv_gid_entry *gids;
	struct ibv_context *context;
	char all[400];
	bool found = false;

	*length = 0;
	if (!config->device && config->gid_index < 0)
		return 0;
	if (!config->device)
		return rf_fail(e, RF_E_USAGE, "--gid-index counts the addresses of a device: name it with --device");
	context = open_named(config->device);
	if (!context) {
		rf_verbs_devices(all, sizeof(all));
		return rf_fail(e, RF_E_REFUSED, "there is no RDMA device \"%s\" that may be opened; there is: %s",
			       config->device, all);
	}
	gids = calloc(MAX_GIDS, sizeof(*gids));
	ssize_t n = gids ? ibv_query_gid_table(context, gids, MAX_GIDS, 0) : 0;

	for (ssize_t i = 0; i < n && !found; i++)
		found = fits(config, &gids[i], to, own, length);
	free(gids);
	ibv_close_device(context);
	if (!found && config->gid_index < 0)
		found = find_by_interface(config->device, to, own, length);
	if (found)
		return 0;
	*length = 0;
	rf_verbs_devices(all, sizeof(all));
	if (config->gid_index >= 0)
		return rf_fail(e, RF_E_REFUSED, "GID %d of %s is no %s address; there is: %s", config->gid_index,
			       config->device, to->sa_family == AF_INET ? "IPv4" : "IPv6", all);
	return rf_fail(e, RF_E_REFUSED, "%s has no %s address; there is: %s", config->device,
		       to->sa_family == AF_INET ? "IPv4" : "IPv6", all);
}
