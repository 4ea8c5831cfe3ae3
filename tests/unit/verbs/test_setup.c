// SPDX-License-Identifier: LGPL-2.1-or-later
/* Devices that are not there or do not do, ways that lead nowhere, and registrations that fail. */
#include "tests/unit/verbs/pair.h"

#include <errno.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static struct rf_error connect_error(int64_t timeout_ns, const char *device, int gid_index)
{
	struct rf_uri where = {.scheme = "rdma", .host = "10.0.0.1", .port = 9};
	struct rf_fabric_config config = verbs_config();
	struct rf_error e = {0};
	struct rf_fabric *f;
	unsigned before = fake.things;

	config.connect_timeout_ns = timeout_ns;
	config.device = device;
	config.gid_index = gid_index;
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	assert_int_equal(f->ops->connect(f, &where, &e), -1);
	f->ops->close(f);
	assert_int_equal(fake.things, before);
	assert_int_equal(fake.registered, 0);
	return e;
}

static void connecting(void **state)
{
	fake_reset();
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "nobody listens for RDMA at 10.0.0.1:9");
	fake.port_is_down = true;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "port 1 of fake0 is down");
	fake.port_is_down = false;
	fake.resolve_status = -ENODEV;
	pair_contains(connect_error(1000 * MS, NULL, -1).text,
		      "no RDMA device leads to 10.0.0.1:9; there is: fake0 (10.0.0.1)");
	fake.resolve_status = -ETIMEDOUT;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "10.0.0.1:9 does not answer: nobody has that address");
	fake.resolve_status = -ENETUNREACH;
	pair_contains(connect_error(1000 * MS, NULL, -1).text,
		      "cannot find a way to 10.0.0.1:9 by RDMA: Network is unreachable");
	fake.resolve_status = 0;
	fake.register_error = ENOMEM;
	fake_answer(RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "raise the limit of locked memory (ulimit -l");
	/* Cards of hardware pin their queues, too. */
	fake.register_error = 0;
	fake.queue_error = ENOMEM;
	pair_contains(connect_error(1000 * MS, NULL, -1).text,
		      "completions of fake0: raise the limit of locked memory");
	fake.queue_error = EINVAL;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "completions of fake0: Invalid argument");
	fake.queue_error = 0;
	fake.pair_error = ENOMEM;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "requests on fake0: raise the limit of locked memory");
	fake.pair_error = 0;
	/* Where connections are TCP's, it may be known before there is an event. */
	fake.connect_error = ECONNREFUSED;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "nobody listens for RDMA at 10.0.0.1:9");
}

static void *remove_soon(void *arg)
{
	usleep(50 * 1000);
	fake_remove();
	return NULL;
}

/* Nobody can come over a device that is gone: no waiting for ever. */
static void removed_while_listening(void **state)
{
	struct rf_uri where;
	struct rf_error e = {0};
	struct rf_fabric *f;
	pthread_t thread;

	fake_reset();
	f = verbs_listen(&where, &e);
	assert_non_null(f);
	pthread_create(&thread, NULL, remove_soon, NULL);
	assert_int_equal(f->ops->accept(f, 5000 * MS, &e), -1);
	pthread_join(thread, NULL);
	pair_contains(e.text, "the RDMA device at which a source was awaited was removed");
	assert_int_equal(e.code, RF_E_REFUSED);
	f->ops->close(f);
	assert_int_equal(fake.things, 0);
}

static void silence(void **state)
{
	struct rf_uri where;
	struct rf_fabric *listener;
	struct rf_error e = {0};

	fake_reset();
	fake.answers_nothing = true;
	listener = verbs_listen(&where, &e);
	assert_non_null(listener);
	pair_contains(connect_error(50 * MS, NULL, -1).text, "does not answer within 50 ms");
	assert_int_equal(listener->ops->accept(listener, 20 * MS, &e), -1);
	pair_contains(e.text, "no source came within 20 ms");
	listener->ops->close(listener);
}

