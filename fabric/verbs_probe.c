// SPDX-License-Identifier: LGPL-2.1-or-later
/* RDMA devices and their ports, seen without using them: nothing is registered and no queue is made. */
#include "fabric/verbs_probe.h"

#include "common/sizes.h"

#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static const char AREA[] = "rdma";

static bool sysfs_has_devices(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	bool found = false;

	if (!dir)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(dir));)
		found = entry->d_name[0] != '.';
	closedir(dir);
	return found;
}

static void tell_no_device(const struct rf_findings *f, bool asked)
{
	enum rf_finding_verdict verdict = asked ? RF_FOUND_NEEDED : RF_FOUND_ADVICE;

	if (sysfs_has_devices())
		rf_found(f, verdict, AREA, "devices", "load the module for that (modprobe ib_uverbs), and install the card's library (Debian: "
			 "ibverbs-providers; elsewhere a part of rdma-core)",
			 "the kernel has RDMA devices that programs cannot use");
	else
		rf_found(f, verdict, AREA, "devices",
			 "take tcp://, or put a card in and load its driver (without one: modprobe rdma_rxe, rdma link "
			 "add rxe0 type rxe netdev INTERFACE)",
			 "this host has no RDMA device");
}

/* ---- a port ---- */

/* In tenths of a Gbit/s. */
static unsigned lane_rate(unsigned speed)
{
	switch (speed) {
	case 1:
		return 25;
	case 2:
		return 50;
	case 4:
	case 8:
		return 100;
	case 16:
		return 140;
	case 32:
		return 250;
	case 64:
		return 500;
	case 128:
		return 1000;
	default:
		return 0;
	}
}

static unsigned lane_count(unsigned width)
{
	switch (width) {
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 1;
	}
}

static void tell_active(const struct rf_findings *f, const char *what, const struct ibv_port_attr *port,
			const char *interface)
{
	uint64_t tenths = (uint64_t)lane_rate(port->active_speed) * lane_count(port->active_width);

	rf_found_value(f, AREA, what, "bits_per_second", tenths * 100000000,
		       "active, %llu.%llu Gbit/s, %s, packets of %u bytes%s%s", (unsigned long long)tenths / 10,
		       (unsigned long long)tenths % 10,
		       port->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand",
		       128u << port->active_mtu, *interface ? ", interface " : "", interface);
}

static void examine_port(const struct rf_findings *f, struct ibv_context *context, unsigned number)
{
	char what[100], interface[64], advice[160];
	struct ibv_port_attr port = {0};

	snprintf(what, sizeof(what), "%s port %u", ibv_get_device_name(context->device), number);
	if (ibv_query_port(context, (uint8_t)number, &port)) {
		rf_found(f, RF_FOUND_ADVICE, AREA, what, "see what the kernel's log says about the device",
			 "its state cannot be read: %s", strerror(errno));
		return;
	}
	rf_verbs_interface(context, number, interface, sizeof(interface));
	if (port.state == IBV_PORT_ACTIVE) {
		tell_active(f, what, &port, interface);
		return;
	}
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET && (port.state == IBV_PORT_INIT || port.state == IBV_PORT_ARMED))
		snprintf(advice, sizeof(advice), "start a subnet manager (opensm) in this network");
	else
		snprintf(advice, sizeof(advice), "see to its cable, and set the interface up: ip link set %s up",
			 *interface ? interface : "INTERFACE");
	rf_found(f, RF_FOUND_ADVICE, AREA, what, advice, "it is not active but %s%s%s", ibv_port_state_str(port.state),
		 *interface ? ", interface " : "", interface);
}

/* ---- a device ---- */

static void tell_limits(const struct rf_findings *f, const char *device, const struct ibv_device_attr_ex *attr)
{
	const struct ibv_device_attr *a = &attr->orig_attr;
	char size[40] = "any size";

	/* Devices without a limit say all ones, or most of them. */
	if (a->max_mr_size < UINT64_C(1) << 60)
		rf_format_size(a->max_mr_size, size, sizeof(size));
	rf_found_value(f, AREA, device, "max_registration_bytes", a->max_mr_size,
		       "up to %d registrations of %s, %d queue pairs, %d writes in flight on each", a->max_mr, size,
		       a->max_qp, a->max_qp_wr);
}

static void tell_on_demand(const struct rf_findings *f, const char *device, const struct ibv_device_attr_ex *attr)
{
	char what[100];
	bool has = attr->odp_caps.general_caps & IBV_ODP_SUPPORT &&
		   attr->odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE;

	snprintf(what, sizeof(what), "%s on-demand", device);
	rf_found(f, RF_FOUND_OK, AREA, what, NULL, "%s",
		 has ? "it follows page tables (ODP): memory need not be pinned"
		     : "it does not follow page tables (ODP): memory is pinned");
}

static void examine_device(const struct rf_findings *f, struct ibv_device *device, bool asked)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr_ex attr = {0};

	if (!context) {
		rf_found(f, asked ? RF_FOUND_NEEDED : RF_FOUND_ADVICE, AREA, name,
			 "be root, or get the rights for /dev/infiniband/uverbs*", "it cannot be opened: %s",
			 strerror(errno));
		return;
	}
	if (ibv_query_device_ex(context, NULL, &attr)) {
		rf_found(f, RF_FOUND_ADVICE, AREA, name, "see what the kernel's log says about the device",
			 "its limits cannot be read: %s", strerror(errno));
	} else {
		tell_limits(f, name, &attr);
		tell_on_demand(f, name, &attr);
		for (unsigned port = 1; port <= attr.orig_attr.phys_port_cnt; port++)
			examine_port(f, context, port);
		rf_verbs_examine_gids(f, context, name);
	}
	ibv_close_device(context);
}

bool rf_verbs_examine(const struct rf_findings *f, bool asked)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list || !count)
		tell_no_device(f, asked);
	for (int i = 0; list && i < count; i++)
		examine_device(f, list[i], asked);
	if (list)
		ibv_free_device_list(list);
	if (count)
		rf_verbs_examine_addresses(f, asked);
	return count > 0;
}
