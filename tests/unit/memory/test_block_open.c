// SPDX-License-Identifier: LGPL-2.1-or-later
/* What rf_block_open takes, what it refuses and with which sentence; and the guest that holds blocks. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 16, BYTES = PAGES * RF_PAGE_BYTES };

static int fd, closed, blocks_closed;

static int setup(void **state)
{
	fd = memfd_create("block", MFD_CLOEXEC);
	return fd < 0 || ftruncate(fd, BYTES);
}

static int teardown(void **state)
{
	return close(fd);
}

static struct rf_block_source source(void)
{
	return (struct rf_block_source){.name = "ram", .length = BYTES, .fd = fd};
}

static void *map(int rights, int flags)
{
	void *memory = mmap(NULL, BYTES, rights, flags, flags & MAP_ANONYMOUS ? -1 : fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void refused(struct rf_block_source s, const char *sentence)
{
	struct rf_block *b = NULL;
	struct rf_error e;

	assert_fails(rf_block_open(&s, &b, &e), &e, sentence);
	assert_int_equal(e.code, RF_E_USAGE);
	assert_null(b);
}

static void a_file_is_mapped(void **state)
{
	struct rf_block_source s = source();
	struct rf_block *b;
	struct rf_error e;

	s.length = BYTES - RF_PAGE_BYTES;
	s.fd_offset = RF_PAGE_BYTES;
	s.guest_address = 0x7000000000;
	assert_int_equal(pwrite(fd, "x", 1, 3 * RF_PAGE_BYTES), 1);
	assert_int_equal(lseek(fd, 4711, SEEK_SET), 4711);
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_string_equal(b->name, "ram");
	assert_int_equal(b->npages, PAGES - 1);
	assert_int_equal(b->page_bytes, RF_PAGE_BYTES);
	assert_int_equal(b->guest_address, 0x7000000000);
	assert_int_equal(*(char *)rf_block_at(b, 2), 'x');

	struct rf_pages data;

	assert_good(rf_pages_init(&data, b->npages, &e), &e);
	assert_good(b->ops->extents(b, (struct rf_run){0, b->npages}, &data, &e), &e);
	assert_set(&data, "2");
	/* The caller's descriptor is his own: its position has not moved. */
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 4711);
	rf_pages_free(&data);
	b->ops->close(b);
}

