// SPDX-License-Identifier: LGPL-2.1-or-later
/* Registrations on a real RDMA device: read-only mappings, on demand, and limits. As root, in the VMs of the tests. */
#include "tests/rdma/verbs_pair.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 64, BYTES = PAGES * 4096 };

static int open_pair(void **state)
{
	static struct verbs_pair p;
	struct rf_fabric_config config = verbs_config();

	config.lanes = 1;
	if (!verbs_pair_open(&p, &config)) {
		print_error("%s\n", p.e.text);
		return -1;
	}
	*state = &p;
	return 0;
}

static int close_pair(void **state)
{
	verbs_pair_close(*state);
	return 0;
}

static struct rf_key registered(struct rf_fabric *f, void *address, uint64_t length, unsigned access)
{
	struct rf_event ev;

	assert_int_equal(f->ops->reg(f, address, length, access, 7), 0);
	assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
	if (ev.status)
		print_error("%s\n", ev.text);
	assert_int_equal(ev.status, 0);
	return ev.key;
}

static void release(struct rf_fabric *f, struct rf_key key)
{
	struct rf_event ev;

	assert_int_equal(f->ops->dereg(f, key, 8), 0);
	assert_true(verbs_await(f, RF_EV_RELEASED, &ev));
	/* A key opens one door once. */
	assert_int_equal(f->ops->dereg(f, key, 9), -1);
}

/* The source's bytes arrive, whatever way both sides registered. */
static void move(struct verbs_pair *p, void *from, unsigned from_access, void *to, unsigned to_access)
{
	struct rf_key lkey = registered(p->source, from, BYTES, from_access);
	struct rf_key rkey = registered(p->destination, to, BYTES, to_access);
	struct rf_write w = {.local = from, .lkey = lkey, .remote = (uintptr_t)to, .rkey = rkey, .length = BYTES};
	struct rf_event ev;

	assert_int_equal(p->source->ops->write(p->source, 1, &w, 1), 1);
	assert_int_equal(p->source->ops->send(p->source, 1, "fence", 5), 1);
	assert_true(verbs_await(p->source, RF_EV_WRITTEN, &ev));
	assert_int_equal(ev.count, 1);
	assert_true(verbs_await(p->destination, RF_EV_MESSAGE, &ev));
	assert_memory_equal(from, to, BYTES);
	release(p->source, lkey);
	release(p->destination, rkey);
}

