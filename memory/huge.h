// SPDX-License-Identifier: LGPL-2.1-or-later
/* Where the kernel maps guest memory in pages of 2 MiB, it also tells of writes in such pieces. */
#ifndef RAMFERRY_MEMORY_HUGE_H
#define RAMFERRY_MEMORY_HUGE_H

#include "memory/guest.h"

#include <sys/stat.h>

enum { RF_HUGE_PAGES = 512 }; /* of 4 KiB in one of 2 MiB */

/* May the kernel put transparent huge pages into this file of tmpfs or memfd? `file` is what fstat() says. */
bool rf_file_may_be_huge(const struct stat *file);

/* The first block that has or may have pages of 2 MiB; NULL: none. */
const struct rf_block *rf_guest_huge_block(const struct rf_guest *g);

#endif
