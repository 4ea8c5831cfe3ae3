// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/scatter.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void scatter_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("scatter: ", stderr);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

void scatter_need(bool ok, const char *what)
{
	if (!ok)
		scatter_die("%s: %s", what, strerror(errno));
}

unsigned char *scatter_map(void)
{
	int fd = memfd_create("scatter", MFD_CLOEXEC);

	scatter_need(fd >= 0 && ftruncate(fd, (off_t)SCATTER_BYTES) == 0, "memfd");
	void *p = mmap(NULL, SCATTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	scatter_need(p != MAP_FAILED, "mmap");
	close(fd);
	return p;
}

uint64_t scatter_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t word_at(size_t page, unsigned run)
{
	return (page * 2 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ run;
}

void scatter_stamp(unsigned char *memory, unsigned run)
{
	for (size_t i = 0; i < SCATTER_PAGES; i++) {
		uint64_t first = word_at(i, run);

		memcpy(memory + i * SCATTER_PAGE, &first, sizeof(first));
		memcpy(memory + (i + 1) * SCATTER_PAGE - sizeof(first), &first, sizeof(first));
	}
}

bool scatter_stamped(const unsigned char *memory, unsigned run)
{
	for (size_t i = 0; i < SCATTER_PAGES; i++) {
		uint64_t first = word_at(i, run);

		if (memcmp(memory + i * SCATTER_PAGE, &first, sizeof(first)) ||
		    memcmp(memory + (i + 1) * SCATTER_PAGE - sizeof(first), &first, sizeof(first)))
			return false;
	}
	return true;
}

double scatter_rate(int64_t ns)
{
	return (double)(SCATTER_BYTES >> 20) / ((double)ns / 1e9);
}

pid_t scatter_start(void (*child)(int fd, unsigned run), unsigned run, int *parent_fd)
{
	int pair[2];

	scatter_need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	pid_t pid = fork();

	scatter_need(pid >= 0, "fork");
	if (pid == 0) {
		close(pair[0]);
		child(pair[1], run);
		_exit(0);
	}
	close(pair[1]);
	*parent_fd = pair[0];
	return pid;
}

void scatter_end(pid_t pid, int fd)
{
	int status;

	close(fd);
	scatter_need(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status)
		scatter_die("the receiver failed");
}
