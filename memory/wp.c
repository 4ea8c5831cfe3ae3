// SPDX-License-Identifier: LGPL-2.1-or-later
/* The kernel side of wp-async: userfaultfd in write-protect-async mode, collected with PAGEMAP_SCAN.
 *
 * A tracked page has a bit in its page table entry. A write takes a fault that clears the bit, without waking anybody;
 * PAGEMAP_SCAN with PM_SCAN_WP_MATCHING reports the pages without the bit and sets it again, under the page table's lock,
 * so no write falls between report and re-arming. "Written" is the state of a page nobody has armed, too: errors are on the
 * safe side. That is why the set of the first scan means nothing (kernels differ in it) and later ones do.
 *
 * What it cannot see: writes through other mappings or by descriptor, devices that pinned the page before, and a page
 * that is punched out while armed. docs/design.md 4.2 says what is done about them. */
#include "memory/wp.h"

#include "common/checked.h"
#include "memory/uffd.h"

#include <errno.h>
#include <sys/ioctl.h>

enum { REGIONS = 1024 }; /* 24 KiB of stack; a slice that needs more is walked in several steps */

/* Closing or unregistering much at once holds the guest's page faults off for 25 ms per GiB. */
static const uint64_t drop_bytes = 64ull << 20;

int rf_wp_handshake(int userfaultfd, struct rf_error *e)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};

	if (ioctl(userfaultfd, UFFDIO_API, &api))
		return rf_fail_errno(e, RF_E_FAILED, errno,
				     "this kernel has no asynchronous write protection (it came with Linux 6.7)");
	return 0;
}

int rf_wp_register(int userfaultfd, uint64_t address, uint64_t length, struct rf_error *e)
{
	struct uffdio_register range = {
	    .range = {.start = address, .len = length},
	    .mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (!ioctl(userfaultfd, UFFDIO_REGISTER, &range))
		return 0;
	if (errno == EBUSY)
		return rf_fail(e, RF_E_FAILED, "the guest's memory at %#llx is tracked by somebody else already",
			       (unsigned long long)address);
	return rf_fail_errno(e, RF_E_FAILED, errno, "the kernel cannot track the guest's memory at %#llx",
			     (unsigned long long)address);
}

void rf_wp_unregister(int userfaultfd, uint64_t address, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += drop_bytes) {
		struct uffdio_range piece = {.start = address + at, .len = rf_min_u64(drop_bytes, length - at)};

		/* Fails when the process is gone, and then there is nothing to end. */
		(void)ioctl(userfaultfd, UFFDIO_UNREGISTER, &piece);
	}
}

static int gone(struct rf_error *e)
{
	return rf_fail(e, RF_E_FAILED, "the process that runs the guest is gone");
}

/* Not every kernel's scan says that the process has died: an address space without mappings also looks like one in which
 * nobody writes. A read of pagemap tells on all of them. */
static int check_alive(int pagemap, uint64_t address, struct rf_error *e)
{
	uint64_t entry;
	ssize_t got = pread(pagemap, &entry, sizeof(entry), (off_t)((address >> RF_PAGE_SHIFT) * sizeof(entry)));

	if (got < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot read the guest's page map");
	if (got != sizeof(entry))
		return gone(e);
	return 0;
}

/* One step of a walk over [*at, end): fills `regions`, moves *at on. How many regions, or -1. */
static long scan_step(int pagemap, uint64_t category, uint64_t flags, uint64_t *at, uint64_t end,
		      struct rf_page_region regions[REGIONS], struct rf_error *e)
{
	struct rf_pagemap_scan scan = {
	    .size = sizeof(scan),
	    .flags = flags,
	    .start = *at,
	    .end = end,
	    .vec = (uint64_t)regions,
	    .vec_len = REGIONS,
	    .category_mask = category,
	    .return_mask = category,
	};
	long n = ioctl(pagemap, RF_PAGEMAP_SCAN, &scan);

	if (n < 0 && errno == EPERM)
		return rf_fail(e, RF_E_FAILED, "the guest's memory between %#llx and %#llx is not tracked any more",
			       (unsigned long long)*at, (unsigned long long)end);
	if (n < 0 && errno == ESRCH)
		return gone(e);
	if (n < 0)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot scan the guest's page map");
	if (n > REGIONS || scan.walk_end <= *at || scan.walk_end > end)
		return rf_fail(e, RF_E_FAILED, "the scan of the guest's page map does not get past %#llx",
			       (unsigned long long)*at);
	for (long i = 0; i < n; i++)
		if (regions[i].start < *at || regions[i].end > end || regions[i].start >= regions[i].end)
			return rf_fail(e, RF_E_FAILED, "the kernel reports pages that were not asked for");
	*at = scan.walk_end;
	return n;
}

int rf_wp_collect(int pagemap, uint64_t address, struct rf_run slice, struct rf_pages *dirty, struct rf_error *e)
{
	uint64_t start = address + (slice.first << RF_PAGE_SHIFT), end = start + (slice.count << RF_PAGE_SHIFT);
	struct rf_page_region regions[REGIONS];

	for (uint64_t at = start; at < end;) {
		long n = scan_step(pagemap, RF_PAGE_IS_WRITTEN, RF_SCAN_WP_MATCHING | RF_SCAN_CHECK_WPASYNC, &at, end,
				   regions, e);

		if (n < 0)
			return -1;
		for (long i = 0; dirty && i < n; i++)
			rf_pages_add(dirty, (regions[i].start - address) >> RF_PAGE_SHIFT,
				     (regions[i].end - regions[i].start) >> RF_PAGE_SHIFT);
	}
	return slice.count ? check_alive(pagemap, start, e) : 0;
}

int rf_wp_check(int pagemap, uint64_t address, struct rf_run slice, struct rf_error *e)
{
	uint64_t start = address + (slice.first << RF_PAGE_SHIFT), end = start + (slice.count << RF_PAGE_SHIFT);
	struct rf_page_region regions[REGIONS];
	uint64_t tracked = 0;

	for (uint64_t at = start; at < end;) {
		long n = scan_step(pagemap, RF_PAGE_IS_WPALLOWED, 0, &at, end, regions, e);

		if (n < 0)
			return -1;
		for (long i = 0; i < n; i++)
			tracked += regions[i].end - regions[i].start;
	}
	if (slice.count && check_alive(pagemap, start, e))
		return -1;
	if (tracked != end - start)
		return rf_fail(e, RF_E_FAILED, "only %llu of %llu bytes of the guest's memory at %#llx can be tracked",
			       (unsigned long long)tracked, (unsigned long long)(end - start),
			       (unsigned long long)start);
	return 0;
}
