// SPDX-License-Identifier: LGPL-2.1-or-later
/* A port that is down, and a device that goes away in the middle. As root, in the VMs of the tests.
 *
 * librdmacm keeps a device open until its process ends, and soft-RoCE is not gone before, so each act has its own process.
 *
 * usage: test-verbs-gone [ADDRESS [DEVICE INTERFACE]]     default: 10.0.0.1 rxe0 rdma0
 *
 * The interface is taken down and up, and the soft-RoCE device on it deleted and made again. */
#include "tests/rdma/verbs_pair.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS INT64_C(1000000)

static char *device = "rxe0", *interface = "rdma0";

static pid_t start(char **arguments)
{
	pid_t pid;

	assert_int_equal(posix_spawnp(&pid, arguments[0], NULL, NULL, arguments, environ), 0);
	return pid;
}

static void end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void set_link(char *state)
{
	end(start((char *[]){"ip", "link", "set", interface, state, NULL}));
}

static void port_is_down(void **state)
{
	struct rf_uri where = {.scheme = "rdma", .port = 9}, here = {.scheme = "rdma"};
	struct rf_fabric_config config = verbs_config();
	char sentence[100];
	struct rf_error connect_e = {0}, listen_e = {0};
	struct rf_fabric *f;

	snprintf(where.host, sizeof(where.host), "%s", verbs_address);
	snprintf(here.host, sizeof(here.host), "%s", verbs_address);
	snprintf(sentence, sizeof(sentence), "port 1 of %s is down", device);
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &connect_e), 0);
	set_link("down");
	int connected = f->ops->connect(f, &where, &connect_e), listens = f->ops->listen(f, &here, &listen_e);

	set_link("up");
	f->ops->close(f);
	assert_int_equal(connected, -1);
	assert_string_equal(connect_e.text, sentence);
	assert_int_equal(listens, -1);
	assert_string_equal(listen_e.text, sentence);
}

/* Events of `f` for a while; true: it is lost, and ev->text says why. */
static bool is_lost(struct rf_fabric *f, struct rf_event *ev)
{
	int64_t deadline = f->ops->now(f) + 3000 * MS;

	while (f->ops->now(f) < deadline)
		if (f->ops->poll(f, ev, 1, deadline - f->ops->now(f)) == 1 && ev->kind == RF_EV_LOST)
			return true;
	return false;
}

/* Where the kernel tells the connection manager first, both sides hear of it (or one of the other, which goes for that
 * reason). Where it first waits for those who have soft-RoCE open, the device goes on working until we let go. */
static void tell_both(const struct verbs_pair *p)
{
	struct rf_fabric *sides[2] = {p->source, p->destination};
	char sentence[100];
	struct rf_event ev;
	bool named = false;

	snprintf(sentence, sizeof(sentence), "the RDMA device %s was removed", device);
	if (!is_lost(sides[0], &ev)) {
		print_message("this kernel waits for the device's users before it tells them\n");
		assert_int_equal(sides[0]->ops->send(sides[0], 0, "x", 1), 1);
		assert_true(verbs_await(sides[1], RF_EV_MESSAGE, &ev));
		return;
	}
	for (int i = 0; i < 2; i++) {
		assert_true(i == 0 || is_lost(sides[i], &ev));
		named |= strcmp(ev.text, sentence) == 0;
		assert_true(strcmp(ev.text, sentence) == 0 || strstr(ev.text, "closed the connection"));
		assert_int_equal(sides[i]->ops->send(sides[i], 0, "x", 1), -1);
	}
	assert_true(named);
}

/* ---- acts ---- */

/* The deletion ends when this process has. */
static void removed(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct verbs_pair p;

	assert_true(verbs_pair_open(&p, &config));
	start((char *[]){"rdma", "link", "delete", device, NULL});
	tell_both(&p);
	verbs_pair_close(&p);
}

static void absent(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct verbs_pair p;
	struct rf_error e = {0};
	char text[300];

	assert_int_equal(rf_fabric_verbs.probe(text, sizeof(text), &e), -1);
	assert_non_null(strstr(e.text, "this host has no RDMA device"));
	assert_false(verbs_pair_open(&p, &config));
	assert_non_null(strstr(p.e.text, "this host has no RDMA device"));
	verbs_pair_close(&p);
}

static void back_again(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct verbs_pair p;

	assert_true(verbs_pair_open(&p, &config));
	verbs_pair_close(&p);
}

static const struct CMUnitTest acts[] = {cmocka_unit_test(port_is_down), cmocka_unit_test(removed),
					 cmocka_unit_test(absent), cmocka_unit_test(back_again)};

/* ---- the play ---- */

static char *program;

static void perform(const char *act)
{
	end(start((char *[]){program, (char *)verbs_address, device, interface, (char *)act, NULL}));
}

static void await_removal(void)
{
	char path[200];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", device);
	for (int i = 0; i < 200 && access(path, F_OK) == 0; i++)
		usleep(50 * 1000);
	assert_int_equal(access(path, F_OK), -1);
}

static void goes_and_returns(void **state)
{
	perform("port_is_down");
	perform("removed");
	await_removal();
	perform("absent");
	end(start((char *[]){"rdma", "link", "add", device, "type", "rxe", "netdev", interface, NULL}));
	perform("back_again");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(goes_and_returns)};

	program = argv[0];
	if (argc > 1)
		verbs_address = argv[1];
	if (argc > 3) {
		device = argv[2];
		interface = argv[3];
	}
	if (argc <= 4 && !verbs_have_device())
		return VERBS_SKIPPED;
	if (argc <= 4)
		return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
	cmocka_set_test_filter(argv[4]);
	return cmocka_run_group_tests(acts, NULL, NULL) ? 1 : 0;
}
