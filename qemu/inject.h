// SPDX-License-Identifier: LGPL-2.1-or-later
/* Write tracking needs a userfaultfd of the very process that maps the guest, and an unmodified QEMU makes none. */
#ifndef RAMFERRY_QEMU_INJECT_H
#define RAMFERRY_QEMU_INJECT_H

#include "common/error.h"

#include <sys/types.h>

/* Make a userfaultfd in the process and bring it here; the process keeps none and goes on as if nothing had happened.
 * *fd is the caller's, with no UFFDIO_API done yet. -1 with a sentence, and the process is as it was. */
int rf_inject_userfaultfd(pid_t pid, int pidfd, int *fd, struct rf_error *e);

#endif
