// SPDX-License-Identifier: LGPL-2.1-or-later
/* What do scattered pages cost? Random 4 KiB runs through fabric/tcp against one plain socket that streams the same
 * buffer from its beginning to its end in 1 MiB writes.
 *
 * Both move 512 MiB between two processes, from a shared mapping that is full of data and far larger than the caches, to
 * a shared mapping that nobody has touched (a new one each run): the time has the first touch of every page in it, also
 * the registrations of the fabric. Runs take turns, so that a busy neighbour hits all. `ratio` is the median scattered
 * throughput over the median sequential one, with as many lanes as the fabric chooses here; `ratio_one_lane` is told
 * beside it. With a `ratio` below 0.8 the batching has lost its point, and the program exits with 1. */
#include "bench/report.h"
#include "fabric/fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	PIECE = 1 << 20,  /* of the sequential stream */
	CHUNK = 64 << 20, /* of a registration, as the engine's default */
	RUNS = 7,
	POSTS = 256, /* writes handed over at once */
};
#define BYTES  ((size_t)512 << 20)
#define PAGES  (BYTES / PAGE)
#define CHUNKS (BYTES / CHUNK)
#define AIM    0.8

static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void need(bool ok, const char *what)
{
	if (!ok)
		die("scatter: %s: %s", what, strerror(errno));
}

