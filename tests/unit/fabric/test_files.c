// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 3 << 20, SENT = 100000 };

static void a_range_is_found_whole_or_not_at_all(void **state)
{
	static struct rf_files files;

	rf_files_add(&files, (void *)0x10000, 0x1000, 3, 0);
	rf_files_add(&files, (void *)0x20000, 0x2000, 4, 0x5000);
	assert_null(rf_files_find(&files, 0xffff, 1));
	assert_int_equal(rf_files_find(&files, 0x10fff, 1)->fd, 3);
	assert_null(rf_files_find(&files, 0x10fff, 2));
	assert_int_equal(rf_files_find(&files, 0x20000, 0x2000)->offset, 0x5000);
	assert_null(rf_files_find(&files, 0x20001, 0x2000));
	assert_null(rf_files_find(&files, 0x20001, UINT64_MAX));
	for (int i = 0; i < 2 * RF_FILES_MAX; i++)
		rf_files_add(&files, (void *)0x30000, 0x1000, 5, 0);
	assert_int_equal(rf_files_find(&files, 0x30000, 1)->fd, 5);
}

struct fixture {
	int sockets[2], fd;
	char *memory, sent[SENT];
	struct rf_splice splice;
	struct rf_files files;
	struct rf_file *file;
};

static struct fixture *open_all(int flags)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[64];

	assert_non_null(f);
	int file = memfd_create("files", MFD_CLOEXEC);

	assert_int_equal(ftruncate(file, BYTES), 0);
	f->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(f->memory, MAP_FAILED);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	f->fd = open(path, O_RDWR | O_CLOEXEC | flags);
	assert_true(f->fd >= 0);
	close(file);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, f->sockets), 0);
	for (int i = 0; i < SENT; i++)
		f->sent[i] = (char)(i * 7 + i / 4096);
	rf_files_add(&f->files, f->memory, BYTES, f->fd, 0);
	f->file = rf_files_find(&f->files, (uintptr_t)f->memory, BYTES);
	assert_non_null(f->file);
	rf_splice_open(&f->splice);
	assert_false(f->splice.useless);
	return f;
}

static void close_all(struct fixture *f)
{
	rf_splice_close(&f->splice);
	rf_files_close(&f->files);
	close(f->sockets[0]);
	close(f->sockets[1]);
	close(f->fd);
	munmap(f->memory, BYTES);
	free(f);
}

/* Send SENT bytes, take them in to `offset`, and look that they and nothing else is there. */
static void move(struct fixture *f, uint64_t offset)
{
	size_t got = 0;

	assert_int_equal(send(f->sockets[0], f->sent, SENT, 0), SENT);
	while (got < SENT) {
		ssize_t n = rf_splice_in(&f->splice, f->sockets[1], f->file, f->memory + offset + got, SENT - got);

		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_memory_equal(f->memory + offset, f->sent, SENT);
	assert_int_equal(f->memory[offset - 1], 0);
	assert_int_equal(f->memory[offset + SENT], 0);
}

static void bytes_arrive_in_the_file(void **state)
{
	struct fixture *f = open_all(0);

	move(f, 4096);
	move(f, 1 << 20 | 123);
	assert_false(f->splice.useless);
	shutdown(f->sockets[0], SHUT_WR);
	assert_int_equal(rf_splice_in(&f->splice, f->sockets[1], f->file, f->memory, 1), 0);
	close_all(f);
}

/* What is in the pipe already must not be lost. A file that is open for appending takes no splice. */
static void a_file_that_takes_no_splice_is_filled_by_its_mapping(void **state)
{
	struct fixture *f = open_all(O_APPEND);

	move(f, 4096);
	assert_true(f->splice.useless);
	close_all(f);
}

static void a_source_that_gives_no_splice_loses_nothing(void **state)
{
	struct fixture *f = open_all(0);
	int none = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	errno = 0;
	assert_int_equal(rf_splice_in(&f->splice, none, f->file, f->memory, 4096), -1);
	if (errno == EINVAL)
		assert_true(f->splice.useless);
	close(none);
	close_all(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_range_is_found_whole_or_not_at_all),
	    cmocka_unit_test(bytes_arrive_in_the_file),
	    cmocka_unit_test(a_file_that_takes_no_splice_is_filled_by_its_mapping),
	    cmocka_unit_test(a_source_that_gives_no_splice_loses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
