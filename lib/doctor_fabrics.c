// SPDX-License-Identifier: LGPL-2.1-or-later
/* What can carry memory away from this host, and whether RDMA may do so with this guest: the questions that a move asks
 * (engine/pins.h), before there is one. */
#include "common/sizes.h"
#include "engine/pins.h"
#include "fabric/verbs_probe.h"
#include "lib/doctor.h"

#include <string.h>
#include <sys/resource.h>

static const uint64_t ANY_AMOUNT = UINT64_C(1) << 50;

/* What is in the way of rdma is in the way of the move only if that is by rdma. */
static enum rf_finding_verdict otherwise(const struct rf_doctor *d)
{
	return d->fabric_ops && !strcmp(d->fabric_ops->scheme, "rdma") ? RF_FOUND_NEEDED : RF_FOUND_ADVICE;
}

static void tell_memlock(struct rf_doctor *d)
{
	struct rlimit limit = {0};
	char size[40];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	rf_found(&d->findings, RF_FOUND_ADVICE, "limit", "memlock",
		 "raise it with ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, or memlock in "
		 "/etc/security/limits.conf; or pin less, with --max-pinned",
		 "only %s may be pinned; tcp needs none", rf_format_size(limit.rlim_cur, size, sizeof size));
}

/* Cards read and write memory that the kernel has to keep in place; how much a process may keep there is limited. */
static void examine_memlock(struct rf_doctor *d, struct rf_fabric *f)
{
	const struct rf_guest *guest = d->m->guest;
	uint64_t bytes = 0;
	struct rf_error e;
	char size[40];

	if (!f->ops->can_pin || !f->ops->can_pin(f, ANY_AMOUNT, &e))
		rf_found(&d->findings, RF_FOUND_OK, "limit", "memlock", NULL, "any amount of memory may be pinned");
	else if (!guest || !guest->nblocks || d->role == RF_ROLE_DESTINATION || rf_pins_data(guest, &bytes, &e))
		tell_memlock(d);
	else if (rf_pins_check(f, &d->m->options, bytes, &e))
		rf_found(&d->findings, otherwise(d), "limit", "memlock", NULL, "%s", e.text);
	else
		rf_found(&d->findings, RF_FOUND_OK, "limit", "memlock", NULL, "the guest's %s may be pinned",
			 rf_format_size(bytes, size, sizeof size));
}

/* A guest that gives memory back to its host does not go together with pages that stay where they are. */
static void examine_discards(struct rf_doctor *d, const struct rf_fabric *f)
{
	const struct rf_options *o = &d->m->options;
	bool staged = o->source_memory == RF_SOURCE_STAGED || o->tracker == RF_TRACKER_HASH;
	struct rf_error e;

	if (!d->m->guest || !d->m->guest->nblocks || d->role == RF_ROLE_DESTINATION)
		return;
	if (rf_pins_check_guest(f, d->m->guest, o, staged, &e))
		rf_found(&d->findings, otherwise(d), "guest", "rdma", NULL, "%s", e.text);
	else
		rf_found(&d->findings, RF_FOUND_OK, "guest", "rdma", NULL, "it can go by rdma");
}

static void examine_rdma(struct rf_doctor *d)
{
	const struct rf_fabric_ops *ops = rf_fabric_find("rdma", NULL);
	struct rf_fabric *f;
	struct rf_error e;

	if (!rf_verbs_examine(&d->findings, otherwise(d) == RF_FOUND_NEEDED) || !ops)
		return;
	if (rf_migration_open_fabric(d->m, ops, &f, &e)) {
		rf_found(&d->findings, otherwise(d), "rdma", "fabric", NULL, "%s", e.text);
		return;
	}
	examine_memlock(d, f);
	examine_discards(d, f);
	rf_migration_close_fabric(d->m, f);
}

void rf_doctor_fabrics(struct rf_doctor *d)
{
	char text[200] = "";
	struct rf_error e;

	if (!rf_fabric_tcp.probe(text, sizeof text, &e))
		rf_found(&d->findings, RF_FOUND_OK, "tcp", "sockets", NULL, "%s", text);
	else
		rf_found(&d->findings, RF_FOUND_ADVICE, "tcp", "sockets", "leave the sandbox that forbids them", "%s",
			 e.text);
	examine_rdma(d);
}
