// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which pages of a block hold data, found without allocating any.
 *
 * A plain file (tmpfs, memfd) knows: SEEK_DATA. hugetlbfs calls everything data, mincore() only tells what
 * our own mapping has touched, and reading through a mapping allocates. What does tell is UFFDIO_CONTINUE on a scratch
 * mapping: it maps the page of the file if there is one and fails with EFAULT if not, about 4 us a page. Where
 * userfaultfd is forbidden (containers) or the descriptor is read-only, the file is read instead: a read of a hole gives
 * zeros and allocates nothing; a page of zeros then counts as a hole, which it may. */
#include "common/checked.h"
#include "memory/block_real.h"
#include "memory/uffd.h"
#include "memory/zero.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024, WINDOW_PAGES = 2048 };

/* How many of the `most` pages from `page` on are data, the first being known to be; at least 1. mincore() says 0 of
 * pages in swap, which are data, and of holes: there the caller has to look again. */
static uint64_t data_pages(const struct rf_block *b, uint64_t page, uint64_t most)
{
	unsigned char in_core[WINDOW_PAGES];
	uint64_t n = 1;

	if (most == 1 || mincore(rf_block_at(b, page), most << RF_PAGE_SHIFT, in_core))
		return 1;
	while (n < most && in_core[n] & 1)
		n++;
	return n;
}

/* SEEK_DATA finds the next data; where it ends, SEEK_HOLE would tell, but it walks all the way to the next hole of the
 * file, for every slice of a full guest again. mincore() looks no further than asked: at a window that grows while
 * everything in it is data. */
static int file_extents(const struct rf_block *b, struct rf_run range, struct rf_pages *data, struct rf_error *e)
{
	uint64_t end = range.first + range.count;
	uint64_t widest = rf_real(b)->mincore_tells ? WINDOW_PAGES : 1, window = rf_min_u64(widest, 8);

	for (uint64_t at = range.first; at < end;) {
		off_t found = lseek(b->fd, (off_t)(b->fd_offset + (at << RF_PAGE_SHIFT)), SEEK_DATA);

		if (found < 0 && errno == ENXIO)
			break;
		if (found < 0)
			return rf_fail_errno(e, RF_E_FAILED, errno, "block \"%s\": cannot find the data of its file",
					     b->name);
		uint64_t page = ((uint64_t)found - b->fd_offset) >> RF_PAGE_SHIFT;

		if (page >= end)
			break;
		uint64_t most = rf_min_u64(window, end - page), n = data_pages(b, page, most);

		rf_pages_add(data, page, n);
		at = page + n;
		window = n == most ? rf_min_u64(2 * window, widest) : rf_max_u64(window / 2, rf_min_u64(widest, 8));
	}
	return 0;
}

/* Add the part of [at, at + page_bytes) that lies in the range; offsets are the file's. */
static void add_huge_page(const struct rf_block *b, uint64_t at, uint64_t start, uint64_t end, struct rf_pages *data)
{
	uint64_t first = rf_max_u64(at, start), until = rf_min_u64(at + b->page_bytes, end);

	rf_pages_add(data, (first - b->fd_offset) >> RF_PAGE_SHIFT, (until - first) >> RF_PAGE_SHIFT);
}

/* A userfaultfd with `scratch` registered for minor faults, or -1. */
static int minor_faults(void *scratch, uint64_t length)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MINOR_HUGETLBFS};
	struct uffdio_register range = {
	    .range = {.start = (uint64_t)scratch, .len = length},
	    .mode = UFFDIO_REGISTER_MODE_MINOR,
	};
	int fd = rf_userfaultfd();

	if (fd < 0)
		return -1;
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* 0 done, 1 cannot be told in this way. */
static int huge_extents_by_fault(const struct rf_block *b, uint64_t start, uint64_t end, struct rf_pages *data)
{
	uint64_t page = b->page_bytes, from = start & ~(page - 1), length = rf_round_up(end, page) - from;
	void *scratch = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_NORESERVE, b->fd, (off_t)from);
	int result = 1;

	if (scratch == MAP_FAILED)
		return 1;
	int fd = minor_faults(scratch, length);

	if (fd < 0)
		goto unmap;
	for (uint64_t at = 0; at < length; at += page) {
		struct uffdio_continue c = {
		    .range = {.start = (uint64_t)scratch + at, .len = page},
		    .mode = UFFDIO_CONTINUE_MODE_DONTWAKE,
		};

		if (!ioctl(fd, UFFDIO_CONTINUE, &c) || errno == EEXIST)
			add_huge_page(b, from + at, start, end, data);
		else if (errno != EFAULT)
			goto close_fd;
	}
	result = 0;
close_fd:
	close(fd);
unmap:
	munmap(scratch, length);
	return result;
}

static bool all_zero(const char *bytes, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += RF_PAGE_BYTES)
		if (!rf_page_is_zero(bytes + at))
			return false;
	return true;
}

static int huge_extents_by_reading(const struct rf_block *b, uint64_t start, uint64_t end, struct rf_pages *data,
				   struct rf_error *e)
{
	char *buffer = aligned_alloc(RF_PAGE_BYTES, READ_BYTES);

	if (!buffer)
		return rf_fail(e, RF_E_FAILED, "no memory to read a file into");
	for (uint64_t at = start; at < end;) {
		/* Up to the end of this huge page; after its first byte that is not zero it counts as data whole. */
		uint64_t page_end = rf_min_u64(rf_round_up(at + 1, b->page_bytes), end);
		uint64_t wanted = rf_min_u64(page_end - at, READ_BYTES);
		ssize_t got = pread(b->fd, buffer, wanted, (off_t)at);

		if (got != (ssize_t)wanted) {
			free(buffer);
			return rf_fail_errno(e, RF_E_FAILED, got < 0 ? errno : EIO,
					     "block \"%s\": cannot read its file", b->name);
		}
		if (all_zero(buffer, wanted)) {
			at += wanted;
			continue;
		}
		add_huge_page(b, at & ~(b->page_bytes - 1), start, end, data);
		at = page_end;
	}
	free(buffer);
	return 0;
}

int rf_real_extents(const struct rf_block *b, struct rf_run range, struct rf_pages *data, struct rf_error *e)
{
	uint64_t start = b->fd_offset + (range.first << RF_PAGE_SHIFT);
	uint64_t end = start + (range.count << RF_PAGE_SHIFT);

	if (b->fd < 0) {
		rf_pages_add(data, range.first, range.count);
		return 0;
	}
	if (b->page_bytes == RF_PAGE_BYTES)
		return file_extents(b, range, data, e);
	if (range.count && huge_extents_by_fault(b, start, end, data))
		return huge_extents_by_reading(b, start, end, data, e);
	return 0;
}
