// SPDX-License-Identifier: LGPL-2.1-or-later
/* Peers that are no ramferry, half a ramferry, or suddenly gone, on a real RDMA device. In the VMs of the tests. */
#include "fabric/verbs_wire.h"
#include "tests/rdma/verbs_pair.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS INT64_C(1000000)

/* ---- a stranger, by librdmacm's waiting calls ---- */

static struct sockaddr_in address_of(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, verbs_address, &a.sin_addr), 1);
	return a;
}

static struct ibv_qp_init_attr small_queue_pair(void)
{
	return (struct ibv_qp_init_attr){
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}, .qp_type = IBV_QPT_RC};
}

/* Connect and say this. NULL: sent away, or whatever errno says. */
static struct rdma_cm_id *knock(const struct rf_uri *where, const void *said, uint8_t length)
{
	struct sockaddr_in to = address_of(where->port);
	struct ibv_qp_init_attr attributes = small_queue_pair();
	struct rdma_conn_param param = {.private_data = said, .private_data_len = length};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), 0);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	assert_int_equal(rdma_create_qp(id, NULL, &attributes), 0);
	if (rdma_connect(id, &param) == 0)
		return id;
	rdma_destroy_ep(id);
	return NULL;
}

static void leave(struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	rdma_destroy_ep(id);
}

static struct rf_verbs_hello hello(void)
{
	return (struct rf_verbs_hello){
	    .magic = {'r', 'a', 'm', 'f', 'e', 'r', 'r', 'y'},
	    .version = RF_VERBS_VERSION,
	    .status = RF_VERBS_HELLO,
	    .lanes = 3,
	    .token = "stranger",
	    .buffers = 4,
	    .max_message_bytes = RF_VERBS_MIN_MESSAGE_BYTES,
	};
}

/* ---- our side ---- */

struct waiting {
	struct rf_fabric *f;
	struct rf_uri where;
	pthread_t thread;
	struct rf_error e;
	bool accepted;
};

static void *accept_main(void *arg)
{
	struct waiting *w = arg;

	w->accepted = w->f->ops->accept(w->f, 30000 * MS, &w->e) == 0;
	return NULL;
}

static void start_waiting(struct waiting *w)
{
	*w = (struct waiting){0};
	*verbs_log = '\0';
	w->f = verbs_listen(&w->where, &w->e);
	if (!w->f)
		print_error("%s\n", w->e.text);
	assert_non_null(w->f);
	pthread_create(&w->thread, NULL, accept_main, w);
}

static struct rf_fabric *reach(const struct rf_uri *where, int64_t timeout_ns, struct rf_error *e)
{
	struct rf_fabric_config config = verbs_config();
	struct rf_fabric *f;

	config.lanes = 2;
	config.connect_timeout_ns = timeout_ns;
	assert_int_equal(rf_fabric_verbs.open(&config, &f, e), 0);
	if (f->ops->connect(f, where, e) == 0)
		return f;
	f->ops->close(f);
	return NULL;
}

/* A real source still gets in, and both talk. */
static void end_waiting(struct waiting *w)
{
	struct rf_error e = {0};
	struct rf_event ev;
	struct rf_fabric *source = reach(&w->where, 10000 * MS, &e);

	if (!source)
		print_error("%s\n", e.text);
	assert_non_null(source);
	pthread_join(w->thread, NULL);
	assert_true(w->accepted);
	assert_int_equal(source->ops->send(source, 2, "hello", 5), 1);
	assert_true(verbs_await(w->f, RF_EV_MESSAGE, &ev));
	assert_int_equal(ev.lane, 2);
	assert_memory_equal(ev.data, "hello", 5);
	source->ops->close(source);
	assert_true(verbs_await(w->f, RF_EV_LOST, &ev));
	assert_non_null(strstr(ev.text, "closed the connection"));
	w->f->ops->close(w->f);
}

