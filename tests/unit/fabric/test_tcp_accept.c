// SPDX-License-Identifier: LGPL-2.1-or-later
/* A destination that waits: strangers do not harm it, a source finds it. */
#include "tests/unit/fabric/raw_peer.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A fabric that is waiting, and what ends every test: a real source is still taken. */
struct waiting {
	struct raw_log log;
	struct rf_fabric *f;
	struct rf_uri uri;
	struct raw_accept accept;
};

static void start(struct waiting *w)
{
	raw_log_init(&w->log);
	w->f = raw_listen("127.0.0.1", &w->log.log, &w->uri);
	raw_accept_start(&w->accept, w->f, SECONDS(20));
}

static void expect_real_source(struct waiting *w)
{
	struct rf_error e = {0};

	if (raw_try_source(&w->uri, 3, &e) < 0)
		fail_msg("%s", e.text);
	if (raw_accept_end(&w->accept) < 0)
		fail_msg("%s", w->accept.e.text);
	assert_int_equal(w->f->limits.lanes, 3);
	raw_expect_loss(w->f, "closed the connection");
	w->f->ops->close(w->f);
}

static void test_other_protocol(void **state)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct waiting w;

	start(&w);
	int fd = raw_connect(&w.uri);

	raw_send(fd, request, strlen(request));
	assert_true(raw_is_closed(fd));
	close(fd);
	expect_real_source(&w);
	assert_true(raw_log_has(&w.log, "does not speak ramferry's protocol (it said \"GET / HTTP/1.1\")"));
}

static void test_control_characters_are_quoted(void **state)
{
	struct waiting w;

	start(&w);
	int fd = raw_connect(&w.uri);

	raw_send(fd, "\x1b[2J\"\x16", 6);
	assert_true(raw_is_closed(fd));
	close(fd);
	expect_real_source(&w);
	assert_true(raw_log_has(&w.log, "(it said \"\\x1b[2J\\x22\\x16\")"));
}

static void test_closes_at_once(void **state)
{
	struct waiting w;

	start(&w);
	for (int i = 0; i < 5; i++)
		close(raw_connect(&w.uri));
	expect_real_source(&w);
}

/* More than it keeps: the oldest go, a real one still gets in. */
static void test_many_silent_strangers(void **state)
{
	struct waiting w;
	int fds[100];

	start(&w);
	for (int i = 0; i < 100; i++)
		fds[i] = raw_connect(&w.uri);
	expect_real_source(&w);
	assert_true(raw_log_has(&w.log, "too many wait"));
	for (int i = 0; i < 100; i++)
		close(fds[i]);
}

static void test_silent_stranger_is_sent_away(void **state)
{
	struct waiting w;
	int64_t before;

	start(&w);
	int fd = raw_connect(&w.uri);

	raw_send(fd, "ramf", 4);
	before = w.f->ops->now(w.f);
	assert_true(raw_is_closed(fd));
	assert_true(w.f->ops->now(w.f) - before > SECONDS(4));
	close(fd);
	expect_real_source(&w);
	assert_true(raw_log_has(&w.log, "it was silent for 5 s"));
}

static void test_other_version(void **state)
{
	struct rf_tcp_preamble hello = raw_hello(0, 1), answer;
	struct waiting w;

	start(&w);
	int fd = raw_connect(&w.uri);

	hello.version = 9;
	raw_send(fd, &hello, sizeof(hello));
	assert_int_equal(raw_read(fd, &answer, sizeof(answer)), sizeof(answer));
	assert_memory_equal(answer.magic, RF_TCP_MAGIC, sizeof(answer.magic));
	assert_int_equal(answer.version, RF_TCP_VERSION);
	assert_int_equal(answer.status, RF_TCP_VERSION_DIFFERS);
	assert_true(raw_is_closed(fd));
	close(fd);
	expect_real_source(&w);
	assert_true(raw_log_has(&w.log, "it speaks version 9 of ramferry's tcp fabric, we speak 1"));
}

static void test_senseless_preambles(void **state)
{
	struct rf_tcp_preamble bad[6];
	struct waiting w;

	for (int i = 0; i < 6; i++)
		bad[i] = raw_hello(0, 1);
	bad[0].lanes = 0;
	bad[1].lanes = RF_TCP_MAX_LANES + 1;
	bad[2].lane = 2;
	bad[3].status = RF_TCP_WELCOME;
	bad[4].max_message_bytes = 100;
	bad[5].lanes = UINT16_MAX;
	start(&w);
	for (int i = 0; i < 6; i++) {
		struct rf_tcp_preamble answer;
		int fd = raw_connect(&w.uri);

		raw_send(fd, &bad[i], sizeof(bad[i]));
		assert_int_equal(raw_read(fd, &answer, sizeof(answer)), sizeof(answer));
		assert_int_equal(answer.status, RF_TCP_BAD);
		assert_true(raw_is_closed(fd));
		close(fd);
	}
	expect_real_source(&w);
}