static int listen_at_device(const char *device)
{
	struct rf_uri anywhere = {.scheme = "rdma"};
	struct rf_fabric_config config = verbs_config();
	struct rf_error e = {0};
	struct rf_fabric *f;
	char where[300];

	config.device = device;
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	int result = f->ops->listen(f, &anywhere, &e);

	if (result)
		pair_contains(e.text, device);
	else
		assert_int_equal(f->ops->address(f, where, sizeof(where), &e), 0);
	f->ops->close(f);
	return result;
}

static void devices(void **state)
{
	char text[300];
	struct rf_error e = {0};

	fake_reset();
	assert_int_equal(rf_fabric_verbs.probe(text, sizeof(text), &e), 0);
	pair_contains(text, "1 RDMA device(s): fake0 (10.0.0.1)");
	pair_contains(connect_error(1000 * MS, "mlx5_0", -1).text,
		      "there is no RDMA device \"mlx5_0\" that may be opened; there is: fake0 (10.0.0.1)");
	pair_contains(connect_error(1000 * MS, "fake0", 3).text, "GID 3 of fake0 is no IPv4 address");
	pair_contains(connect_error(1000 * MS, NULL, 0).text, "name it with --device");
	pair_contains(connect_error(1000 * MS, "fake0", -1).text, "nobody listens");
	/* Where GIDs are no addresses, those of interfaces are asked about: all lead to this card, 127.0.0.1 too. */
	fake.has_no_gids = true;
	pair_contains(connect_error(1000 * MS, "fake0", -1).text, "nobody listens");
	assert_int_equal(listen_at_device("fake0"), 0);
	fake.has_no_gids = false;
	assert_int_equal(listen_at_device("fake0"), 0);
	assert_int_equal(listen_at_device("mlx5_0"), -1);
	fake.sees_no_manager = true;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "load the kernel module rdma_ucm");
	fake.absent = true;
	pair_contains(connect_error(1000 * MS, NULL, -1).text, "this host has no RDMA device");
	assert_int_equal(rf_fabric_verbs.probe(text, sizeof(text), &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	pair_contains(e.text, "this host has no RDMA device");
}

/* ---- registrations ---- */

static void fails(struct rf_fabric *f, void *address, uint64_t length, int error, const char *sentence)
{
	struct rf_event ev;

	assert_int_equal(f->ops->reg(f, address, length, RF_ACCESS_REMOTE_WRITE, 42), 0);
	assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, -1);
	assert_int_equal(ev.cookie, 42);
	if (error)
		assert_int_equal(ev.error_number, error);
	pair_contains(ev.text, sentence);
}

static void failed_registrations(void **state)
{
	struct pair pair;
	struct rf_event ev;

	fake_reset();
	fake.max_mr_size = 8 << 20;
	pair_open(&pair, NULL);
	struct rf_fabric *f = pair.p.destination;

	fake.register_error = ENOMEM;
	fails(f, pair.to, PAGE, ENOMEM, "fake0 cannot register 4096 bytes: the limit of locked memory is reached");
	fake.register_error = EFAULT;
	fails(f, pair.to, PAGE, EFAULT, "some of that memory cannot be made present");
	fake.register_error = EOPNOTSUPP;
	fails(f, pair.to, PAGE, EOPNOTSUPP, "its memory is of a kind that it cannot pin");
	fake.register_error = EPERM;
	fails(f, pair.to, PAGE, EPERM, "fake0 cannot register 4096 bytes: Operation not permitted");
	fake.register_error = 0;
	fails(f, pair.to, 16 << 20, ENOMEM, "it takes 8388608 at once (use a smaller --chunk-size)");
	/* It goes on as if nothing had happened. */
	assert_int_equal(f->ops->reg(f, pair.to, PAGE, RF_ACCESS_REMOTE_WRITE, 43), 0);
	assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, 0);
	pair_close(&pair);
}