static void strangers(void **state)
{
	uint32_t qemu[2] = {htobe32(1), htobe32(1)};
	struct rf_verbs_hello h[5];
	struct waiting w;

	start_waiting(&w);
	assert_null(knock(&w.where, qemu, sizeof(qemu)));
	assert_null(knock(&w.where, "GET / HTTP/1.0", 14));
	assert_null(knock(&w.where, NULL, 0));
	for (int i = 0; i < 5; i++)
		h[i] = hello();
	h[0].version = 9;
	h[1].lanes = 0;
	h[2].lane = 4;
	h[3].buffers = 1;
	h[4].max_message_bytes = 1 << 30;
	for (int i = 0; i < 5; i++)
		assert_null(knock(&w.where, &h[i], sizeof(h[i])));
	end_waiting(&w);
	assert_non_null(
	    strstr(verbs_log, "it does not speak ramferry's protocol (it looks like QEMU's own rdma: migration)"));
	assert_non_null(strstr(
	    verbs_log, "it does not speak ramferry's protocol (what it says of itself is nothing that we know)"));
	assert_non_null(strstr(verbs_log, "it speaks version 9 of ramferry's rdma fabric, we speak 1"));
	assert_non_null(strstr(verbs_log, "what it says of itself makes no sense"));
}

static void half_a_source(void **state)
{
	struct rf_verbs_hello h = hello();
	struct rf_error e = {0};
	struct waiting w;

	start_waiting(&w);
	struct rdma_cm_id *lane = knock(&w.where, &h, sizeof(h));

	assert_non_null(lane);
	assert_null(reach(&w.where, 3000 * MS, &e));
	assert_non_null(strstr(e.text, "is busy with another source"));
	leave(lane);
	lane = knock(&w.where, &h, sizeof(h));
	assert_non_null(lane);
	sleep(6);
	end_waiting(&w);
	leave(lane);
	assert_non_null(strstr(verbs_log, "it closed a lane"));
	assert_non_null(strstr(verbs_log, "its other lanes did not come within 5 s"));
}

/* ---- somebody else listens ---- */

struct impostor {
	struct rdma_cm_id *listener, *guest;
	struct rf_uri where;
	pthread_t thread;
	const void *says;
	uint8_t length;
	enum { ACCEPTS, REJECTS, IS_SILENT } how;
};

static void *impostor_main(void *arg)
{
	struct impostor *i = arg;
	struct ibv_qp_init_attr attributes = small_queue_pair();
	struct rdma_conn_param param = {.private_data = i->says, .private_data_len = i->length};

	if (rdma_get_request(i->listener, &i->guest))
		return NULL;
	if (i->how == REJECTS)
		rdma_reject(i->guest, i->says, i->length);
	/* The guest may have gone by then; all that matters is what it was told. */
	if (i->how == ACCEPTS && rdma_create_qp(i->guest, NULL, &attributes) == 0)
		(void)rdma_accept(i->guest, &param);
	return NULL;
}

