// SPDX-License-Identifier: LGPL-2.1-or-later
/* What a registration does to memory: its pages are there afterwards, with what they held before. */
#include "fabric/tcp.h"
#include "tests/unit/fabric/raw_peer.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 3000 };

static unsigned char *map(size_t bytes, int protection)
{
	void *p = mmap(NULL, bytes, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static size_t resident(unsigned char *memory, size_t pages)
{
	unsigned char *there = malloc(pages);
	size_t n = 0;

	assert_non_null(there);
	assert_int_equal(mincore(memory, pages * PAGE, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	free(there);
	return n;
}

static void test_populates(void **state)
{
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	unsigned char *memory = map(PAGES * PAGE, PROT_READ | PROT_WRITE);

	memory[0] = 11;
	memory[1234 * PAGE + 7] = 22;
	assert_true(resident(memory, PAGES) < 100);
	assert_int_equal(f->ops->reg(f, memory, (PAGES - 1) * PAGE, RF_ACCESS_REMOTE_WRITE, 1), 0);
	assert_int_equal(raw_event(f).status, 0);
	assert_int_equal(resident(memory, PAGES - 1), PAGES - 1);
	/* … and what was not asked for is not. */
	assert_int_equal(resident(memory, PAGES), PAGES - 1);
	assert_int_equal(memory[0], 11);
	assert_int_equal(memory[1234 * PAGE + 7], 22);
	f->ops->close(f);
	munmap(memory, PAGES * PAGE);
}

/* Reading one's own memory costs nothing: a sparse guest stays sparse. */
static void test_source_touches_nothing(void **state)
{
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	unsigned char *memory = map(PAGES * PAGE, PROT_READ);

	assert_false(f->limits.local_keys);
	assert_int_equal(f->ops->reg(f, memory, PAGES * PAGE, RF_ACCESS_LOCAL_READ, 1), 0);
	assert_int_equal(raw_event(f).status, 0);
	assert_int_equal(resident(memory, PAGES), 0);
	f->ops->close(f);
	munmap(memory, PAGES * PAGE);
}

static void test_memory_that_cannot_be_had(void **state)
{
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	unsigned char *memory = map(PAGES * PAGE, PROT_READ);
	struct rf_event ev;

	assert_int_equal(f->ops->reg(f, memory, PAGES * PAGE, RF_ACCESS_REMOTE_WRITE, 5), 0);
	ev = raw_event(f);
	assert_int_equal(ev.kind, RF_EV_REGISTERED);
	assert_int_equal(ev.cookie, 5);
	assert_int_equal(ev.status, -1);
	assert_non_null(strstr(ev.text, "cannot make 12288000 bytes of memory ready for the peer: "));
	f->ops->close(f);
	munmap(memory, PAGES * PAGE);
}

/* As on a tmpfs that is full: the mapping is there, but its file gets no more pages. */
static void test_a_file_without_room(void **state)
{
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	int fd = memfd_create("no room", MFD_CLOEXEC);
	void *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct rf_event ev;

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(ftruncate(fd, PAGES / 2 * PAGE), 0);
	assert_int_equal(f->ops->reg(f, memory, PAGES * PAGE, RF_ACCESS_REMOTE_WRITE, 5), 0);
	ev = raw_event(f);
	assert_int_equal(ev.status, -1);
	assert_non_null(strstr(ev.text, "the file system that holds it is full"));
	f->ops->close(f);
	munmap(memory, PAGES * PAGE);
	close(fd);
}

/* As a kernel before 5.14 answers: for this thread and those that it starts. */
static bool forget_advice(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23 /* MADV_POPULATE_WRITE */, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void *populate_on_old_kernel(void *memory)
{
	atomic_bool stop = false;

	if (!forget_advice() || madvise(memory, PAGE, 23) != -1)
		return "no filter";
	return rf_populate(memory, PAGES * PAGE, &stop) ? "failed" : "populated";
}

static void test_old_kernel(void **state)
{
	unsigned char *memory = map(PAGES * PAGE, PROT_READ | PROT_WRITE);
	pthread_t thread;
	void *result;

	memory[PAGE] = 33;
	assert_int_equal(pthread_create(&thread, NULL, populate_on_old_kernel, memory), 0);
	pthread_join(thread, &result);
	if (strcmp(result, "no filter") == 0)
		skip();
	assert_string_equal(result, "populated");
	assert_int_equal(resident(memory, PAGES), PAGES);
	assert_int_equal(memory[PAGE], 33);
	munmap(memory, PAGES * PAGE);
}

/* Closing does not wait for gigabytes to be touched. */
static void test_close_stops_it(void **state)
{
	size_t bytes = (size_t)4 << 30;
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	unsigned char *memory = map(bytes, PROT_READ | PROT_WRITE);

	assert_int_equal(f->ops->reg(f, memory, bytes, RF_ACCESS_REMOTE_WRITE, 1), 0);
	f->ops->close(f);
	assert_true(resident(memory, bytes / PAGE) < bytes / PAGE / 4);
	munmap(memory, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_populates),
	    cmocka_unit_test(test_source_touches_nothing),
	    cmocka_unit_test(test_memory_that_cannot_be_had),
	    cmocka_unit_test(test_a_file_without_room),
	    cmocka_unit_test(test_old_kernel),
	    cmocka_unit_test(test_close_stops_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
