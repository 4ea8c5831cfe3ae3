// SPDX-License-Identifier: LGPL-2.1-or-later
/* Nobody says which pages of a file are huge without its mapping being looked at, and that is too early to be asked: what counts is what
 * the kernel may do later on. For tmpfs the mount says it (huge=always, within_size, advise), for memfd and for all that
 * "force" or "deny" concerns a setting. `st_blksize` of a file sums that up, but for "advise": there it depends on madvise(), which
 * QEMU calls. */
#include "memory/huge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

static const char setting_file[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/* Is the setting that one? The file names all, and the one that holds in brackets. */
static bool setting_is(const char *value)
{
	char line[128] = "", wanted[32];
	FILE *f = fopen(setting_file, "re");

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	snprintf(wanted, sizeof(wanted), "[%s]", value);
	return strstr(line, wanted);
}

/* 1 the mount of that device leaves it to madvise(), 0 it does not, -1 no such mount is seen here: memfd, or another namespace. */
static int mount_advises(dev_t device)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	int found = -1;

	while (f && found < 0 && getline(&line, &room, f) > 0) {
		unsigned major, minor;

		if (sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 && makedev(major, minor) == device)
			found = strstr(line, "huge=advise") != NULL;
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

bool rf_file_may_be_huge(const struct stat *file)
{
	if (file->st_blksize >= RF_HUGE_PAGES * RF_PAGE_BYTES)
		return true;
	if (setting_is("deny"))
		return false;
	int advises = mount_advises(file->st_dev);

	return advises < 0 ? setting_is("advise") : advises;
}

const struct rf_block *rf_guest_huge_block(const struct rf_guest *g)
{
	for (unsigned i = 0; i < g->nblocks; i++)
		if (g->blocks[i]->may_be_huge)
			return g->blocks[i];
	return NULL;
}
