// SPDX-License-Identifier: LGPL-2.1-or-later
/* The kernel's words for write tracking that the headers of Debian 12 do not know yet: PAGEMAP_SCAN and WP_ASYNC, both
 * of Linux 6.7. The structures have names of ours, so that newer headers do not clash; layouts are the kernel's ABI. */
#ifndef RAMFERRY_MEMORY_UFFD_H
#define RAMFERRY_MEMORY_UFFD_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

struct rf_page_region {
	uint64_t start, end, categories;
};

struct rf_pagemap_scan {
	uint64_t size, flags, start, end;
	uint64_t walk_end; /* out: where the walk stopped */
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

_Static_assert(sizeof(struct rf_page_region) == 24 && sizeof(struct rf_pagemap_scan) == 96, "the kernel's layout");

#define RF_PAGEMAP_SCAN _IOWR('f', 16, struct rf_pagemap_scan)

enum {                            /* flags */
       RF_SCAN_WP_MATCHING = 1,   /* write-protect what is reported, in one step per page */
       RF_SCAN_CHECK_WPASYNC = 2, /* EPERM where the mapping is not tracked */
};

enum {                           /* categories */
       RF_PAGE_IS_WPALLOWED = 1, /* tracked */
       RF_PAGE_IS_WRITTEN = 2,
};

/* USER_MODE_ONLY needs no privilege, and faults taken by the kernel are not ours to handle anyway. */
static inline int rf_userfaultfd(void)
{
	return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

#endif