static void a_source_is_mapped_read_only(void **state)
{
	struct rf_block_source s = source();
	char path[64], *memory;
	struct rf_block *b;
	struct rf_error e;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	s.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(s.fd >= 0);
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_int_equal(pread(fd, b->memory, 1, 0), -1);
	assert_int_equal(errno, EFAULT);
	/* A card's driver may have to, for a moment; the descriptor that is kept cannot write all the same. */
	assert_int_equal(mprotect(b->memory, BYTES, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(fcntl(b->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	b->ops->close(b);

	s.writable = true;
	refused(s, "not open for reading and writing");
	close(s.fd);

	memory = map(PROT_READ, MAP_SHARED);
	s = source();
	s.memory = memory;
	s.writable = true;
	refused(s, "is not writable");
	munmap(memory, BYTES);
}

static void memory_of_the_caller_stays_his(void **state)
{
	struct rf_block_source s = source();
	struct rf_block *b;
	struct rf_error e;

	s.memory = map(PROT_READ | PROT_WRITE, MAP_SHARED);
	/* Two mappings in a row that make up one block. */
	assert_int_equal(mprotect((char *)s.memory + BYTES / 2, BYTES / 2, PROT_READ), 0);
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_ptr_equal(b->memory, s.memory);
	assert_int_equal(b->guest_address, (uint64_t)s.memory);
	b->ops->close(b);
	*(volatile char *)s.memory = 1;
	munmap(s.memory, BYTES);
}

static void anonymous_memory_is_all_data(void **state)
{
	struct rf_block_source s = source();
	struct rf_pages data;
	struct rf_block *b;
	struct rf_error e;

	s.fd = -1;
	s.memory = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_good(rf_pages_init(&data, PAGES, &e), &e);
	assert_good(b->ops->extents(b, (struct rf_run){2, 3}, &data, &e), &e);
	assert_set(&data, "2-4");
	rf_pages_free(&data);
	b->ops->close(b);
	munmap(s.memory, BYTES);
}

static void refuses_bad_sizes(void **state)
{
	struct rf_block_source s = source();

	s.length = 0;
	refused(s, "block \"ram\" is empty");
	s.length = 4097;
	refused(s, "its length 4097 is not a multiple of its page size 4096");
	s.length = BYTES + RF_PAGE_BYTES;
	refused(s, "its file ends at 65536, before offset 0 + length 69632");
	s = source();
	s.fd_offset = 512;
	refused(s, "its offset 512 is not a multiple");
	s.fd_offset = RF_PAGE_BYTES;
	refused(s, "before offset 4096 + length 65536");
	s.fd_offset = -(uint64_t)RF_PAGE_BYTES;
	refused(s, "its file ends at");
	s = source();
	s.guest_address = 1;
	refused(s, "its address is not a multiple of 4096");
}

static void refuses_bad_names(void **state)
{
	struct rf_block_source s = source();
	char name[RF_BLOCK_NAME_BYTES + 1] = "";

	s.name = name;
	refused(s, "a block's name has 1 to 255 characters");
	memset(name, 'n', RF_BLOCK_NAME_BYTES);
	refused(s, "a block's name has 1 to 255 characters");
}

static void refuses_what_is_no_shared_memory(void **state)
{
	struct rf_block_source s = source();
	int pipe_ends[2], other;

	s.memory = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
	refused(s, "is a private mapping");
	munmap(s.memory, BYTES);
	refused(s, "no memory is mapped at");

	/* A hole in the middle of the mapping. */
	s.memory = map(PROT_READ | PROT_WRITE, MAP_SHARED);
	munmap((char *)s.memory + 5 * RF_PAGE_BYTES, RF_PAGE_BYTES);
	refused(s, "no memory is mapped at");
	munmap(s.memory, BYTES);

	/* The mapping of another file, and of another part of this one. */
	s.memory = map(PROT_READ | PROT_WRITE, MAP_SHARED);
	other = memfd_create("other", MFD_CLOEXEC);
	assert_int_equal(ftruncate(other, 2 * BYTES), 0);
	s.fd = other;
	refused(s, "is not its file at offset 0");
	close(other);
	munmap(s.memory, BYTES);
	s.fd = fd;
	s.memory = mmap(NULL, BYTES / 2, PROT_READ, MAP_SHARED, fd, BYTES / 2);
	s.length = BYTES / 2;
	refused(s, "is not its file at offset 0");
	munmap(s.memory, BYTES / 2);

	s = source();
	assert_int_equal(pipe(pipe_ends), 0);
	s.fd = pipe_ends[0];
	refused(s, "is not a file of tmpfs, hugetlbfs or memfd");
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	refused(s, "cannot look at its file");
	s.fd = -1;
	refused(s, "neither memory nor a file");
}

static void count_close(void *ctx)
{
	++*(int *)ctx;
}

static void count_block(struct rf_block *b)
{
	blocks_closed++;
}

static void a_guest_takes_its_blocks(void **state)
{
	static const struct rf_lifecycle_ops ops = {.close = count_close};
	static const struct rf_block_ops block_ops = {.close = count_block};
	struct rf_block empty = {.ops = &block_ops, .name = "empty"};
	struct rf_block_source s = source();
	struct rf_guest *g = rf_guest_create(&ops, &closed);
	struct rf_block *b;
	struct rf_error e;

	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_good(rf_guest_add(g, b, &e), &e);
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_fails(rf_guest_add(g, b, &e), &e, "there are two blocks named \"ram\"");
	s.name = "rom";
	assert_good(rf_block_open(&s, &b, &e), &e);
	assert_good(rf_guest_add(g, b, &e), &e);
	assert_fails(rf_guest_add(g, &empty, &e), &e, "block \"empty\" is empty");
	assert_int_equal(blocks_closed, 1);
	assert_int_equal(g->nblocks, 2);
	assert_string_equal(g->blocks[1]->name, "rom");
	assert_int_equal(closed, 0);
	rf_guest_destroy(g);
	assert_int_equal(closed, 1);
	rf_guest_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_file_is_mapped, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_source_is_mapped_read_only, setup, teardown),
	    cmocka_unit_test_setup_teardown(memory_of_the_caller_stays_his, setup, teardown),
	    cmocka_unit_test_setup_teardown(anonymous_memory_is_all_data, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_bad_sizes, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_bad_names, setup, teardown),
	    cmocka_unit_test_setup_teardown(refuses_what_is_no_shared_memory, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_guest_takes_its_blocks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
