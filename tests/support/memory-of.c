// SPDX-License-Identifier: LGPL-2.1-or-later
/* memory-of FILE...: what a guest's RAM file holds, "allocated A data D nonzero N" in bytes, summed over the files: blocks the
 * file system gave it, extents that SEEK_DATA calls data, and pages of those that are not zero. Reads only data extents, with
 * read(2), so it allocates nothing itself. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static uint64_t allocated, data, nonzero;

static void count_extent(int fd, off_t from, off_t to)
{
	static const char zero[PAGE_BYTES];
	static char buffer[256 * PAGE_BYTES];

	data += (uint64_t)(to - from);
	while (from < to) {
		size_t want = (size_t)(to - from) < sizeof(buffer) ? (size_t)(to - from) : sizeof(buffer);
		ssize_t n = pread(fd, buffer, want, from);

		if (n <= 0)
			return;
		for (ssize_t at = 0; at + PAGE_BYTES <= n; at += PAGE_BYTES)
			nonzero += memcmp(buffer + at, zero, PAGE_BYTES) ? PAGE_BYTES : 0;
		from += n;
	}
}

static int count_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	off_t from = 0, to;

	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		return 1;
	}
	allocated += (uint64_t)st.st_blocks * 512;
	while ((from = lseek(fd, from, SEEK_DATA)) >= 0) {
		to = lseek(fd, from, SEEK_HOLE);
		if (to < 0)
			break;
		count_extent(fd, from, to);
		from = to;
	}
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (count_file(argv[i]))
			return 1;
	printf("allocated %ju data %ju nonzero %ju\n", (uintmax_t)allocated, (uintmax_t)data, (uintmax_t)nonzero);
	return 0;
}
