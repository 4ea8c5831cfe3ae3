// SPDX-License-Identifier: LGPL-2.1-or-later
/* Kernels without soft-dirty bits have the files all the same, and say 0. So first of all a page is written and looked at,
 * which touches nothing else; only where that shows are bits cleared, and with them those of the whole process. */
#include "memory/soft_dirty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 8, WRITTEN = 5, BYTES = PAGES * RF_PAGE_BYTES };

static int read_all(int pagemap, const char *memory, struct rf_pages *dirty, struct rf_error *why)
{
	rf_pages_remove(dirty, 0, PAGES);
	return rf_soft_dirty_read(pagemap, (uint64_t)memory, (struct rf_run){0, PAGES}, dirty, why);
}

static int round_trip(int pagemap, int clear_refs, char *memory, struct rf_pages *dirty, struct rf_error *why)
{
	memset(memory, 1, BYTES);
	if (read_all(pagemap, memory, dirty, why))
		return -1;
	if (rf_pages_count(dirty, 0, PAGES) != PAGES)
		return rf_fail(why, RF_E_FAILED, "this kernel has no soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)");
	if (rf_soft_dirty_clear(clear_refs, why))
		return -1;
	*(volatile char *)(memory + WRITTEN * RF_PAGE_BYTES) = 2;
	if (read_all(pagemap, memory, dirty, why))
		return -1;
	if (rf_pages_count(dirty, 0, PAGES) != 1 || !rf_pages_has(dirty, WRITTEN))
		return rf_fail(why, RF_E_FAILED, "a write does not show in this kernel's soft-dirty bits");
	return 0;
}

static int with_memory(int pagemap, int clear_refs, struct rf_pages *dirty, struct rf_error *why)
{
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return rf_fail_errno(why, RF_E_FAILED, errno, "no shared memory to try it on");
	int result = round_trip(pagemap, clear_refs, memory, dirty, why);

	munmap(memory, BYTES);
	return result;
}

int rf_soft_dirty_self_test(struct rf_error *why)
{
	struct rf_pages dirty;
	int clear_refs, result = -1, pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (pagemap < 0)
		return rf_fail_errno(why, RF_E_FAILED, errno, "cannot open /proc/self/pagemap");
	clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (clear_refs < 0) {
		rf_fail_errno(why, RF_E_FAILED, errno, "cannot open /proc/self/clear_refs");
		goto close_pagemap;
	}
	if (!rf_pages_init(&dirty, PAGES, why)) {
		result = with_memory(pagemap, clear_refs, &dirty, why);
		rf_pages_free(&dirty);
	}
	close(clear_refs);
close_pagemap:
	close(pagemap);
	return result;
}
