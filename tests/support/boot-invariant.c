// SPDX-License-Identifier: LGPL-2.1-or-later
/* boot-invariant FILE [END]: does the RAM file of a stopped boot sector guest hold what guest/bootsector.S can have written? From
 * 1 MiB to END (default 100 MiB) the first bytes of the pages are N up to some place and N - 1 behind it, and nothing else was
 * written. Prints N and the place; status 1 with the first wrong page otherwise. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define FIRST      0x100000

static int wrong(uint64_t at, const char *what, int is)
{
	printf("page at 0x%jx: %s (%d)\n", (uintmax_t)at, what, is);
	return 1;
}

int main(int argc, char **argv)
{
	static const char zero[PAGE_BYTES];
	static unsigned char page[PAGE_BYTES];
	uint64_t end = argc > 2 ? strtoull(argv[2], NULL, 0) : 0x6400000, step = 0;
	unsigned char now = 0;
	int fd;

	if (argc < 2 || (fd = open(argv[1], O_RDONLY | O_CLOEXEC)) < 0) {
		perror(argc < 2 ? "usage: boot-invariant FILE [END]" : argv[1]);
		return 2;
	}
	for (uint64_t at = FIRST; at < end; at += PAGE_BYTES) {
		if (pread(fd, page, sizeof(page), (off_t)at) != PAGE_BYTES)
			return wrong(at, "cannot be read", 0);
		if (memcmp(page + 1, zero, PAGE_BYTES - 1))
			return wrong(at, "holds bytes that the guest never wrote", 0);
		if (at == FIRST)
			now = page[0];
		if (page[0] == now)
			continue;
		if (page[0] != (unsigned char)(now - 1) || step)
			return wrong(at, step ? "a second step" : "not one less than the page before", page[0]);
		step = at;
		now = page[0];
	}
	printf("%u step 0x%jx\n", (unsigned)(unsigned char)(step ? now + 1 : now), (uintmax_t)step);
	return 0;
}
