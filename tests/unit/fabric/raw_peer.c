// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/fabric/raw_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void log_write(void *arg, enum rf_log_level level, const char *sentence)
{
	struct raw_log *l = arg;

	pthread_mutex_lock(&l->lock);
	size_t used = strlen(l->text);

	snprintf(l->text + used, sizeof(l->text) - used, "%s\n", sentence);
	pthread_mutex_unlock(&l->lock);
}

void raw_log_init(struct raw_log *l)
{
	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	l->log = (struct rf_log){log_write, l};
}

bool raw_log_has(struct raw_log *l, const char *part)
{
	pthread_mutex_lock(&l->lock);
	bool has = strstr(l->text, part) != NULL;

	if (!has)
		print_message("\"%s\" is not in the log:\n%s", part, l->text);
	pthread_mutex_unlock(&l->lock);
	return has;
}

struct rf_fabric *raw_open(unsigned lanes, int64_t connect_timeout_ns, const struct rf_log *log)
{
	struct rf_fabric_config config = {.lanes = lanes, .connect_timeout_ns = connect_timeout_ns, .log = log};
	struct rf_fabric *f;
	struct rf_error e = {0};

	if (rf_fabric_tcp.open(&config, &f, &e) < 0)
		fail_msg("%s", e.text);
	return f;
}

struct rf_fabric *raw_listen(const char *host, const struct rf_log *log, struct rf_uri *uri)
{
	struct rf_fabric *f = raw_open(0, SECONDS(10), log);
	struct rf_uri any = {.scheme = "tcp"};
	struct rf_error e = {0};
	char text[300];

	snprintf(any.host, sizeof(any.host), "%s", host);
	if (f->ops->listen(f, &any, &e) < 0 || f->ops->address(f, text, sizeof(text), &e) < 0 ||
	    rf_uri_parse(text, uri, &e) < 0)
		fail_msg("%s", e.text);
	return f;
}

static void *accept_main(void *arg)
{
	struct raw_accept *a = arg;

	a->result = a->f->ops->accept(a->f, a->timeout_ns, &a->e);
	return NULL;
}

void raw_accept_start(struct raw_accept *a, struct rf_fabric *f, int64_t timeout_ns)
{
	*a = (struct raw_accept){.f = f, .timeout_ns = timeout_ns};
	assert_int_equal(pthread_create(&a->thread, NULL, accept_main, a), 0);
}

int raw_accept_end(struct raw_accept *a)
{
	pthread_join(a->thread, NULL);
	return a->result;
}

int raw_try_source(const struct rf_uri *uri, unsigned lanes, struct rf_error *e)
{
	struct rf_fabric *f = raw_open(lanes, SECONDS(10), NULL);
	int r = f->ops->connect(f, uri, e);

	f->ops->close(f);
	return r;
}

static void set_patience(int fd)
{
	struct timeval patience = {.tv_sec = 10};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
}

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
	    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int raw_connect(const struct rf_uri *uri)
{
	struct sockaddr_in a = loopback(uri->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	set_patience(fd);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

int raw_server(struct rf_uri *uri)
{
	struct sockaddr_in a = loopback(0);
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	set_patience(fd);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, length), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
	*uri = (struct rf_uri){.scheme = "tcp", .host = "127.0.0.1", .port = ntohs(a.sin_port)};
	return fd;
}

int raw_take(int listener)
{
	int fd = accept(listener, NULL, NULL);

	assert_true(fd >= 0);
	set_patience(fd);
	return fd;
}

struct rf_tcp_preamble raw_hello(uint16_t lane, uint16_t lanes)
{
	struct rf_tcp_preamble p = {
	    .magic = {'r', 'a', 'm', 'f', 'e', 'r', 'r', 'y'},
	    .version = RF_TCP_VERSION,
	    .status = RF_TCP_HELLO,
	    .token = "a token of mine",
	    .lane = lane,
	    .lanes = lanes,
	    .max_message_bytes = 1 << 20,
	};

	return p;
}

void raw_send(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

		/* A peer that was offended by the first half has closed already. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return;
		assert_true(n > 0);
		at += n;
		length -= (size_t)n;
	}
}

size_t raw_read(int fd, void *bytes, size_t length)
{
	size_t got = 0;

	while (got < length) {
		ssize_t n = recv(fd, (char *)bytes + got, length - got, 0);

		if (n < 0 && errno == ECONNRESET)
			break;
		assert_true(n >= 0);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return got;
}

bool raw_is_closed(int fd)
{
	char byte;

	while (raw_read(fd, &byte, 1) == 1)
		;
	return true;
}

void raw_pair_open(struct raw_pair *p, unsigned lanes)
{
	struct raw_accept a;
	struct rf_uri uri;

	memset(p, 0, sizeof(*p));
	assert_true(lanes < sizeof(p->fds) / sizeof(p->fds[0]));
	raw_log_init(&p->log);
	p->f = raw_listen("127.0.0.1", &p->log.log, &uri);
	raw_accept_start(&a, p->f, SECONDS(10));
	for (; p->count <= lanes; p->count++) {
		struct rf_tcp_preamble hello = raw_hello((uint16_t)p->count, (uint16_t)lanes), answer;

		p->fds[p->count] = raw_connect(&uri);
		raw_send(p->fds[p->count], &hello, sizeof(hello));
		assert_int_equal(raw_read(p->fds[p->count], &answer, sizeof(answer)), sizeof(answer));
		assert_int_equal(answer.status, RF_TCP_WELCOME);
	}
	assert_int_equal(raw_accept_end(&a), 0);
}

void raw_pair_close(struct raw_pair *p)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->fds[i] >= 0)
			close(p->fds[i]);
	p->f->ops->close(p->f);
}

struct rf_event raw_event(struct rf_fabric *f)
{
	struct rf_event ev;

	do
		assert_int_equal(f->ops->poll(f, &ev, 1, SECONDS(10)), 1);
	while (ev.kind == RF_EV_WRITTEN);
	return ev;
}

void raw_expect_loss(struct rf_fabric *f, const char *part)
{
	struct rf_event ev;

	do
		ev = raw_event(f);
	while (ev.kind != RF_EV_LOST);
	assert_non_null(ev.text);
	if (!strstr(ev.text, part))
		fail_msg("\"%s\" is not in \"%s\"", part, ev.text);
}