static unsigned char *map_shared(void)
{
	int fd = memfd_create("scatter", MFD_CLOEXEC);

	need(fd >= 0 && ftruncate(fd, (off_t)BYTES) == 0, "memfd");
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	need(p != MAP_FAILED, "mmap");
	close(fd);
	return p;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t word_at(size_t page, unsigned run)
{
	return (page * 2 + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ run;
}

/* Every page says which it is and in which run, so that the copy can be checked cheaply. */
static void stamp(unsigned char *memory, unsigned run)
{
	for (size_t i = 0; i < PAGES; i++) {
		uint64_t first = word_at(i, run);

		memcpy(memory + i * PAGE, &first, sizeof(first));
		memcpy(memory + (i + 1) * PAGE - sizeof(first), &first, sizeof(first));
	}
}

static bool stamped(const unsigned char *memory, unsigned run)
{
	for (size_t i = 0; i < PAGES; i++) {
		uint64_t first = word_at(i, run);

		if (memcmp(memory + i * PAGE, &first, sizeof(first)) ||
		    memcmp(memory + (i + 1) * PAGE - sizeof(first), &first, sizeof(first)))
			return false;
	}
	return true;
}

static double mib_per_second(int64_t ns)
{
	return (double)(BYTES >> 20) / ((double)ns / 1e9);
}

/* Run `child` in a process of its own, with one end of a pipe; *child_fd is the other. */
static pid_t start_receiver(void (*child)(int fd, unsigned run), unsigned run, int *parent_fd)
{
	int pair[2];

	need(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	pid_t pid = fork();

	need(pid >= 0, "fork");
	if (pid == 0) {
		close(pair[0]);
		child(pair[1], run);
		_exit(0);
	}
	close(pair[1]);
	*parent_fd = pair[0];
	return pid;
}

static void end_receiver(pid_t pid, int fd)
{
	int status;

	close(fd);
	need(waitpid(pid, &status, 0) == pid, "waitpid");
	if (status)
		die("scatter: the receiver failed");
}

/* ---- one plain stream ---- */

static void stream_receiver(int fd, unsigned run)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	unsigned char *memory = map_shared();

	need(bind(listener, (struct sockaddr *)&a, length) == 0 && listen(listener, 1) == 0, "listen");
	need(getsockname(listener, (struct sockaddr *)&a, &length) == 0, "getsockname");
	need(write(fd, &a, sizeof(a)) == sizeof(a), "write");
	int s = accept(listener, NULL, NULL);

	need(s >= 0, "accept");
	for (size_t at = 0; at < BYTES; at += PIECE)
		need(recv(s, memory + at, PIECE, MSG_WAITALL) == PIECE, "recv");
	need(send(s, "", 1, 0) == 1, "send");
	if (!stamped(memory, run))
		die("scatter: the stream arrived damaged");
}

static double run_stream(const unsigned char *memory, unsigned run)
{
	struct sockaddr_in a;
	int fd, s = socket(AF_INET, SOCK_STREAM, 0);
	pid_t pid = start_receiver(stream_receiver, run, &fd);
	char byte;

	need(read(fd, &a, sizeof(a)) == sizeof(a), "read");
	need(connect(s, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	int64_t start = report_now_ns();

	for (size_t at = 0; at < BYTES; at += PIECE)
		need(send(s, memory + at, PIECE, 0) == PIECE, "send");
	need(recv(s, &byte, 1, 0) == 1, "recv");
	int64_t end = report_now_ns();

	end_receiver(pid, fd);
	close(s);
	return mib_per_second(end - start);
}

/* ---- the fabric ---- */

struct grant { /* what the destination tells of a registered chunk */
	uint64_t address;
	struct rf_key key;
	uint32_t chunk;
};

static struct rf_fabric *open_fabric(unsigned lanes)
{
	struct rf_fabric_config config = {.lanes = lanes, .connect_timeout_ns = 10000000000};
	struct rf_fabric *f;
	struct rf_error e;

	if (rf_fabric_tcp.open(&config, &f, &e) < 0)
		die("scatter: %s", e.text);
	return f;
}

static void next_event(struct rf_fabric *f, struct rf_event *ev)
{
	f->ops->poll(f, ev, 1, -1);
	if (ev->kind == RF_EV_LOST || ev->status)
		die("scatter: %s", ev->text);
}

/* Registers each chunk when the source asks for it, then waits for the fence of every lane. */
static void fabric_receiver(int fd, unsigned run)
{
	struct rf_uri uri = {.host = "127.0.0.1"};
	struct rf_fabric *f = open_fabric(0);
	unsigned char *memory = map_shared();
	char address[300];
	struct rf_error e;
	struct rf_event ev;

	if (f->ops->listen(f, &uri, &e) < 0 || f->ops->address(f, address, sizeof(address), &e) < 0)
		die("scatter: %s", e.text);
	need(write(fd, address, sizeof(address)) == sizeof(address), "write");
	if (f->ops->accept(f, 10000000000, &e) < 0)
		die("scatter: %s", e.text);
	for (unsigned fences = 0; fences < f->limits.lanes;) {
		next_event(f, &ev);
		if (ev.kind == RF_EV_REGISTERED) {
			struct grant g = {.address = (uintptr_t)memory + ev.cookie * CHUNK,
					  .key = ev.key,
					  .chunk = (uint32_t)ev.cookie};

			need(f->ops->send(f, 0, &g, sizeof(g)) == 1, "send");
		} else if (ev.kind == RF_EV_MESSAGE && ev.lane == 0) {
			uint32_t chunk;

			memcpy(&chunk, ev.data, sizeof(chunk));
			need(f->ops->reg(f, memory + (size_t)chunk * CHUNK, CHUNK, RF_ACCESS_REMOTE_WRITE, chunk) == 0,
			     "reg");
		} else if (ev.kind == RF_EV_MESSAGE) {
			fences++;
		}
	}
	need(f->ops->send(f, 0, "", 1) == 1, "send");
	if (!stamped(memory, run))
		die("scatter: the pages arrived damaged");
	f->ops->close(f);
}

struct sending {
	struct rf_fabric *f;
	const unsigned char *memory;
	struct grant grants[CHUNKS];
	const uint32_t *order; /* all pages, shuffled */
	unsigned granted, in_flight;
};

static void sending_event(struct sending *s)
{
	struct rf_event ev;

	next_event(s->f, &ev);
	if (ev.kind == RF_EV_MESSAGE) {
		struct grant g;

		memcpy(&g, ev.data, sizeof(g));
		s->grants[g.chunk] = g;
		s->granted++;
	} else if (ev.kind == RF_EV_WRITTEN) {
		s->in_flight -= ev.count;
	}
}

static void post_pages(struct sending *s)
{
	struct rf_write w[POSTS];
	unsigned lane = 1;

	for (size_t at = 0; at < PAGES;) {
		int n = 0;

		for (; n < POSTS && at + (size_t)n < PAGES; n++) {
			size_t page = s->order[at + (size_t)n], offset = page * PAGE;
			const struct grant *g = &s->grants[offset / CHUNK];

			w[n] = (struct rf_write){.local = s->memory + offset,
						 .remote = g->address + offset % CHUNK,
						 .rkey = g->key,
						 .length = PAGE};
		}
		int taken = s->f->ops->write(s->f, lane, w, n);

		if (taken < 0)
			die("scatter: the connection was lost");
		at += (size_t)taken;
		s->in_flight += (unsigned)taken;
		if (taken < n)
			sending_event(s);
		lane = lane % s->f->limits.lanes + 1;
	}
}

struct result {
	double mib_per_second;
	double register_seconds; /* of that: until the last chunk's key was there */
	unsigned lanes;
};

static struct result run_fabric(const unsigned char *memory, const uint32_t *order, unsigned lanes, unsigned run)
{
	struct sending s = {.f = open_fabric(lanes), .memory = memory, .order = order};
	char address[300];
	struct rf_error e;
	struct rf_uri uri;
	struct rf_event ev;
	int fd;
	pid_t pid = start_receiver(fabric_receiver, run, &fd);

	need(read(fd, address, sizeof(address)) == sizeof(address), "read");
	if (rf_uri_parse(address, &uri, &e) < 0 || s.f->ops->connect(s.f, &uri, &e) < 0)
		die("scatter: %s", e.text);
	int64_t start = report_now_ns();

	for (uint32_t i = 0; i < CHUNKS; i++)
		need(s.f->ops->send(s.f, 0, &i, sizeof(i)) == 1, "send");
	while (s.granted < CHUNKS)
		sending_event(&s);
	int64_t registered = report_now_ns();

	post_pages(&s);
	for (unsigned lane = 1; lane <= s.f->limits.lanes; lane++)
		need(s.f->ops->send(s.f, lane, "", 1) == 1, "send");
	do
		next_event(s.f, &ev);
	while (ev.kind != RF_EV_MESSAGE);
	int64_t end = report_now_ns();
	struct result r = {
	    .mib_per_second = mib_per_second(end - start),
	    .register_seconds = (double)(registered - start) / 1e9,
	    .lanes = s.f->limits.lanes,
	};

	end_receiver(pid, fd);
	s.f->ops->close(s.f);
	return r;
}

static void shuffle(uint32_t *order, uint64_t *state)
{
	for (uint32_t i = 0; i < PAGES; i++)
		order[i] = i;
	for (size_t i = PAGES - 1; i > 0; i--) {
		size_t j = next_random(state) % (i + 1);
		uint32_t swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

struct table {
	struct report_series sequential, scattered, one_lane, registering;
	unsigned lanes;
	double ratio, ratio_one_lane;
};

static void measure(struct table *t)
{
	uint32_t *order = malloc(PAGES * sizeof(*order));
	unsigned char *memory = map_shared();
	uint64_t state = 0x853c49e6748fea9b;

	need(order != NULL, "malloc");
	for (size_t i = 0; i < BYTES; i += sizeof(uint64_t)) {
		uint64_t word = next_random(&state);

		memcpy(memory + i, &word, sizeof(word));
	}
	for (unsigned run = 0; run < RUNS; run++) {
		stamp(memory, run);
		shuffle(order, &state);
		report_add(&t->sequential, run_stream(memory, run));
		struct result r = run_fabric(memory, order, 0, run);

		report_add(&t->scattered, r.mib_per_second);
		report_add(&t->registering, r.register_seconds);
		t->lanes = r.lanes;
		report_add(&t->one_lane, run_fabric(memory, order, 1, run).mib_per_second);
	}
	t->ratio = report_median(&t->scattered) / report_median(&t->sequential);
	t->ratio_one_lane = report_median(&t->one_lane) / report_median(&t->sequential);
	free(order);
	munmap(memory, BYTES);
}

static void print_json(const struct table *t)
{
	json_t *o = report_open("scatter");

	json_object_set_new(o, "bytes", json_integer((json_int_t)BYTES));
	json_object_set_new(o, "lanes", json_integer(t->lanes));
	json_object_set_new(o, "sequential_mib_per_second", report_series_json(&t->sequential));
	json_object_set_new(o, "scattered_mib_per_second", report_series_json(&t->scattered));
	json_object_set_new(o, "scattered_one_lane_mib_per_second", report_series_json(&t->one_lane));
	json_object_set_new(o, "register_seconds", report_series_json(&t->registering));
	json_object_set_new(o, "ratio", json_real(t->ratio));
	json_object_set_new(o, "ratio_one_lane", json_real(t->ratio_one_lane));
	if (report_close(o))
		die("scatter: cannot write the result");
}

static void print_row(const char *what, const struct report_series *s, const char *unit)
{
	printf("%-44s %8.4g %8.4g %8.4g  %s\n", what, report_median(s), report_minimum(s), report_maximum(s), unit);
}

static void print_table(const struct table *t)
{
	char where[300], name[80];

	printf("%d runs of %zu MiB each, in turns; %s\n\n", RUNS, BYTES >> 20, report_where(where, sizeof(where)));
	printf("%-44s %8s %8s %8s\n", "", "median", "min", "max");
	print_row("one plain stream, 1 MiB writes, in order", &t->sequential, "MiB/s");
	snprintf(name, sizeof(name), "fabric/tcp, random 4 KiB, %u lane(s)", t->lanes);
	print_row(name, &t->scattered, "MiB/s");
	print_row("fabric/tcp, random 4 KiB, 1 lane", &t->one_lane, "MiB/s");
	print_row("... of that, registering 64 MiB chunks", &t->registering, "s");
	printf("\nratio %.2f (at least %.1f), with one lane %.2f\n", t->ratio, AIM, t->ratio_one_lane);
}

int main(int argc, char **argv)
{
	bool json = report_wants_json(argc, argv);
	struct table t = {0};

	measure(&t);
	if (json)
		print_json(&t);
	else
		print_table(&t);
	return t.ratio >= AIM ? 0 : 1;
}
