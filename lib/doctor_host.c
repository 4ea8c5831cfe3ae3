// SPDX-License-Identifier: LGPL-2.1-or-later
/* This host: how writes can be tracked, and what can carry memory away. */
#include "common/sizes.h"
#include "fabric/verbs_probe.h"
#include "lib/doctor.h"
#include "memory/tracker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CAP_IPC_LOCK_BIT = 14, CAP_SYS_PTRACE_BIT = 19 };

static bool have_capability(unsigned bit)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t effective = 0;

	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1)
			break;
	fclose(f);
	return effective >> bit & 1;
}

/* ---- trackers ---- */

static bool asked_for(const struct rf_doctor *d, const struct rf_tracker_ops *tracker)
{
	switch ((enum rf_tracker_choice)d->m->options.tracker) {
	case RF_TRACKER_WP_ASYNC:
		return tracker == &rf_track_wp;
	case RF_TRACKER_HASH:
		return tracker == &rf_track_hash;
	case RF_TRACKER_CALLBACK:
		return tracker == &rf_track_callback;
	default:
		return false;
	}
}

static void examine_tracker(struct rf_doctor *d, const struct rf_tracker_ops *tracker, struct rf_guest *guest,
			    const char *good, const char *advice)
{
	struct rf_error why;

	if (!tracker->probe(guest, &why))
		rf_found(&d->findings, RF_FOUND_OK, "tracker", tracker->name, NULL, "%s", good);
	else
		rf_found(&d->findings, asked_for(d, tracker) ? RF_FOUND_NEEDED : RF_FOUND_ADVICE, "tracker",
			 tracker->name, advice, "%s", why.text);
}

static void examine_trackers(struct rf_doctor *d)
{
	static const struct rf_lifecycle_ops no_ops;
	struct rf_guest nobody = {.ops = &no_ops}, *guest = d->m->guest ? d->m->guest : &nobody;

	examine_tracker(d, &rf_track_wp, guest, "the kernel tells exactly which pages were written",
			"take Linux 6.7 or newer; until then hash serves, which reads all memory in every round");
	/* Programs that run their guest themselves have it or not; the command has it never. */
	if (guest->ops->collect || asked_for(d, &rf_track_callback))
		examine_tracker(d, &rf_track_callback, guest, "the program that runs the guest tells",
				"leave the choice to ramferry: --tracker auto");
	examine_tracker(d, &rf_track_hash, guest, "works anywhere, and reads all memory in every round", "");
}

/* Somebody else's process can only be asked when it is there, and then qemu/ does. */
static void examine_rights(struct rf_doctor *d)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (f && fscanf(f, "%d", &scope) != 1)
		scope = 0;
	if (f)
		fclose(f);
	if (scope < 3 && have_capability(CAP_SYS_PTRACE_BIT))
		rf_found(&d->findings, RF_FOUND_OK, "tracker", "rights", NULL, "this user may trace any QEMU");
	else if (!scope)
		rf_found(&d->findings, RF_FOUND_OK, "tracker", "rights", NULL, "this user may trace QEMUs of its own");
	else
		rf_found(&d->findings, RF_FOUND_ADVICE, "tracker", "rights",
			 "be root or set it to 0 where guests are sent from; --tracker hash goes without",
			 "this user may trace no QEMU: kernel.yama.ptrace_scope is %d", scope);
}

void rf_doctor_host(struct rf_doctor *d)
{
	examine_trackers(d);
	if (!d->m->guest)
		examine_rights(d);
}

/* ---- fabrics ---- */

static uint64_t bytes_to_pin(const struct rf_doctor *d)
{
	const struct rf_options *o = &d->m->options;
	uint64_t bytes = 0;

	for (unsigned i = 0; d->m->guest && i < d->m->guest->nblocks; i++)
		bytes += d->m->guest->blocks[i]->npages << RF_PAGE_SHIFT;
	if (o->max_pinned_bytes && (!bytes || o->max_pinned_bytes < bytes))
		bytes = o->max_pinned_bytes;
	return bytes;
}

/* Cards read and write memory that the kernel has to keep in place; how much a user may keep there is limited. */
static void examine_memlock(struct rf_doctor *d)
{
	static const char advice[] = "raise it with ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, or "
				     "memlock in /etc/security/limits.conf; or pin less, with --max-pinned";
	bool asked = d->fabric_ops && !strcmp(d->fabric_ops->scheme, "rdma");
	uint64_t bytes = bytes_to_pin(d);
	struct rlimit limit = {0};
	char have[40], want[40];

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY || have_capability(CAP_IPC_LOCK_BIT)) {
		rf_found(&d->findings, RF_FOUND_OK, "limit", "memlock", NULL, "any amount of memory may be pinned");
		return;
	}
	rf_format_size(limit.rlim_cur, have, sizeof have);
	rf_format_size(bytes, want, sizeof want);
	if (bytes && bytes <= limit.rlim_cur)
		rf_found(&d->findings, RF_FOUND_OK, "limit", "memlock", NULL, "%s may be pinned, %s are needed", have,
			 want);
	else
		rf_found(&d->findings, asked && bytes ? RF_FOUND_NEEDED : RF_FOUND_ADVICE, "limit", "memlock", advice,
			 "only %s may be pinned%s%s; tcp needs none", have, bytes ? " of " : "", bytes ? want : "");
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
	bool asked = d->fabric_ops && !strcmp(d->fabric_ops->scheme, "rdma");

	if (rf_verbs_examine(&d->findings, asked))
		examine_memlock(d);
}
