// SPDX-License-Identifier: LGPL-2.1-or-later
/* What RDMA devices there are, for `ramferry doctor`: verbs_probe.c, or verbs_missing.c in builds without rdma-core. */
#ifndef RAMFERRY_FABRIC_VERBS_PROBE_H
#define RAMFERRY_FABRIC_VERBS_PROBE_H

#include "common/findings.h"

#include <stdbool.h>

/* Devices, ports, GIDs, and the addresses that lead to them. `asked`: rdma is wanted, and what it lacks is needed. True
 * if there is a device at all, which makes it matter how much memory may be pinned. */
bool rf_verbs_examine(const struct rf_findings *f, bool asked);

struct ibv_context;
struct sockaddr;

/* verbs_probe_address.c */
void rf_verbs_examine_gids(const struct rf_findings *f, struct ibv_context *context, const char *device);
bool rf_verbs_examine_addresses(const struct rf_findings *f, bool asked);

/* An interface that belongs to the port, "" if there is none. */
void rf_verbs_interface(struct ibv_context *context, unsigned port, char *name, unsigned length);

#endif
