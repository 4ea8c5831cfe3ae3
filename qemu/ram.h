// SPDX-License-Identifier: LGPL-2.1-or-later
/* What RAM does this QEMU have, and where? */
#ifndef RAMFERRY_QEMU_RAM_H
#define RAMFERRY_QEMU_RAM_H

#include "qemu/attach.h"
#include "qemu/qmp.h"

struct rf_ram {
	char id[256]; /* of the memory backend; also the block's name */
	uint64_t size;
	uint64_t address; /* in QEMU's address space */
	struct rf_mapping mapping;
};

/* All memory backends, in an order that depends on their ids only. Each is a shared mapping of a file, or it is refused
 * with the line to add (RF_E_REFUSED). *list is the caller's to free. */
int rf_ram_list(struct rf_qmp *q, const struct rf_process *p, struct rf_ram **list, unsigned *count,
		struct rf_error *e);

#endif
