// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 20 };

void rf_files_add(struct rf_files *files, const void *address, uint64_t length, int fd, uint64_t offset)
{
	unsigned count = atomic_load(&files->count);

	if (count == RF_FILES_MAX)
		return;
	files->files[count] =
	    (struct rf_file){.address = (uintptr_t)address, .length = length, .fd = fd, .offset = offset};
	pthread_mutex_init(&files->files[count].turn, NULL);
	atomic_store(&files->count, count + 1);
}

void rf_files_close(struct rf_files *files)
{
	unsigned count = atomic_exchange(&files->count, 0);

	for (unsigned i = 0; i < count; i++)
		pthread_mutex_destroy(&files->files[i].turn);
}

struct rf_file *rf_files_find(struct rf_files *files, uint64_t address, uint64_t length)
{
	unsigned count = atomic_load(&files->count);

	for (unsigned i = 0; i < count; i++) {
		struct rf_file *f = &files->files[i];

		if (address >= f->address && address - f->address < f->length &&
		    length <= f->length - (address - f->address))
			return f;
	}
	return NULL;
}

void rf_splice_open(struct rf_splice *s)
{
	s->useless = pipe2(s->pipe, O_CLOEXEC) < 0;
	if (!s->useless)
		fcntl(s->pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one works, too */
}

void rf_splice_close(struct rf_splice *s)
{
	if (s->pipe[0] != s->pipe[1]) {
		close(s->pipe[0]);
		close(s->pipe[1]);
	}
}

/* What is in the pipe must leave it: where the file takes no splice, by way of the mapping. */
static int empty_pipe(struct rf_splice *s, int fd, loff_t at, char *memory, size_t length)
{
	while (length) {
		ssize_t n = s->useless ? read(s->pipe[0], memory, length)
				       : splice(s->pipe[0], NULL, fd, &at, length, SPLICE_F_MOVE);

		if (n < 0 && errno == EINVAL && !s->useless) {
			s->useless = true;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		memory += n;
		length -= (size_t)n;
	}
	return 0;
}

ssize_t rf_splice_in(struct rf_splice *s, int socket, struct rf_file *file, void *memory, size_t length)
{
	uint64_t offset = file->offset + ((uintptr_t)memory - file->address);
	ssize_t n;

	do
		n = splice(socket, NULL, s->pipe[1], NULL, length < PIPE_BYTES ? length : PIPE_BYTES, SPLICE_F_MOVE);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EINVAL)
		s->useless = true;
	if (n <= 0)
		return n;
	pthread_mutex_lock(&file->turn);
	int failed = empty_pipe(s, file->fd, (loff_t)offset, memory, (size_t)n);

	pthread_mutex_unlock(&file->turn);
	return failed ? -1 : n;
}
