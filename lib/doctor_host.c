// SPDX-License-Identifier: LGPL-2.1-or-later
/* This host: how writes of guests can be tracked here. */
#include "lib/doctor.h"
#include "memory/tracker.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>

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

static bool asked_for(const struct rf_doctor *d, const struct rf_tracker_ops *tracker)
{
	switch ((enum rf_tracker_choice)d->m->options.tracker) {
	case RF_TRACKER_WP_ASYNC:
		return tracker == &rf_track_wp;
	case RF_TRACKER_SOFT_DIRTY:
		return tracker == &rf_track_soft_dirty;
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

/* Of interest where wp-async is not to be had. */
static void examine_soft_dirty(struct rf_doctor *d, struct rf_guest *guest)
{
	const struct rf_tracker_ops *soft = &rf_track_soft_dirty;
	struct rf_error why, unheard;

	if (soft->probe(guest, &why) && !rf_track_wp.probe(guest, &unheard) && !asked_for(d, soft))
		rf_found(&d->findings, RF_FOUND_OK, "tracker", soft->name, NULL,
			 "not needed, and cannot serve here: %s", why.text);
	else if (!soft->probe(guest, &why) && soft->by_itself(guest, &why))
		rf_found(&d->findings, RF_FOUND_ADVICE, "tracker", soft->name,
			 "leave the choice to ramferry: --tracker auto",
			 "only when asked for by name, for it may lose writes: %s", why.text);
	else
		examine_tracker(
		    d, soft, guest,
		    "the kernel tells which pages were written; the guest is stopped for a moment in each round",
		    "take a kernel with CONFIG_MEM_SOFT_DIRTY, or Linux 6.7 or newer");
}

/* A guest in huge pages needs as many of them at the other side. */
static void examine_huge_pages(struct rf_doctor *d)
{
	const struct rf_guest *g = d->m->guest;

	for (unsigned i = 0; i < g->nblocks; i++) {
		const struct rf_block *b = g->blocks[i];
		unsigned long long kib = b->page_bytes / 1024;

		if (b->page_bytes > RF_PAGE_BYTES)
			rf_found(
			    &d->findings, RF_FOUND_OK, "guest", "huge pages", NULL,
			    "block \"%s\" lies in pages of %llu KiB: the receiver's host must have %llu of them free",
			    b->name, kib, (unsigned long long)((b->npages << RF_PAGE_SHIFT) / b->page_bytes));
		else if (b->may_be_huge)
			rf_found(&d->findings, RF_FOUND_OK, "guest", "huge pages", NULL,
				 "block \"%s\" may have transparent huge pages", b->name);
	}
}

static void examine_trackers(struct rf_doctor *d)
{
	static const struct rf_lifecycle_ops no_ops;
	struct rf_guest nobody = {.ops = &no_ops}, *guest = d->m->guest ? d->m->guest : &nobody;

	examine_tracker(
	    d, &rf_track_wp, guest, "the kernel tells exactly which pages were written",
	    "take Linux 6.7 or newer; until then soft-dirty serves, or hash, which reads all memory in every round");
	examine_soft_dirty(d, guest);
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
	if (scope < 3 && have_capability(CAP_SYS_PTRACE))
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
	if (d->m->guest && d->role == RF_ROLE_SOURCE)
		examine_huge_pages(d);
	if (!d->m->guest)
		examine_rights(d);
}