/* What is only a matter of speed is asked for once. */
static void relaxed_ordering(void **state)
{
	struct pair pair;
	struct rf_event ev;

	fake_reset();
	fake.knows_optional = false;
	pair_open(&pair, NULL);
	assert_int_equal(fake.optional_refused, 2); /* by each side's card */
	for (int i = 0; i < 5; i++) {
		assert_int_equal(pair.p.source->ops->reg(pair.p.source, pair.from, PAGE, RF_ACCESS_LOCAL_READ, 1), 0);
		assert_true(verbs_await(pair.p.source, RF_EV_REGISTERED, &ev));
		assert_int_equal(ev.status, 0);
	}
	assert_int_equal(fake.optional_refused, 2);
	pair_close(&pair);
}

static void register_on_demand(struct rf_fabric *f, void *address, uint64_t length)
{
	struct rf_event ev;

	assert_int_equal(f->ops->reg(f, address, length, RF_ACCESS_REMOTE_WRITE | RF_ACCESS_ON_DEMAND, 1), 0);
	assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
	assert_int_equal(ev.status, 0);
	assert_int_equal(f->ops->dereg(f, ev.key, 1), 0);
	assert_true(verbs_await(f, RF_EV_RELEASED, &ev));
}

/* Following page tables, in steps of huge pages where they are known and the card can. */
static void on_demand(void **state)
{
	enum { HUGE = 2 << 20 };
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);

	for (unsigned knows = 0; knows < 2; knows++) {
		struct pair pair;

		fake_reset();
		fake.follows_page_tables = true;
		fake.knows_huge = knows;
		pair_open(&pair, NULL);
		struct rf_fabric *f = pair.p.destination;

		assert_true(f->limits.on_demand);
		register_on_demand(f, pair.to, PAIR_PAGES * PAGE);
		assert_int_equal(fake.on_demand_registrations, 1);
		assert_int_equal(fake.prefetches, 1);
		/* Nobody touches the memory here, so any address will do for huge pages. */
		if (fd >= 0) {
			f->ops->file(f, (void *)HUGE, HUGE, fd, 0);
			register_on_demand(f, (void *)HUGE, HUGE);
			assert_int_equal(fake.huge_registrations, knows);
			register_on_demand(f, pair.to, PAIR_PAGES * PAGE);
			assert_int_equal(fake.huge_registrations, knows);
		}
		pair_close(&pair);
	}
	if (fd >= 0)
		close(fd);
}

/* A key names its own registration and no other, for ever. */
static void keys(void **state)
{
	enum { MANY = 200 };
	struct rf_key keys[MANY], forged;
	struct pair pair;
	struct rf_event ev;

	fake_reset();
	pair_open(&pair, NULL);
	struct rf_fabric *f = pair.p.source;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			assert_int_equal(f->ops->reg(f, pair.from, PAGE, RF_ACCESS_LOCAL_READ, i), 0);
			assert_true(verbs_await(f, RF_EV_REGISTERED, &ev));
			keys[i] = ev.key;
		}
		for (unsigned i = 0; i < MANY; i++) {
			assert_int_equal(f->ops->dereg(f, keys[i], i), 0);
			assert_true(verbs_await(f, RF_EV_RELEASED, &ev));
			assert_int_equal(ev.cookie, i);
		}
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(f->ops->dereg(f, keys[i], i), -1);
	}
	forged = pair.lkey;
	forged.value[0] ^= 1;
	assert_int_equal(f->ops->dereg(f, forged, 0), -1);
	forged = pair.lkey;
	forged.value[1] += UINT64_C(1) << 32;
	assert_int_equal(f->ops->dereg(f, forged, 0), -1);
	forged.value[1] = 0;
	assert_int_equal(f->ops->dereg(f, forged, 0), -1);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(connecting),
	    cmocka_unit_test(silence),
	    cmocka_unit_test(removed_while_listening),
	    cmocka_unit_test(devices),
	    cmocka_unit_test(failed_registrations),
	    cmocka_unit_test(relaxed_ordering),
	    cmocka_unit_test(keys),
	    cmocka_unit_test(on_demand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
