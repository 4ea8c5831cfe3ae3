// SPDX-License-Identifier: LGPL-2.1-or-later
/* A source that looks for its peer: every way it can go wrong is one sentence, and nothing was touched. */
#include "tests/unit/fabric/raw_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void expect_refused(const struct rf_uri *uri, int64_t timeout_ns, const char *sentence)
{
	struct rf_fabric *f = raw_open(2, timeout_ns, NULL);
	struct rf_error e = {0};
	char expected[600];

	snprintf(expected, sizeof(expected), sentence, uri->port);
	assert_int_equal(f->ops->connect(f, uri, &e), -1);
	assert_string_equal(e.text, expected);
	assert_int_equal(e.code, RF_E_REFUSED);
	f->ops->close(f);
}

/* ---- where to ---- */

static bool try_host(const char *listen_at, const char *connect_to)
{
	struct rf_error e = {0};
	struct raw_accept a;
	struct rf_uri uri;
	struct rf_fabric *f = raw_listen(listen_at, NULL, &uri);

	snprintf(uri.host, sizeof(uri.host), "%s", connect_to);
	raw_accept_start(&a, f, SECONDS(20));
	bool ok = raw_try_source(&uri, 2, &e) == 0;

	if (!ok) {
		print_message("%s\n", e.text);
		f->ops->wake(f);
	}
	assert_int_equal(raw_accept_end(&a), ok ? 0 : -1);
	f->ops->close(f);
	return ok;
}

static void test_ipv4(void **state)
{
	assert_true(try_host("127.0.0.1", "127.0.0.1"));
}

static bool have_ipv6(void)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;

	if (fd >= 0)
		close(fd);
	return ok;
}

static void test_ipv6(void **state)
{
	if (!have_ipv6())
		skip();
	assert_true(try_host("::1", "::1"));
	assert_true(try_host("", "::1"));
}

/* "fe80::…%eth0" of this host; false when it has none. */
static bool link_local(char *text, size_t room)
{
	struct ifaddrs *all, *a;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (a = all; a && !found; a = a->ifa_next) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a->ifa_addr;

		if (in6 && in6->sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			found =
			    getnameinfo(a->ifa_addr, sizeof(*in6), text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) == 0;
	}
	freeifaddrs(all);
	return found;
}

static void test_zone(void **state)
{
	char host[NI_MAXHOST];

	if (!link_local(host, sizeof(host)))
		skip();
	assert_non_null(strchr(host, '%'));
	assert_true(try_host(host, host));
}

static void test_host_name(void **state)
{
	assert_true(try_host("localhost", "localhost"));
	/* A name with two addresses is found at either. */
	assert_true(try_host("127.0.0.1", "localhost"));
}

static void test_all_addresses(void **state)
{
	assert_true(try_host("", "127.0.0.1"));
	assert_true(try_host("", ""));
}

