// SPDX-License-Identifier: LGPL-2.1-or-later
/* The files of /proc that the tracker soft-dirty wants of a QEMU. */
#include "qemu/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int open_proc(const struct rf_qemu *g, const char *file, int flags, int *fd, struct rf_error *e)
{
	char name[48];

	snprintf(name, sizeof(name), "/proc/%d/%s", (int)g->process.pid, file);
	*fd = open(name, flags | O_CLOEXEC);
	if (*fd < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot open %s (run as root or as QEMU's user)", name);
	return 0;
}

int rf_qemu_open_soft_dirty(void *ctx, int *pagemap, int *clear_refs, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	int map, clear;

	if (open_proc(g, "pagemap", O_RDONLY, &map, e) != 0)
		return -1;
	if (open_proc(g, "clear_refs", O_WRONLY, &clear, e) != 0) {
		close(map);
		return -1;
	}
	*pagemap = map;
	*clear_refs = clear;
	return 0;
}
