// SPDX-License-Identifier: LGPL-2.1-or-later
/* Kernel versions tell little: features are compiled out, backported, or forbidden by seccomp. So the probe does once, on
 * a few pages of its own, what the tracker will do with the guest's. */
#include "memory/uffd.h"
#include "memory/wp.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGES = 8, WRITTEN = 5, BYTES = PAGES * RF_PAGE_BYTES };

static int round_trip(int userfaultfd, int pagemap, char *memory, struct rf_pages *dirty, struct rf_error *why)
{
	const struct rf_run all = {0, PAGES};
	uint64_t address = (uint64_t)memory;

	memset(memory, 1, BYTES);
	if (rf_wp_handshake(userfaultfd, why) || rf_wp_register(userfaultfd, address, BYTES, why))
		return -1;
	int result = rf_wp_collect(pagemap, address, all, NULL, why);

	if (!result)
		result = rf_wp_check(pagemap, address, all, why);
	*(volatile char *)(memory + WRITTEN * RF_PAGE_BYTES) = 2;
	if (!result)
		result = rf_wp_collect(pagemap, address, all, dirty, why);
	rf_wp_unregister(userfaultfd, address, BYTES);
	if (!result && (rf_pages_count(dirty, 0, PAGES) != 1 || !rf_pages_has(dirty, WRITTEN)))
		return rf_fail(why, RF_E_FAILED, "a write to a tracked page did not show");
	return result;
}

static char *scratch_memory(void)
{
	int fd = memfd_create("ramferry-self-test", MFD_CLOEXEC);

	if (fd < 0)
		return MAP_FAILED;
	char *memory = MAP_FAILED;

	if (!ftruncate(fd, BYTES))
		memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return memory;
}

static int with_descriptors(char *memory, struct rf_pages *dirty, struct rf_error *why)
{
	int result, userfaultfd, pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (pagemap < 0)
		return rf_fail_errno(why, RF_E_FAILED, errno, "cannot open /proc/self/pagemap");
	userfaultfd = rf_userfaultfd();
	if (userfaultfd < 0) {
		result = rf_fail_errno(why, RF_E_FAILED, errno, "no userfaultfd can be had here");
	} else {
		result = round_trip(userfaultfd, pagemap, memory, dirty, why);
		close(userfaultfd);
	}
	close(pagemap);
	return result;
}

int rf_wp_self_test(struct rf_error *why)
{
	struct rf_pages dirty;
	char *memory = scratch_memory();
	int result;

	if (memory == MAP_FAILED)
		return rf_fail_errno(why, RF_E_FAILED, errno, "no shared memory to try it on");
	result = rf_pages_init(&dirty, PAGES, why);
	if (!result) {
		result = with_descriptors(memory, &dirty, why);
		rf_pages_free(&dirty);
	}
	munmap(memory, BYTES);
	return result;
}
