// SPDX-License-Identifier: LGPL-2.1-or-later
/* Can this QEMU's guest be moved, or filled? For `ramferry doctor`: the same refusals that a move would meet, all of them
 * and not only the first, and touching nothing. */
#ifndef RAMFERRY_QEMU_EXAMINE_H
#define RAMFERRY_QEMU_EXAMINE_H

#include "common/findings.h"
#include "memory/guest.h"

#include <stdbool.h>

/* false: not a QEMU's guest, nothing was said. If all is well the guest knows its blocks afterwards. *role: one that waits with
 * -incoming is to be filled, any other to be moved. */
bool rf_qemu_examine(struct rf_guest *guest, const struct rf_findings *f, enum rf_role *role);

#endif