/* Byte by byte, on every lane. */
static void test_slow_source(void **state)
{
	struct rf_tcp_preamble answer;
	struct waiting w;
	int fds[3];

	start(&w);
	for (uint16_t lane = 0; lane < 3; lane++) {
		struct rf_tcp_preamble hello = raw_hello(lane, 2);

		fds[lane] = raw_connect(&w.uri);
		for (size_t i = 0; i < sizeof(hello); i++)
			raw_send(fds[lane], (char *)&hello + i, 1);
		assert_int_equal(raw_read(fds[lane], &answer, sizeof(answer)), sizeof(answer));
		assert_int_equal(answer.status, RF_TCP_WELCOME);
	}
	assert_int_equal(raw_accept_end(&w.accept), 0);
	assert_int_equal(w.f->limits.lanes, 2);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	w.f->ops->close(w.f);
}

/* One source has begun: another is told so, and gets in once the first has gone. */
static void test_two_sources(void **state)
{
	struct rf_tcp_preamble hello = raw_hello(0, 2), answer;
	struct rf_error e = {0};
	struct waiting w;

	start(&w);
	int fd = raw_connect(&w.uri);

	raw_send(fd, &hello, sizeof(hello));
	assert_int_equal(raw_read(fd, &answer, sizeof(answer)), sizeof(answer));
	assert_int_equal(raw_try_source(&w.uri, 1, &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_non_null(strstr(e.text, "is busy with another source"));

	/* The same lane twice is no second lane. */
	int twin = raw_connect(&w.uri);

	raw_send(twin, &hello, sizeof(hello));
	assert_int_equal(raw_read(twin, &answer, sizeof(answer)), sizeof(answer));
	assert_int_equal(answer.status, RF_TCP_BUSY);
	close(twin);
	close(fd);
	while (raw_try_source(&w.uri, 3, &e) < 0)
		assert_non_null(strstr(e.text, "is busy with another source"));
	assert_int_equal(raw_accept_end(&w.accept), 0);
	assert_int_equal(w.f->limits.lanes, 3);
	assert_true(raw_log_has(&w.log, "gave up on the source at 127.0.0.1"));
	w.f->ops->close(w.f);
}

static void test_nobody_waits_any_more(void **state)
{
	struct rf_error e = {0};
	struct raw_pair p;
	struct rf_uri uri;
	struct raw_accept a;
	char text[300];

	memset(&p, 0, sizeof(p));
	p.f = raw_listen("127.0.0.1", NULL, &uri);
	raw_accept_start(&a, p.f, SECONDS(10));
	assert_int_equal(raw_try_source(&uri, 1, &e), 0);
	assert_int_equal(raw_accept_end(&a), 0);
	assert_int_equal(raw_try_source(&uri, 1, &e), -1);
	assert_non_null(strstr(e.text, "Connection refused"));
	assert_int_equal(p.f->ops->address(p.f, text, sizeof(text), &e), -1);
	p.f->ops->close(p.f);
}

static void test_timeout_and_wake(void **state)
{
	struct rf_error e = {0};
	struct raw_accept a;
	struct rf_uri uri;
	struct rf_fabric *f = raw_listen("127.0.0.1", NULL, &uri);
	int64_t before = f->ops->now(f);

	assert_int_equal(f->ops->accept(f, MILLIS(50), &e), -1);
	assert_int_equal(e.code, RF_E_REFUSED);
	assert_string_equal(e.text, "no source came within 50 ms");
	assert_true(f->ops->now(f) - before >= MILLIS(50));

	/* Called before, it counts; called while accept waits, it ends it. */
	f->ops->wake(f);
	assert_int_equal(f->ops->accept(f, -1, &e), -1);
	assert_int_equal(e.code, RF_E_CANCELLED);
	raw_accept_start(&a, f, -1);
	f->ops->wake(f);
	assert_int_equal(raw_accept_end(&a), -1);
	assert_int_equal(a.e.code, RF_E_CANCELLED);

	/* … and a later accept works. */
	raw_accept_start(&a, f, SECONDS(10));
	assert_int_equal(raw_try_source(&uri, 1, &e), 0);
	assert_int_equal(raw_accept_end(&a), 0);
	f->ops->close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_other_protocol),
	    cmocka_unit_test(test_control_characters_are_quoted),
	    cmocka_unit_test(test_closes_at_once),
	    cmocka_unit_test(test_many_silent_strangers),
	    cmocka_unit_test(test_silent_stranger_is_sent_away),
	    cmocka_unit_test(test_other_version),
	    cmocka_unit_test(test_senseless_preambles),
	    cmocka_unit_test(test_slow_source),
	    cmocka_unit_test(test_two_sources),
	    cmocka_unit_test(test_nobody_waits_any_more),
	    cmocka_unit_test(test_timeout_and_wake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