static void start_impostor(struct impostor *i)
{
	struct sockaddr_in at = address_of(0);

	assert_int_equal(rdma_create_id(NULL, &i->listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(i->listener, (struct sockaddr *)&at), 0);
	assert_int_equal(rdma_listen(i->listener, 4), 0);
	i->where = (struct rf_uri){.scheme = "rdma", .port = ntohs(rdma_get_src_port(i->listener))};
	snprintf(i->where.host, sizeof(i->where.host), "%s", verbs_address);
	pthread_create(&i->thread, NULL, impostor_main, i);
}

static void try_impostor(struct impostor i, const char *sentence)
{
	struct rf_error e = {0};

	start_impostor(&i);
	assert_null(reach(&i.where, 3000 * MS, &e));
	pthread_join(i.thread, NULL);
	if (!strstr(e.text, sentence))
		print_error("%s\n", e.text);
	assert_non_null(strstr(e.text, sentence));
	assert_int_equal(e.code, RF_E_REFUSED);
	if (i.guest)
		rdma_destroy_ep(i.guest);
	rdma_destroy_ep(i.listener);
}

static void impostors(void **state)
{
	struct rf_verbs_hello old = hello(), busy = hello(), mad = hello();

	old.version = 7;
	busy.status = RF_VERBS_BUSY;
	mad.status = RF_VERBS_WELCOME;
	mad.buffers = 0;
	try_impostor((struct impostor){.how = ACCEPTS}, "is no ramferry: ");
	try_impostor((struct impostor){.how = REJECTS}, "sent us away without a word: it is no ramferry");
	try_impostor((struct impostor){.how = IS_SILENT}, "does not answer within 3 s");
	try_impostor((struct impostor){.how = ACCEPTS, .says = &old, .length = sizeof(old)},
		     "speaks version 7 of ramferry's rdma fabric, we speak 1");
	try_impostor((struct impostor){.how = REJECTS, .says = &old, .length = sizeof(old)},
		     "speaks version 7 of ramferry's rdma fabric, we speak 1");
	try_impostor((struct impostor){.how = REJECTS, .says = &busy, .length = sizeof(busy)},
		     "is busy with another source");
	try_impostor((struct impostor){.how = ACCEPTS, .says = &mad, .length = sizeof(mad)},
		     "answers with something that makes no sense");
}

static void nobody(void **state)
{
	struct rf_uri where = {.scheme = "rdma", .port = 9}, loopback = {.scheme = "rdma", .host = "127.0.0.1"};
	struct rf_fabric_config config = verbs_config();
	struct rf_error e = {0};
	struct rf_fabric *f;

	snprintf(where.host, sizeof(where.host), "%s", verbs_address);
	assert_null(reach(&where, 3000 * MS, &e));
	assert_non_null(strstr(e.text, "nobody listens for RDMA at "));
	assert_null(reach(&(struct rf_uri){.scheme = "rdma", .host = "127.0.0.1", .port = 9}, 3000 * MS, &e));
	assert_non_null(strstr(e.text, "no RDMA device leads to 127.0.0.1:9; there is: "));
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	assert_int_equal(f->ops->listen(f, &loopback, &e), -1);
	assert_non_null(strstr(e.text, "cannot listen at 127.0.0.1:0: no RDMA device has that address; there is: "));
	f->ops->close(f);
}

/* What those ask for who must is taken by a real device. */
static void tuned(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct verbs_pair p;
	struct rf_event ev;

	config.rdma_timeout_ns = 100 * MS;
	config.rdma_retry = 3;
	config.traffic_class = 104;
	if (!verbs_pair_open(&p, &config))
		print_error("%s\n", p.e.text);
	assert_true(p.source && p.destination && p.source->limits.lanes);
	assert_int_equal(p.source->ops->send(p.source, 1, "hello", 5), 1);
	assert_true(verbs_await(p.destination, RF_EV_MESSAGE, &ev));
	verbs_pair_close(&p);
}

/* Listen at `host` ("" for whatever address the device has) and connect, with the device named at both sides. */
static void meet_over(char *device, const char *host, bool tell_where)
{
	struct rf_fabric_config config = verbs_config();
	struct waiting w = {.where = {.scheme = "rdma"}};
	char where[300] = "";

	config.device = device;
	config.lanes = 2;
	snprintf(w.where.host, sizeof(w.where.host), "%s", host);
	assert_int_equal(rf_fabric_verbs.open(&config, &w.f, &w.e), 0);
	if (w.f->ops->listen(w.f, &w.where, &w.e))
		print_error("%s\n", w.e.text);
	assert_int_equal(w.f->ops->address(w.f, where, sizeof(where), &w.e), 0);
	assert_int_equal(rf_uri_parse(where, &w.where, &w.e), 0);
	if (tell_where)
		print_message("%s is %s\n", device, where);
	pthread_create(&w.thread, NULL, accept_main, &w);

	struct rf_fabric *source;
	struct rf_error e = {0};

	assert_int_equal(rf_fabric_verbs.open(&config, &source, &e), 0);
	if (source->ops->connect(source, &w.where, &e))
		print_error("%s\n", e.text);
	source->ops->close(source);
	assert_int_equal(e.code, 0);
	pthread_join(w.thread, NULL);
	assert_true(w.accepted);
	w.f->ops->close(w.f);
}

static bool has_address(const char *host)
{
	struct rf_uri here = {.scheme = "rdma"};
	struct rf_fabric_config config = verbs_config();
	struct rf_error e = {0};
	struct rf_fabric *f;

	snprintf(here.host, sizeof(here.host), "%s", host);
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	int result = f->ops->listen(f, &here, &e);

	f->ops->close(f);
	return result == 0;
}

/* Also where its GIDs are no addresses (iWARP, InfiniBand); and by IPv6 not from a link-local address. */
static void named_device(void **state)
{
	int n = 0;
	struct ibv_device **all = ibv_get_device_list(&n);

	assert_true(all && n > 0);
	char *device = strdup(ibv_get_device_name(all[0]));

	ibv_free_device_list(all);
	assert_non_null(device);
	meet_over(device, "", true);
	meet_over(device, verbs_address, false);
	if (has_address("fd00::1")) /* in our VMs */
		meet_over(device, "fd00::1", true);
	free(device);
}

/* ---- gone, or called off ---- */

static void *wake_soon(void *arg)
{
	struct rf_fabric *f = arg;

	usleep(200 * 1000);
	f->ops->wake(f);
	return NULL;
}

static void called_off(void **state)
{
	struct rf_fabric_config config = verbs_config();
	struct impostor i = {.how = IS_SILENT};
	struct rf_error e = {0};
	struct rf_fabric *f;
	pthread_t thread;

	start_impostor(&i);
	assert_int_equal(rf_fabric_verbs.open(&config, &f, &e), 0);
	pthread_create(&thread, NULL, wake_soon, f);
	assert_int_equal(f->ops->connect(f, &i.where, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);
	pthread_join(thread, NULL);
	pthread_join(i.thread, NULL);
	f->ops->close(f);
	if (i.guest)
		rdma_destroy_ep(i.guest);
	rdma_destroy_ep(i.listener);
}

static const char *program;

/* The other side is a process of its own, which ends without a word. */
static void killed(void **state)
{
	char port[8], *arguments[] = {(char *)program, "--die", (char *)verbs_address, port, NULL};
	struct waiting w;
	struct rf_event ev;
	pid_t pid;
	int status;

	start_waiting(&w);
	snprintf(port, sizeof(port), "%u", w.where.port);
	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, arguments, NULL), 0);
	pthread_join(w.thread, NULL);
	assert_true(w.accepted);
	assert_true(verbs_await(w.f, RF_EV_MESSAGE, &ev));
	int64_t start = w.f->ops->now(w.f);

	assert_true(verbs_await(w.f, RF_EV_LOST, &ev));
	assert_non_null(strstr(ev.text, "closed the connection"));
	assert_true(w.f->ops->now(w.f) - start < 5000 * MS);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	w.f->ops->close(w.f);
}

static int die(const char *host, const char *port)
{
	struct rf_uri where = {.scheme = "rdma", .port = (uint16_t)atoi(port)};
	struct rf_error e = {0};

	snprintf(where.host, sizeof(where.host), "%s", host);
	struct rf_fabric *f = reach(&where, 10000 * MS, &e);

	if (!f || f->ops->send(f, 0, "bye", 3) != 1)
		return 1;
	struct rf_event ev;

	f->ops->poll(f, &ev, 1, 300 * MS);
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(strangers), cmocka_unit_test(half_a_source), cmocka_unit_test(impostors),
	    cmocka_unit_test(nobody),    cmocka_unit_test(tuned),         cmocka_unit_test(called_off),
	    cmocka_unit_test(killed),    cmocka_unit_test(named_device),
	};

	program = argv[0];
	if (argc == 4 && strcmp(argv[1], "--die") == 0)
		return die(argv[2], argv[3]);
	if (argc > 1)
		verbs_address = argv[1];
	if (!verbs_have_device())
		return VERBS_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
