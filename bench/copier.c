// SPDX-License-Identifier: LGPL-2.1-or-later
/* copier SOURCE DESTINATION: the fastest that ramferry's tcp fabric can fill a cold file with the data of another, as a measure
 * for what a migration may cost. Two processes, the fabric's default lanes, registrations a little ahead of the writes as
 * in a migration; but no tracking, no rounds, no look at the pages, no hand-off. Prints the microseconds from the connect
 * to the moment at which the last byte is known to be at the other side.
 *
 * Protocol: WANT{offset, length} asks for a registration and KEY{offset, address, key} answers; END goes behind the writes
 * of each lane, and DONE answers the last of them. */
#include "common/checked.h"
#include "common/workers.h"
#include "fabric/fabric.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK_BYTES (UINT64_C(64) << 20)
#define AHEAD_BYTES (UINT64_C(256) << 20)
#define WRITE_BYTES (1u << 20)

enum { MAX_SPANS = 65536, BATCH = 64, EVENTS = 64 };
enum message_type { WANT = 1, KEY, END, DONE };

struct message {
	uint64_t type, offset, length, address;
	struct rf_key key;
};

struct span {
	uint64_t offset, length, done, address;
	struct rf_key key;
	bool ready;
};

struct side {
	const struct rf_fabric_ops *ops;
	struct rf_fabric *f;
	char *memory;
	int fd; /* that it is a mapping of */
	uint64_t bytes;
	struct span *spans; /* source: extents, cut at chunks; destination: what was asked for */
	size_t count, asked, ready, writing;
	uint64_t asked_bytes, sent_bytes;
	unsigned ends, lane;
	bool done;
};

static void stop(const char *what, const char *why)
{
	fprintf(stderr, "copier: %s: %s\n", what, why);
	_exit(1);
}

static char *map(const char *path, int flags, uint64_t *bytes, int *kept)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	struct stat st;
	char *p;

	if (fd < 0 || ((flags & O_CREAT) && ftruncate(fd, (off_t)*bytes)) || fstat(fd, &st))
		stop(path, "cannot be opened");
	*bytes = (uint64_t)st.st_size;
	p = mmap(NULL, *bytes, flags & O_CREAT ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		stop(path, "cannot be mapped");
	*kept = fd;
	return p;
}

static void find_spans(struct side *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t from = 0, to;

	while ((from = lseek(fd, from, SEEK_DATA)) >= 0 && (to = lseek(fd, from, SEEK_HOLE)) > from) {
		while (from < to) {
			uint64_t at = (uint64_t)from;
			uint64_t end = rf_min_u64((uint64_t)to, (at / CHUNK_BYTES + 1) * CHUNK_BYTES);

			if (s->count == MAX_SPANS)
				stop(path, "too many extents");
			s->spans[s->count++] = (struct span){.offset = at, .length = end - at};
			from = (off_t)end;
		}
	}
	close(fd);
}

static void tell(struct side *s, unsigned lane, const struct message *m)
{
	int taken;

	while (!(taken = s->ops->send(s->f, lane, m, sizeof(*m))))
		usleep(100);
	if (taken < 0)
		stop("send", "the peer is gone");
}

/* ---- Source ------------------------------------------------------------------------------------------------------------- */

static void ask_ahead(struct side *s)
{
	while (s->asked < s->count && s->asked_bytes - s->sent_bytes < AHEAD_BYTES) {
		const struct span *span = &s->spans[s->asked++];

		s->asked_bytes += span->length;
		tell(s, 0, &(struct message){.type = WANT, .offset = span->offset, .length = span->length});
	}
}

static int next_batch(const struct side *s, const struct span *span, struct rf_write *writes)
{
	uint64_t limit = rf_min_u64(WRITE_BYTES, s->f->limits.max_write_bytes), at = span->done;
	int n = 0;

	for (; n < BATCH && at < span->length; n++) {
		uint64_t length = rf_min_u64(limit, span->length - at);

		writes[n] = (struct rf_write){.local = s->memory + span->offset + at,
					      .remote = span->address + at,
					      .rkey = span->key,
					      .length = (uint32_t)length};
		at += length;
	}
	return n;
}

/* Posts what the lanes take; false when there is nothing to do but wait for an event. */
static bool post(struct side *s)
{
	struct rf_write writes[BATCH];
	struct span *span = &s->spans[s->writing];
	unsigned lanes = s->f->limits.lanes;

	if (s->writing == s->count || !span->ready)
		return false;
	for (unsigned tried = 0; tried < lanes; tried++) {
		int n = next_batch(s, span, writes);

		s->lane = s->lane % lanes + 1;
		n = s->ops->write(s->f, s->lane, writes, n);
		if (n < 0)
			stop("write", "the peer is gone");
		for (int i = 0; i < n; i++) {
			span->done += writes[i].length;
			s->sent_bytes += writes[i].length;
		}
		s->writing += span->done == span->length;
		if (n)
			return true;
	}
	return false;
}

static void take_key(struct side *s, const struct message *m)
{
	for (size_t i = s->writing; i < s->asked; i++) {
		if (s->spans[i].offset != m->offset)
			continue;
		s->spans[i].address = m->address;
		s->spans[i].key = m->key;
		s->spans[i].ready = true;
	}
}

