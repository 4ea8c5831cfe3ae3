// SPDX-License-Identifier: LGPL-2.1-or-later
/* Random 4 KiB runs through fabric/tcp, with a registration for each chunk as the engine has them. */
#include "bench/report.h"
#include "bench/scatter.h"
#include "fabric/fabric.h"

#include <string.h>
#include <unistd.h>

enum {
	CHUNK = 64 << 20, /* of a registration, as the engine's default */
	POSTS = 256,      /* writes handed over at once */
};
#define CHUNKS (SCATTER_BYTES / CHUNK)

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
		scatter_die("%s", e.text);
	return f;
}

static void next_event(struct rf_fabric *f, struct rf_event *ev)
{
	f->ops->poll(f, ev, 1, -1);
	if (ev->kind == RF_EV_LOST || ev->status)
		scatter_die("%s", ev->text);
}

/* Registers each chunk when the source asks for it, then waits for the fence of every lane. */
static void fabric_receiver(int fd, unsigned run)
{
	struct rf_uri uri = {.host = "127.0.0.1"};
	struct rf_fabric *f = open_fabric(0);
	unsigned char *memory = scatter_map();
	char address[300];
	struct rf_error e;
	struct rf_event ev;

	if (f->ops->listen(f, &uri, &e) < 0 || f->ops->address(f, address, sizeof(address), &e) < 0)
		scatter_die("%s", e.text);
	scatter_need(write(fd, address, sizeof(address)) == sizeof(address), "write");
	if (f->ops->accept(f, 10000000000, &e) < 0)
		scatter_die("%s", e.text);
	for (unsigned fences = 0; fences < f->limits.lanes;) {
		next_event(f, &ev);
		if (ev.kind == RF_EV_REGISTERED) {
			struct grant g = {.address = (uintptr_t)memory + ev.cookie * CHUNK,
					  .key = ev.key,
					  .chunk = (uint32_t)ev.cookie};

			scatter_need(f->ops->send(f, 0, &g, sizeof(g)) == 1, "send");
		} else if (ev.kind == RF_EV_MESSAGE && ev.lane == 0) {
			uint32_t chunk;

			memcpy(&chunk, ev.data, sizeof(chunk));
			scatter_need(
			    f->ops->reg(f, memory + (size_t)chunk * CHUNK, CHUNK, RF_ACCESS_REMOTE_WRITE, chunk) == 0,
			    "reg");
		} else if (ev.kind == RF_EV_MESSAGE) {
			fences++;
		}
	}
	scatter_need(f->ops->send(f, 0, "", 1) == 1, "send");
	if (!scatter_stamped(memory, run))
		scatter_die("the pages arrived damaged");
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

	for (size_t at = 0; at < SCATTER_PAGES;) {
		int n = 0;

		for (; n < POSTS && at + (size_t)n < SCATTER_PAGES; n++) {
			size_t page = s->order[at + (size_t)n], offset = page * SCATTER_PAGE;
			const struct grant *g = &s->grants[offset / CHUNK];

			w[n] = (struct rf_write){.local = s->memory + offset,
						 .remote = g->address + offset % CHUNK,
						 .rkey = g->key,
						 .length = SCATTER_PAGE};
		}
		int taken = s->f->ops->write(s->f, lane, w, n);

		if (taken < 0)
			scatter_die("the connection was lost");
		at += (size_t)taken;
		s->in_flight += (unsigned)taken;
		if (taken < n)
			sending_event(s);
		lane = lane % s->f->limits.lanes + 1;
	}
}

struct scatter_result scatter_run_fabric(const unsigned char *memory, const uint32_t *order, unsigned lanes,
					 unsigned run)
{
	struct sending s = {.f = open_fabric(lanes), .memory = memory, .order = order};
	char address[300];
	struct rf_error e;
	struct rf_uri uri;
	struct rf_event ev;
	int fd;
	pid_t pid = scatter_start(fabric_receiver, run, &fd);

	scatter_need(read(fd, address, sizeof(address)) == sizeof(address), "read");
	if (rf_uri_parse(address, &uri, &e) < 0 || s.f->ops->connect(s.f, &uri, &e) < 0)
		scatter_die("%s", e.text);
	int64_t start = report_now_ns();

	for (uint32_t i = 0; i < CHUNKS; i++)
		scatter_need(s.f->ops->send(s.f, 0, &i, sizeof(i)) == 1, "send");
	while (s.granted < CHUNKS)
		sending_event(&s);
	int64_t registered = report_now_ns();

	post_pages(&s);
	for (unsigned lane = 1; lane <= s.f->limits.lanes; lane++)
		scatter_need(s.f->ops->send(s.f, lane, "", 1) == 1, "send");
	do
		next_event(s.f, &ev);
	while (ev.kind != RF_EV_MESSAGE);
	int64_t end = report_now_ns();
	struct scatter_result r = {
	    .mib_per_second = scatter_rate(end - start),
	    .register_seconds = (double)(registered - start) / 1e9,
	    .lanes = s.f->limits.lanes,
	};

	scatter_end(pid, fd);
	s.f->ops->close(s.f);
	return r;
}
