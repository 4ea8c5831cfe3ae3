// SPDX-License-Identifier: LGPL-2.1-or-later
#include "qemu/examine.h"

#include "common/sizes.h"
#include "qemu/check.h"
#include "qemu/guest.h"
#include "qemu/ram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static const char AREA[] = "guest";

struct examination {
	struct rf_guest *guest;
	struct rf_qemu *g;
	const struct rf_findings *f;
	enum rf_role role;
	bool refused;
};

/* The sentence of a refusal tells what to do. */
static void refuse(struct examination *x, const char *what, const struct rf_error *e)
{
	x->refused = true;
	rf_found(x->f, RF_FOUND_NEEDED, AREA, what, NULL, "%s", e->text);
}

static void examine_version(struct examination *x)
{
	char facts[1000] = "";
	struct rf_error e;
	int version = rf_qmp_version(x->g->qmp);

	if (x->guest->ops->facts(x->g, facts, sizeof(facts), &e) != 0)
		return refuse(x, "qemu", &e);
	for (char *p = facts; *p; p++)
		if (*p == '\n')
			*p = p[1] ? ' ' : '\0';
	rf_found(x->f, RF_FOUND_OK, AREA, "qemu", NULL, "version %d.%d.%d, process %d, %s", version / 10000,
		 version / 100 % 100, version % 100, (int)x->g->process.pid, facts);
}

static void examine_state(struct examination *x)
{
	char status[32];
	struct rf_error e;

	if (rf_query_status(x->g->qmp, status, sizeof(status), NULL, &e) != 0)
		return refuse(x, "state", &e);
	x->role = strcmp(status, "inmigrate") == 0 ? RF_ROLE_DESTINATION : RF_ROLE_SOURCE;

	int failed = x->role == RF_ROLE_SOURCE ? rf_check_source_state(x->g->qmp, &e)
					       : rf_check_destination_state(x->g->qmp, x->g->process.pid, &e);

	if (failed)
		return refuse(x, "state", &e);
	rf_found(x->f, RF_FOUND_OK, AREA, "state", NULL, "%s",
		 x->role == RF_ROLE_SOURCE ? status : "it waits for a guest, for ramferry receive");
}

/* May a thread of that process be stopped for a moment? The kernel asks the same before it lets one read its memory. */
static void examine_tracing(struct examination *x, uint64_t address)
{
	static const char advice[] = "be root, or the QEMU's user with kernel.yama.ptrace_scope=0; or take the slower "
				     "--tracker hash";
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};

	if (process_vm_readv(x->g->process.pid, &here, 1, &there, 1, 0) == 1)
		rf_found(x->f, RF_FOUND_OK, AREA, "tracing", NULL, "this user may have the kernel track its writes");
	else
		rf_found(x->f, RF_FOUND_ADVICE, AREA, "tracing", advice,
			 "this user may not have the kernel track its writes: %s", strerror(errno));
}

static void examine_memory(struct examination *x)
{
	struct rf_ram *ram;
	unsigned count;
	struct rf_error e;

	if (rf_ram_list(x->g->qmp, &x->g->process, &ram, &count, &e) != 0)
		return refuse(x, "memory", &e);
	for (unsigned i = 0; i < count; i++) {
		char size[40];

		rf_found(x->f, RF_FOUND_OK, AREA, "memory", NULL, "\"%s\", %s, shared in %s", ram[i].id,
			 rf_format_size(ram[i].size, size, sizeof(size)), ram[i].mapping.path);
	}
	if (count && x->role == RF_ROLE_SOURCE)
		examine_tracing(x, ram[0].address);
	free(ram);
}

static void examine_writers(struct examination *x)
{
	struct rf_error e;

	if (x->role == RF_ROLE_DESTINATION)
		return;
	if (rf_check_writers(x->g->qmp, x->g->process.pid, x->guest, &e) != 0)
		return refuse(x, "writers", &e);
	if (x->guest->needs_drain)
		rf_found(x->f, RF_FOUND_OK, AREA, "writers", NULL,
			 "%s writes into its memory by direct I/O: in a move the guest is stopped for a moment, a few "
			 "times, until that has ended",
			 x->guest->direct_writer);
	else
		rf_found(x->f, RF_FOUND_OK, AREA, "writers", NULL, "no device writes into its memory unseen");
}

/* And all of it in the words of a move, which looks at more: other processes that write to the memory, for one. */
static void examine_whole(struct examination *x)
{
	struct rf_error e;

	if (x->refused)
		return;
	if (x->guest->ops->check(x->g, x->role, &e) != 0)
		return refuse(x, "whole", &e);
	rf_found(x->f, RF_FOUND_OK, AREA, "whole", NULL, "it can be %s",
		 x->role == RF_ROLE_SOURCE ? "moved" : "filled");
}

bool rf_qemu_examine(struct rf_guest *guest, const struct rf_findings *f, enum rf_role *role)
{
	struct examination x = {.guest = guest, .g = rf_qemu_of(guest), .f = f};

	if (!x.g)
		return false;
	examine_version(&x);
	examine_state(&x);
	examine_memory(&x);
	examine_writers(&x);
	examine_whole(&x);
	*role = x.role;
	return true;
}