/* The source maps its guest read-only; NULL: no memory. */
static void *map_read_only(void)
{
	int fd;
	unsigned char *writable = verbs_map(BYTES, PROT_READ | PROT_WRITE, &fd);
	void *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	for (size_t i = 0; writable && i < BYTES; i++)
		writable[i] = (unsigned char)(i * 7 + 1);
	if (writable)
		munmap(writable, BYTES);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* The mapping stays as it was: who writes to it dies, which a system call tells politely. */
static void read_only(void **state)
{
	int zero = open("/dev/zero", O_RDONLY);
	void *from = map_read_only(), *to = verbs_map(BYTES, PROT_READ | PROT_WRITE, NULL);

	assert_true(from && to && zero >= 0);
	move(*state, from, RF_ACCESS_LOCAL_READ, to, RF_ACCESS_REMOTE_WRITE);
	assert_int_equal(read(zero, from, 1), -1);
	assert_int_equal(errno, EFAULT);
	close(zero);
	munmap(from, BYTES);
	munmap(to, BYTES);
}

static void on_demand(void **state)
{
	struct verbs_pair *p = *state;
	void *from, *to;

	if (!p->source->limits.on_demand) {
		print_message("this device cannot follow page tables\n");
		skip();
	}
	from = map_read_only();
	to = verbs_map(BYTES, PROT_READ | PROT_WRITE, NULL);
	assert_true(from && to);
	move(p, from, RF_ACCESS_LOCAL_READ | RF_ACCESS_ON_DEMAND, to, RF_ACCESS_REMOTE_WRITE | RF_ACCESS_ON_DEMAND);
	munmap(from, BYTES);
	munmap(to, BYTES);
}

static void counted(void **state)
{
	struct verbs_pair *p = *state;
	struct rf_fabric_counters before, after;
	void *from = verbs_map(BYTES, PROT_READ | PROT_WRITE, NULL),
	     *to = verbs_map(BYTES, PROT_READ | PROT_WRITE, NULL);

	p->source->ops->count(p->source, &before);
	move(p, from, RF_ACCESS_LOCAL_READ, to, RF_ACCESS_REMOTE_WRITE);
	p->source->ops->count(p->source, &after);
	assert_int_equal(after.registrations - before.registrations, 1);
	assert_true(after.registration_ns > before.registration_ns);
	assert_int_equal(after.doorbells - before.doorbells, 2);
	assert_in_range(after.completions - before.completions, 1, 4);
	munmap(from, BYTES);
	munmap(to, BYTES);
}

static void not_mapped(void **state)
{
	struct verbs_pair *p = *state;
	void *hole = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rf_event ev;

	munmap(hole, BYTES);
	assert_int_equal(p->destination->ops->reg(p->destination, hole, BYTES, RF_ACCESS_REMOTE_WRITE, 7), 0);
	assert_true(verbs_await(p->destination, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, -1);
	assert_int_equal(ev.cookie, 7);
	assert_non_null(strstr(ev.text, "cannot register 262144 bytes: some of that memory cannot be made present"));
}

/* Rights of this thread alone: without CAP_IPC_LOCK the limit counts. */
static void drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

/* Last: the workers that start from here on have no right to lock more than the limit. */
static void memlock(void **state)
{
	enum { LIMIT = 4 << 20, TOO_MUCH = 8 << 20 };
	struct rlimit limit = {.rlim_cur = LIMIT, .rlim_max = LIMIT};
	struct rf_fabric_config config = verbs_config();
	struct verbs_pair p;
	struct rf_error e = {0};
	struct rf_event ev;
	void *memory = verbs_map(TOO_MUCH, PROT_READ | PROT_WRITE, NULL);

	config.lanes = 1;
	assert_true(verbs_pair_open(&p, &config));
	assert_int_equal(p.source->ops->can_pin(p.source, 1 << 30, &e), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_int_equal(p.source->ops->can_pin(p.source, 1 << 30, &e), 0);
	drop_ipc_lock();
	assert_int_equal(p.source->ops->can_pin(p.source, 1 << 30, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_non_null(strstr(e.text, "1 GiB of memory cannot be registered: this process may lock 4 MiB, which is "));
	assert_non_null(strstr(e.text, "ulimit -l, or LimitMEMLOCK="));
	assert_int_equal(p.source->ops->reg(p.source, memory, TOO_MUCH, RF_ACCESS_LOCAL_READ, 7), 0);
	assert_true(verbs_await(p.source, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, -1);
	assert_int_equal(ev.error_number, ENOMEM);
	assert_non_null(strstr(ev.text, "cannot register 8388608 bytes: the limit of locked memory is reached"));
	verbs_pair_close(&p);
	/* Not even the buffers of a connection fit then. */
	limit.rlim_cur = 64 << 10;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_false(verbs_pair_open(&p, &config));
	assert_non_null(strstr(p.e.text, "raise the limit of locked memory (ulimit -l"));
	verbs_pair_close(&p);
	munmap(memory, TOO_MUCH);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(read_only),  cmocka_unit_test(on_demand), cmocka_unit_test(counted),
	    cmocka_unit_test(not_mapped), cmocka_unit_test(memlock),
	};

	if (argc > 1)
		verbs_address = argv[1];
	if (!verbs_have_device())
		return VERBS_SKIPPED;
	return cmocka_run_group_tests(tests, open_pair, close_pair) ? 1 : 0;
}