static void source_event(struct side *s, const struct rf_event *e)
{
	struct message m;

	if (e->kind == RF_EV_LOST && !s->done) /* behind DONE it is the peer's end */
		stop("source", e->text);
	if (e->kind != RF_EV_MESSAGE || e->length != sizeof(m))
		return;
	memcpy(&m, e->data, sizeof(m));
	if (m.type == KEY)
		take_key(s, &m);
	s->done |= m.type == DONE;
}

static void run_source(struct side *s)
{
	struct rf_event events[EVENTS];
	bool ended = false;

	while (!s->done) {
		int n;

		ask_ahead(s);
		while (post(s))
			;
		if (s->writing == s->count && !ended) {
			for (unsigned lane = 1; lane <= s->f->limits.lanes; lane++)
				tell(s, lane, &(struct message){.type = END});
			ended = true;
		}
		n = s->ops->poll(s->f, events, EVENTS, -1);
		for (int i = 0; i < n; i++)
			source_event(s, &events[i]);
	}
}

/* ---- Destination -------------------------------------------------------------------------------------------------------- */

static void take_message(struct side *s, const struct rf_event *e)
{
	struct message m;

	if (e->length != sizeof(m))
		stop("destination", "a strange message");
	memcpy(&m, e->data, sizeof(m));
	if (m.type == END) {
		s->ends++;
		return;
	}
	if (m.type != WANT || m.offset > s->bytes || m.length > s->bytes - m.offset || s->count == MAX_SPANS)
		stop("destination", "a strange message");
	s->spans[s->count] = (struct span){.offset = m.offset, .length = m.length};
	if (s->ops->reg(s->f, s->memory + m.offset, m.length, RF_ACCESS_REMOTE_WRITE, s->count++))
		stop("destination", "cannot register");
}

static void destination_event(struct side *s, const struct rf_event *e)
{
	if (e->kind == RF_EV_LOST)
		stop("destination", e->text);
	if (e->kind == RF_EV_MESSAGE)
		take_message(s, e);
	if (e->kind == RF_EV_REGISTERED) {
		const struct span *span = &s->spans[e->cookie];

		if (e->status)
			stop("destination", e->text);
		tell(s, 0,
		     &(struct message){.type = KEY,
				       .offset = span->offset,
				       .address = (uint64_t)(uintptr_t)(s->memory + span->offset),
				       .key = e->key});
	}
}

static void run_destination(struct side *s)
{
	struct rf_event events[EVENTS];

	while (s->ends < s->f->limits.lanes) {
		int n = s->ops->poll(s->f, events, EVENTS, -1);

		for (int i = 0; i < n; i++)
			destination_event(s, &events[i]);
	}
	tell(s, 0, &(struct message){.type = DONE});
}

static void open_fabric(struct side *s)
{
	struct rf_fabric_config config = {.connect_timeout_ns = INT64_C(10000000000)};
	struct rf_error e;

	s->ops = &rf_fabric_tcp;
	if (s->ops->open(&config, &s->f, &e))
		stop("fabric", e.text);
	assert(!s->f->limits.local_keys);
}

static void be_destination(struct side *s, int pipe_fd)
{
	struct rf_uri uri;
	struct rf_error e;
	char address[128];

	open_fabric(s);
	if (rf_uri_parse("tcp://127.0.0.1:0", &uri, &e) || s->ops->listen(s->f, &uri, &e) ||
	    s->ops->address(s->f, address, sizeof(address), &e))
		stop("listen", e.text);
	if (write(pipe_fd, address, sizeof(address)) != sizeof(address) || s->ops->accept(s->f, -1, &e))
		stop("accept", e.text);
	s->ops->file(s->f, s->memory, s->bytes, s->fd, 0); /* as the engine tells it */
	run_destination(s);
	s->ops->close(s->f);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct side source = {0}, destination = {0};
	struct rf_error e = {0};
	struct rf_uri uri;
	char address[128];
	int64_t start;
	int ends[2];

	if (argc != 3) {
		fprintf(stderr, "usage: copier SOURCE DESTINATION\n");
		return 2;
	}
	source.memory = map(argv[1], O_RDONLY, &source.bytes, &source.fd);
	destination.bytes = source.bytes;
	destination.memory = map(argv[2], O_RDWR | O_CREAT | O_TRUNC, &destination.bytes, &destination.fd);
	source.spans = calloc(MAX_SPANS, sizeof(struct span));
	destination.spans = calloc(MAX_SPANS, sizeof(struct span));
	if (!source.spans || !destination.spans || pipe(ends))
		stop("start", "no memory");
	if (!fork())
		be_destination(&destination, ends[1]);
	if (read(ends[0], address, sizeof(address)) != sizeof(address) || rf_uri_parse(address, &uri, &e))
		stop("start", "no listener");
	open_fabric(&source);
	start = source.ops->now(source.f);
	if (source.ops->connect(source.f, &uri, &e))
		stop("connect", e.text);
	find_spans(&source, argv[1]);
	run_source(&source);
	printf("%" PRId64 "\n", (source.ops->now(source.f) - start) / 1000);
	source.ops->close(source.f);
	wait(NULL);
	return 0;
}
