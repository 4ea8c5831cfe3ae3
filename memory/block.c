// SPDX-License-Identifier: LGPL-2.1-or-later
/* Opening and closing a block of real memory: guest RAM in a file that the guest maps shared (tmpfs, hugetlbfs, memfd),
 * or anonymous memory of this process.
 *
 * On the source our own mapping is read-only, so that no mistake of ours can change a guest that still runs. Everything
 * that could make a later access fail (length, alignment, rights, the file's end) is checked here, because the only
 * answer to a failing access is SIGBUS. */
#include "memory/block.h"

#include "common/checked.h"
#include "memory/block_real.h"
#include "memory/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

static void real_close(struct rf_block *b)
{
	struct rf_real_block *r = (struct rf_real_block *)b;

	if (r->mapped)
		munmap(b->memory, b->npages << RF_PAGE_SHIFT);
	if (b->fd >= 0)
		close(b->fd);
	free(r);
}

static const struct rf_block_ops real_ops = {
    .extents = rf_real_extents,
    .find_zero = rf_real_find_zero,
    .copy = rf_real_copy,
    .digest = rf_real_digest,
    .clear = rf_real_clear,
    .close = real_close,
};

/* A descriptor of our own with the same rights. Opened anew where possible, because lseek() on a duplicate would move the
 * caller's file position too. */
static int own_descriptor(int fd)
{
	char path[64];
	int flags = fcntl(fd, F_GETFL), own;

	if (flags < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, (flags & O_ACCMODE) | O_CLOEXEC);
	return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* The kernel's own rule for mincore() on a file. */
static bool mincore_tells(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return !faccessat(AT_FDCWD, path, W_OK, AT_EACCESS);
}

static int check_length(const struct rf_block_source *s, uint64_t page_bytes, struct rf_error *e)
{
	if (!s->length)
		return rf_fail(e, RF_E_USAGE, "block \"%s\" is empty", s->name);
	if (s->length % page_bytes)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its length %llu is not a multiple of its page size %llu",
			       s->name, (unsigned long long)s->length, (unsigned long long)page_bytes);
	if (s->fd_offset % page_bytes)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its offset %llu is not a multiple of its page size %llu",
			       s->name, (unsigned long long)s->fd_offset, (unsigned long long)page_bytes);
	if ((uint64_t)s->memory % RF_PAGE_BYTES || s->guest_address % RF_PAGE_BYTES)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its address is not a multiple of 4096", s->name);
	return 0;
}

/* What the file allocates at once, and whether it can hold the block. */
static int check_file(const struct rf_block_source *s, struct stat *file, struct rf_block *b, struct rf_error *e)
{
	struct statfs fs;
	uint64_t end;
	int flags = fcntl(s->fd, F_GETFL);

	if (flags < 0 || fstat(s->fd, file) || fstatfs(s->fd, &fs))
		return rf_fail_errno(e, RF_E_USAGE, errno, "block \"%s\": cannot look at its file", s->name);
	if (!S_ISREG(file->st_mode))
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its memory is not a file of tmpfs, hugetlbfs or memfd",
			       s->name);
	if (s->writable ? (flags & O_ACCMODE) != O_RDWR : (flags & O_ACCMODE) == O_WRONLY)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its file is not open for %s", s->name,
			       s->writable ? "reading and writing" : "reading");
	if (fs.f_type == HUGETLBFS_MAGIC)
		b->page_bytes = (uint64_t)fs.f_bsize;
	b->may_be_huge = b->page_bytes > RF_PAGE_BYTES || (fs.f_type == TMPFS_MAGIC && rf_file_may_be_huge(file));
	if (check_length(s, b->page_bytes, e))
		return -1;
	if (!rf_add_u64(s->fd_offset, s->length, &end) || end > (uint64_t)file->st_size)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its file ends at %llu, before offset %llu + length %llu",
			       s->name, (unsigned long long)file->st_size, (unsigned long long)s->fd_offset,
			       (unsigned long long)s->length);
	return 0;
}

