// SPDX-License-Identifier: LGPL-2.1-or-later
/* The process behind a QMP socket: holding on to it, and getting at the files that it maps. */
#ifndef RAMFERRY_QEMU_ATTACH_H
#define RAMFERRY_QEMU_ATTACH_H

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rf_process {
	pid_t pid;
	int pidfd; /* names this very process, also after its id was given to another */
	int lock;  /* held from rf_process_open() on: one ramferry for one QEMU */
};

/* RF_E_REFUSED: no such process, or another ramferry works on it. */
int rf_process_open(struct rf_process *p, pid_t pid, struct rf_error *e);
void rf_process_close(struct rf_process *p); /* also of {.pidfd = -1, .lock = -1} */

/* Wait until it has ended. False: it still lives after the time. */
bool rf_process_ended(const struct rf_process *p, int timeout_ms);

/* A shared mapping of a file, whole or in pieces that follow each other. */
struct rf_mapping {
	uint64_t address, length;
	uint64_t device, inode;
	uint64_t file_offset;
	char path[256]; /* as the process saw it; for sentences only */
};

/* The mapping of [address, address + length) in that process. -1: it is not mapped, private, or no file. */
int rf_mapping_find(const struct rf_process *p, uint64_t address, uint64_t length, struct rf_mapping *m,
		    struct rf_error *e);

/* Open the file behind it, through a descriptor that the process has: the path may name another file by now, or
 * nothing, and the process may live in another mount namespace or belong to another user. */
int rf_mapping_open(const struct rf_process *p, const struct rf_mapping *m, bool writable, int *fd, struct rf_error *e);

/* -1 if a third process, neither this one nor p, can write to that file: its writes would be neither seen nor kept
 * away. Sees those processes that we may look into. */
int rf_mapping_check_alone(const struct rf_process *p, const struct rf_mapping *m, struct rf_error *e);

#endif