static void test_unresolvable(void **state)
{
	struct rf_uri uri = {.scheme = "tcp", .host = "no-such-host.invalid", .port = 7263};
	struct rf_fabric *f = raw_open(1, SECONDS(5), NULL);
	static const char start[] = "cannot resolve host \"no-such-host.invalid\": ";
	struct rf_error e = {0};

	assert_int_equal(f->ops->connect(f, &uri, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_memory_equal(e.text, start, strlen(start));
	assert_int_equal(f->ops->listen(f, &(struct rf_uri){.host = "999.1.1.1"}, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	f->ops->close(f);
}

static void test_link_local_without_its_interface(void **state)
{
	struct rf_uri uri = {.scheme = "tcp", .host = "fe80::1", .port = 7263};
	struct rf_fabric *f = raw_open(1, SECONDS(5), NULL);
	static const char sentence[] = "the address fe80::1 needs an interface, as in [fe80::1%eth0]";
	struct rf_error e = {0};

	assert_int_equal(f->ops->connect(f, &uri, &e), -1);
	assert_string_equal(e.text, sentence);
	assert_int_equal(f->ops->listen(f, &uri, &e), -1);
	assert_string_equal(e.text, sentence);
	assert_int_equal(e.code, RF_E_USAGE);
	f->ops->close(f);
}

static void test_port_in_use(void **state)
{
	struct rf_fabric *second = raw_open(1, SECONDS(1), NULL);
	struct rf_error e = {0};
	char expected[200];
	struct rf_uri uri;
	struct rf_fabric *first = raw_listen("127.0.0.1", NULL, &uri);

	assert_int_equal(second->ops->listen(second, &uri, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	snprintf(expected, sizeof(expected), "cannot listen at 127.0.0.1:%u: Address already in use", uri.port);
	assert_string_equal(e.text, expected);
	first->ops->close(first);

	/* What was closed can be listened at again at once. */
	assert_int_equal(second->ops->listen(second, &uri, &e), 0);
	second->ops->close(second);
}

static void test_not_our_address(void **state)
{
	struct rf_uri uri = {.scheme = "tcp", .host = "192.0.2.1", .port = 7263};
	struct rf_fabric *f = raw_open(1, SECONDS(1), NULL);
	struct rf_error e = {0};

	assert_int_equal(f->ops->listen(f, &uri, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_string_equal(e.text, "cannot listen at 192.0.2.1:7263: Cannot assign requested address");
	f->ops->close(f);
}

/* ---- who is there ---- */

static void test_nobody_listens(void **state)
{
	struct rf_uri uri;

	close(raw_server(&uri));
	expect_refused(&uri, SECONDS(10), "cannot connect to 127.0.0.1:%u: Connection refused");
}

/* A server that says `answer` to whoever comes and then waits for the end. */
struct server {
	pthread_t thread;
	int listener;
	const void *answer;
	size_t length;
	bool closes;
};

static void *server_main(void *arg)
{
	struct server *s = arg;
	int fd = raw_take(s->listener);

	raw_send(fd, s->answer, s->length);
	if (s->closes) {
		struct rf_tcp_preamble hello;

		shutdown(fd, SHUT_WR);
		raw_read(fd, &hello, sizeof(hello));
	}
	raw_is_closed(fd);
	close(fd);
	return NULL;
}

static void expect_answer(const void *answer, size_t length, bool closes, const char *sentence)
{
	struct rf_uri uri;
	struct server s = {.listener = raw_server(&uri), .answer = answer, .length = length, .closes = closes};

	assert_int_equal(pthread_create(&s.thread, NULL, server_main, &s), 0);
	expect_refused(&uri, closes || length ? SECONDS(10) : MILLIS(200), sentence);
	pthread_join(s.thread, NULL);
	close(s.listener);
}

static void test_other_protocol(void **state)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n", ssh[] = "SSH-2.0-OpenSSH_9.2p1\r\n";

	expect_answer(http, strlen(http), false,
		      "127.0.0.1:%u does not speak ramferry's protocol (it answered \"HTTP/1.1 400 Bad Request\")");
	expect_answer(ssh, strlen(ssh), true,
		      "127.0.0.1:%u does not speak ramferry's protocol (it answered \"SSH-2.0-OpenSSH_9.2p1\")");
}

static void test_closes_without_answer(void **state)
{
	expect_answer(NULL, 0, true,
		      "127.0.0.1:%u closed the connection without an answer: it does not speak "
		      "ramferry's protocol, or has stopped waiting");
	expect_answer("ramfer", 6, true,
		      "127.0.0.1:%u closed the connection without an answer: it does not speak "
		      "ramferry's protocol, or has stopped waiting");
}

static void test_says_nothing(void **state)
{
	expect_answer(NULL, 0, false,
		      "127.0.0.1:%u took the connection but did not answer in ramferry's protocol within 200 ms");
}

static void test_answers_of_other_kinds(void **state)
{
	struct rf_tcp_preamble p = raw_hello(0, 2);

	p.status = RF_TCP_VERSION_DIFFERS;
	p.version = 12;
	expect_answer(&p, sizeof(p), false, "127.0.0.1:%u speaks version 12 of ramferry's tcp fabric, we speak 1");
	p.version = RF_TCP_VERSION;
	p.status = RF_TCP_HELLO;
	expect_answer(&p, sizeof(p), false, "127.0.0.1:%u is a source too, not a receiver");
	p.status = RF_TCP_BAD;
	expect_answer(&p, sizeof(p), false, "127.0.0.1:%u does not accept our preamble (status 4)");
	p.status = RF_TCP_WELCOME;
	p.max_message_bytes = 5;
	expect_answer(&p, sizeof(p), false, "127.0.0.1:%u takes no messages longer than 5 bytes");
}

/* A host that swallows connections: its queue is full, and nobody takes from it. */
static void test_does_not_answer(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rf_uri uri;
	int listener = raw_server(&uri), fds[4];

	assert_int_equal(listen(listener, 0), 0);
	a.sin_port = htons(uri.port);
	for (int i = 0; i < 4; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_true(connect(fds[i], (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
	}
	expect_refused(&uri, MILLIS(300), "127.0.0.1:%u does not answer within 300 ms");
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	close(listener);
}

/* ---- waking ---- */

static void *wake_when_there(void *arg)
{
	struct rf_fabric **f = arg;
	int listener = *(int *)(f + 1);
	int fd = raw_take(listener);

	(*f)->ops->wake(*f);
	raw_is_closed(fd);
	close(fd);
	return NULL;
}

static void test_wake(void **state)
{
	struct rf_error e = {0};
	struct rf_uri uri;
	struct {
		struct rf_fabric *f;
		int listener;
	} both = {raw_open(1, -1, NULL), raw_server(&uri)};
	pthread_t thread;

	both.f->ops->wake(both.f);
	assert_int_equal(both.f->ops->connect(both.f, &uri, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);
	close(raw_take(both.listener));

	/* Looking up a name ends early too. */
	struct rf_uri name = {.scheme = "tcp", .host = "localhost", .port = uri.port};

	both.f->ops->wake(both.f);
	assert_int_equal(both.f->ops->connect(both.f, &name, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);

	assert_int_equal(pthread_create(&thread, NULL, wake_when_there, &both), 0);
	assert_int_equal(both.f->ops->connect(both.f, &uri, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);
	pthread_join(thread, NULL);
	both.f->ops->close(both.f);
	close(both.listener);
}

static void test_find(void **state)
{
	struct rf_error e = {0};
	char text[200] = "";

	assert_ptr_equal(rf_fabric_find("tcp", &e), &rf_fabric_tcp);
	assert_null(rf_fabric_find("pigeon", &e));
	assert_int_equal(e.code, RF_E_USAGE);
	assert_non_null(strstr(e.text, "there is no fabric \"pigeon\"; those there are: tcp"));
	assert_int_equal(rf_fabric_tcp.probe(text, sizeof(text), &e), 0);
	assert_non_null(strstr(text, "lane"));
	rf_fabric_tcp.close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_ipv4),
	    cmocka_unit_test(test_ipv6),
	    cmocka_unit_test(test_zone),
	    cmocka_unit_test(test_host_name),
	    cmocka_unit_test(test_all_addresses),
	    cmocka_unit_test(test_unresolvable),
	    cmocka_unit_test(test_link_local_without_its_interface),
	    cmocka_unit_test(test_port_in_use),
	    cmocka_unit_test(test_not_our_address),
	    cmocka_unit_test(test_nobody_listens),
	    cmocka_unit_test(test_other_protocol),
	    cmocka_unit_test(test_closes_without_answer),
	    cmocka_unit_test(test_says_nothing),
	    cmocka_unit_test(test_answers_of_other_kinds),
	    cmocka_unit_test(test_does_not_answer),
	    cmocka_unit_test(test_wake),
	    cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