/* A source's memory is mapped for reading only, so that no bug of ours ever changes the guest. But before Linux 6.2 an RDMA
 * card can only be given memory that may be made writable meanwhile, so its mapping comes from a descriptor that could
 * write, where we may have one. Nobody keeps that: who looks for writers of the file finds none of ours. */
static void *map_shared(const struct rf_block_source *s, int fd)
{
	/* MAP_NORESERVE: looking at a hugetlb guest must not take huge pages away from it. The destination does reserve,
	 * so that a lack of them is a sentence here and not a SIGBUS in the middle of the move. */
	int rights = s->writable ? PROT_READ | PROT_WRITE : PROT_READ;
	int flags = s->writable ? MAP_SHARED : MAP_SHARED | MAP_NORESERVE;
	int able = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!s->writable)
		able = open(path, O_RDWR | O_CLOEXEC);
	void *memory = mmap(NULL, s->length, rights, flags, able >= 0 ? able : fd, (off_t)s->fd_offset);
	int error = errno;

	if (able >= 0)
		close(able);
	errno = error;
	return memory;
}

static int map_file(struct rf_real_block *r, const struct rf_block_source *s, struct rf_error *e)
{
	void *memory = map_shared(s, r->block.fd);

	if (memory == MAP_FAILED && errno == ENOMEM && r->block.page_bytes > RF_PAGE_BYTES)
		return rf_fail(
		    e, RF_E_REFUSED,
		    "block \"%s\": this host does not have %llu huge pages of %llu KiB free for it; as root: echo "
		    "N >/sys/kernel/mm/hugepages/hugepages-%llukB/nr_hugepages",
		    s->name, (unsigned long long)(s->length / r->block.page_bytes),
		    (unsigned long long)(r->block.page_bytes / 1024), (unsigned long long)(r->block.page_bytes / 1024));
	if (memory == MAP_FAILED)
		return rf_fail_errno(e, RF_E_FAILED, errno, "block \"%s\": cannot map %llu bytes of its file", s->name,
				     (unsigned long long)s->length);
	r->block.memory = memory;
	r->mapped = true;
	return 0;
}

static int fill_in(struct rf_real_block *r, const struct rf_block_source *s, struct rf_error *e)
{
	struct stat file;
	struct rf_block *b = &r->block;

	b->page_bytes = RF_PAGE_BYTES;
	if (s->fd >= 0 ? check_file(s, &file, b, e) : check_length(s, RF_PAGE_BYTES, e))
		return -1;
	if (s->memory ? rf_mapping_check(s, s->fd >= 0 ? &file : NULL, e) : 0)
		return -1;
	if (s->fd >= 0) {
		b->fd = own_descriptor(s->fd);
		if (b->fd < 0)
			return rf_fail_errno(e, RF_E_FAILED, errno, "block \"%s\": cannot duplicate its descriptor",
					     s->name);
		r->mincore_tells = mincore_tells(b->fd);
	}
	b->npages = s->length >> RF_PAGE_SHIFT;
	b->memory = s->memory;
	b->fd_offset = s->fd_offset;
	if (!b->memory && map_file(r, s, e))
		return -1;
	b->guest_address = s->guest_address ? s->guest_address : (uint64_t)b->memory;
	return 0;
}

int rf_block_open(const struct rf_block_source *source, struct rf_block **out, struct rf_error *e)
{
	struct rf_real_block *r;

	if (!source->name || !source->name[0] || strlen(source->name) >= RF_BLOCK_NAME_BYTES)
		return rf_fail(e, RF_E_USAGE, "a block's name has 1 to %d characters", RF_BLOCK_NAME_BYTES - 1);
	if (source->fd < 0 && !source->memory)
		return rf_fail(e, RF_E_USAGE, "block \"%s\" has neither memory nor a file", source->name);
	r = calloc(1, sizeof(*r));
	if (!r)
		return rf_fail(e, RF_E_FAILED, "block \"%s\": no memory", source->name);
	r->block.ops = &real_ops;
	r->block.fd = -1;
	memcpy(r->block.name, source->name, strlen(source->name) + 1);
	if (fill_in(r, source, e)) {
		real_close(&r->block);
		return -1;
	}
	*out = &r->block;
	return 0;
}
