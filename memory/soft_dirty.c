// SPDX-License-Identifier: LGPL-2.1-or-later
/* A page table entry has a bit, seen in pagemap, that every write sets. Writing "4" to clear_refs clears all bits of a process
 * and write-protects its pages, so that the next write of each takes a fault. There is no step that does both at once:
 * track_soft_dirty.c sees to it that nobody writes in between. */
#include "memory/soft_dirty.h"

#include "common/checked.h"

#include <errno.h>
#include <unistd.h>

enum { ENTRIES = 4096 }; /* 32 KiB of stack */

static const uint64_t soft_dirty = 1ull << 55;

int rf_soft_dirty_read(int pagemap, uint64_t address, struct rf_run run, struct rf_pages *dirty, struct rf_error *e)
{
	uint64_t entries[ENTRIES], end = run.first + run.count;

	for (uint64_t at = run.first; at < end;) {
		uint64_t n = rf_min_u64(ENTRIES, end - at);
		size_t wanted = n * sizeof(entries[0]);
		ssize_t got =
		    pread(pagemap, entries, wanted, (off_t)(((address >> RF_PAGE_SHIFT) + at) * sizeof(entries[0])));

		if (got < 0)
			return rf_fail_errno(e, RF_E_FAILED, errno, "cannot read the guest's page map");
		if ((size_t)got != wanted)
			return rf_fail(e, RF_E_FAILED, "the process that runs the guest is gone");
		for (uint64_t i = 0; i < n; i++) {
			uint64_t first = i;

			while (i < n && entries[i] & soft_dirty)
				i++;
			if (i > first)
				rf_pages_add(dirty, at + first, i - first);
		}
		at += n;
	}
	return 0;
}

int rf_soft_dirty_clear(int clear_refs, struct rf_error *e)
{
	if (pwrite(clear_refs, "4", 1, 0) == 1)
		return 0;
	return rf_fail_errno(e, RF_E_FAILED, errno, "cannot clear the soft-dirty bits of the guest's pages");
}
