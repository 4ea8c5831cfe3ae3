// SPDX-License-Identifier: LGPL-2.1-or-later
/* A real QEMU with the boot sector guest, for tests. QEMU and ACCEL of the environment choose which (qemu-system-x86_64, tcg). */
#ifndef TEST_QEMU_MACHINE_H
#define TEST_QEMU_MACHINE_H

#include "qemu/qmp.h"
#include "ramferry.h"

#include <stdbool.h>
#include <sys/types.h>

struct machine {
	pid_t pid;
	char folder[64]; /* console, bootsector and sockets */
	char ram[64];    /* the RAM file; with two, the first */
	char qmp[96];    /* for ramferry */
	char console[96];
	struct rf_qmp *monitor; /* a second one, for the test */
};

enum machine_kind {
	MACHINE_PLAIN = 0,
	MACHINE_INCOMING = 1, /* -S -incoming defer */
	MACHINE_PRIVATE = 2,  /* plain -m */
	MACHINE_MEMFD = 4,
	MACHINE_NUMA = 8,      /* two blocks */
	MACHINE_HUGE = 16,     /* 20 GiB, sparse */
	MACHINE_NOBODY = 32,   /* run by another user */
	MACHINE_HAS_NO_S = 64, /* -incoming defer without -S */
	MACHINE_SANDBOX = 128, /* -sandbox on */
	MACHINE_VGA = 256,     /* 16 MiB of video memory that travel in QEMU's stream */
};

/* Start it and wait until it answers. `bootsector` is the image; `extra` (or NULL) more arguments, NULL at the end. */
void machine_start(struct machine *m, const char *bootsector, unsigned kinds, const char *const *extra);
void machine_end(struct machine *m); /* also one that has ended */

/* Does the guest print anything new? False after half a minute: KVM inside a busy virtual machine is that slow. */
bool machine_runs(const struct machine *m);
void machine_expect_status(const struct machine *m, const char *status);
bool machine_has_ended(struct machine *m);
json_t *machine_ask(const struct machine *m, const char *command);

#endif
