// SPDX-License-Identifier: LGPL-2.1-or-later
/* rdma-write [--json]: how close does fabric/verbs come to what the device gives to perftest's ib_write_bw?
 *
 * Both write 96 MiB in pieces of 1 MiB, then 32 MiB in pieces of 4 KiB, over one connection with 128 writes in flight, on one host;
 * they take turns, and a rate counts from the first write to the last completion. perftest sends the same
 * buffer again and again, and so do we with 1 MiB; our 4 KiB are random pages of 64 MiB, which is what a final pass looks like. `ratio` and `ratio_4k` are our
 * median rate over perftest's.
 *
 * Outside of a VM of tests/support/rxe-vm it starts itself in one: a device in software will do. There the CPU bounds both. */
#include "bench/report.h"
#include "bench/scatter.h"
#include "fabric/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 7, DEPTH = 128, LARGE = 1 << 20, LARGE_WRITES = 96, SMALL = 4096, SMALL_WRITES = 8192, POSTS = 64 };
#define REGION_BYTES ((size_t)64 << 20)
#define ADDRESS      "10.0.0.1"

struct grant {
	uint64_t address;
	struct rf_key key;
};

static struct rf_fabric *open_fabric(void)
{
	struct rf_fabric_config config = {
	    .lanes = 1, .queue_depth = DEPTH, .connect_timeout_ns = 20000000000, .rdma_retry = 7, .gid_index = -1};
	struct rf_fabric *f;
	struct rf_error e;

	if (rf_fabric_verbs.open(&config, &f, &e) < 0)
		scatter_die("%s", e.text);
	return f;
}

static void await(struct rf_fabric *f, enum rf_event_kind kind, struct rf_event *ev)
{
	do {
		if (f->ops->poll(f, ev, 1, -1) != 1)
			continue;
		if (ev->kind == RF_EV_LOST || ev->status)
			scatter_die("%s", ev->text);
	} while (ev->kind != kind);
}

/* What happens meanwhile is of no interest to those who call it. */
static void say(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	struct rf_event ev;
	int taken;

	while ((taken = f->ops->send(f, lane, message, length)) == 0) {
		f->ops->poll(f, &ev, 1, -1);
		if (ev.kind == RF_EV_LOST)
			scatter_die("%s", ev.text);
	}
	if (taken < 0)
		await(f, RF_EV_LOST, &ev); /* which tells why */
}

/* Grants its memory, and ends when the other side says so. */
static void receiver(int fd, unsigned run)
{
	struct rf_uri uri = {.scheme = "rdma", .host = ADDRESS};
	struct rf_fabric *f = open_fabric();
	unsigned char *memory = scatter_map();
	char address[300];
	struct rf_error e;
	struct rf_event ev;

	if (f->ops->listen(f, &uri, &e) < 0 || f->ops->address(f, address, sizeof(address), &e) < 0)
		scatter_die("%s", e.text);
	scatter_need(write(fd, address, sizeof(address)) == sizeof(address), "write");
	if (f->ops->accept(f, 20000000000, &e) < 0)
		scatter_die("%s", e.text);
	scatter_need(f->ops->reg(f, memory, REGION_BYTES, RF_ACCESS_REMOTE_WRITE, 0) == 0, "reg");
	await(f, RF_EV_REGISTERED, &ev); /* the other side says nothing before it has the grant */
	struct grant g = {.address = (uintptr_t)memory, .key = ev.key};

	say(f, 0, &g, sizeof(g));
	await(f, RF_EV_MESSAGE, &ev);
	if (memory[0] != (unsigned char)run || memory[REGION_BYTES - 1] != (unsigned char)run)
		scatter_die("the bytes did not arrive");
	say(f, 0, "", 1);
	f->ops->close(f);
}

struct sending {
	struct rf_fabric *f;
	unsigned char *memory;
	struct rf_key key;
	struct grant grant;
	uint64_t random;
};

/* Our key and the peer's grant come in any order. */
static void get_ready(struct sending *s)
{
	struct rf_event ev;

	for (bool registered = false, granted = false; !registered || !granted;) {
		s->f->ops->poll(s->f, &ev, 1, -1);
		if (ev.kind == RF_EV_LOST || ev.status)
			scatter_die("%s", ev.text);
		if (ev.kind == RF_EV_REGISTERED) {
			s->key = ev.key;
			registered = true;
		} else if (ev.kind == RF_EV_MESSAGE) {
			memcpy(&s->grant, ev.data, sizeof(s->grant));
			granted = true;
		}
	}
}

static struct rf_write write_of(const struct sending *s, size_t piece, uint32_t size)
{
	return (struct rf_write){.local = s->memory + piece * size,
				 .lkey = s->key,
				 .remote = s->grant.address + piece * size,
				 .rkey = s->grant.key,
				 .length = size};
}

static struct rf_write next_write(struct sending *s, uint32_t size)
{
	return write_of(s, size == LARGE ? 0 : scatter_random(&s->random) % (REGION_BYTES / size), size);
}

static double write_all(struct sending *s, uint32_t size, unsigned count)
{
	struct rf_write w[POSTS];
	unsigned posted = 0, prepared = 0, done = 0;
	struct rf_event ev;
	int64_t start = report_now_ns();

	while (done < count) {
		while (prepared < POSTS && posted + prepared < count) {
			w[prepared] = next_write(s, size);
			prepared++;
		}
		int taken = prepared ? s->f->ops->write(s->f, 1, w, (int)prepared) : 0;

		if (taken < 0)
			scatter_die("the connection was lost");
		posted += (unsigned)taken;
		prepared -= (unsigned)taken;
		memmove(w, w + taken, prepared * sizeof(w[0]));
		if (prepared || posted == count) {
			await(s->f, RF_EV_WRITTEN, &ev);
			done += ev.count;
		}
	}
	return (double)size * count / (1 << 20) / ((double)(report_now_ns() - start) / 1e9);
}

/* What the sending process is to do; set before it is forked. */
static struct {
	unsigned char *memory;
	uint32_t size;
	unsigned count;
	char address[300];
} task;

static void sender(int fd, unsigned run)
{
	struct sending s = {.f = open_fabric(), .memory = task.memory, .random = 0x853c49e6748fea9b + run};
	struct rf_error e;
	struct rf_uri uri;
	struct rf_event ev;

	memset(s.memory, (int)run, REGION_BYTES);
	if (rf_uri_parse(task.address, &uri, &e) < 0 || s.f->ops->connect(s.f, &uri, &e) < 0)
		scatter_die("%s", e.text);
	scatter_need(s.f->ops->reg(s.f, s.memory, REGION_BYTES, RF_ACCESS_LOCAL_READ, 0) == 0, "reg");
	get_ready(&s);
	double rate = write_all(&s, task.size, task.count);
	struct rf_write ends[] = {write_of(&s, 0, LARGE), write_of(&s, REGION_BYTES / LARGE - 1, LARGE)};

	scatter_need(s.f->ops->write(s.f, 1, ends, 2) == 2, "write"); /* so that there is something to look at */
	say(s.f, 1, "", 1);
	await(s.f, RF_EV_MESSAGE, &ev);
	scatter_need(write(fd, &rate, sizeof(rate)) == sizeof(rate), "write");
	s.f->ops->close(s.f);
}

/* Both sides in processes of their own: librdmacm keeps the devices that it has opened, and the kernel lets nobody use them
 * after a fork. */
static double by_fabric(unsigned char *memory, uint32_t size, unsigned count, unsigned run)
{
	int from_receiver, from_sender;
	double rate;
	pid_t receiving = scatter_start(receiver, run, &from_receiver);

	task.memory = memory;
	task.size = size;
	task.count = count;
	scatter_need(read(from_receiver, task.address, sizeof(task.address)) == sizeof(task.address), "read");
	pid_t sending = scatter_start(sender, run, &from_sender);

	scatter_need(read(from_sender, &rate, sizeof(rate)) == sizeof(rate), "read");
	scatter_end(sending, from_sender);
	scatter_end(receiving, from_receiver);
	return rate;
}

static double by_perftest(uint32_t size, unsigned count)
{
	char command[800];
	double rate = 0;

	/* 4853 is its port, 18515; the fourth column is the average. */
	snprintf(command, sizeof(command),
		 "p='ib_write_bw -F -s %u -n %u -t %d'; $p >/dev/null 2>&1 & "
		 "until grep -q ':4853 .* 0A ' /proc/net/tcp; do sleep 0.1; done; "
		 "$p " ADDRESS " 2>/dev/null | awk '$1 == %u { print $4 }'; wait",
		 size, count, DEPTH, size);
	FILE *p = popen(command, "r");

	scatter_need(p != NULL, "popen");
	if (fscanf(p, "%lf", &rate) != 1 || rate <= 0)
		scatter_die("ib_write_bw told no rate (package perftest)");
	pclose(p);
	return rate;
}

struct table {
	struct report_series perftest, fabric, perftest_4k, fabric_4k;
};

static void measure(struct table *t)
{
	unsigned char *memory = scatter_map();

	for (unsigned run = 0; run < RUNS; run++) {
		report_add(&t->perftest, by_perftest(LARGE, LARGE_WRITES));
		report_add(&t->fabric, by_fabric(memory, LARGE, LARGE_WRITES, 2 * run + 1));
		report_add(&t->perftest_4k, by_perftest(SMALL, SMALL_WRITES));
		report_add(&t->fabric_4k, by_fabric(memory, SMALL, SMALL_WRITES, 2 * run + 2));
	}
}

static void print_json(const struct table *t, double ratio, double ratio_4k)
{
	json_t *o = report_open("rdma-write");

	json_object_set_new(o, "depth", json_integer(DEPTH));
	json_object_set_new(o, "perftest_mib_per_second", report_series_json(&t->perftest));
	json_object_set_new(o, "fabric_mib_per_second", report_series_json(&t->fabric));
	json_object_set_new(o, "perftest_4k_mib_per_second", report_series_json(&t->perftest_4k));
	json_object_set_new(o, "fabric_4k_mib_per_second", report_series_json(&t->fabric_4k));
	json_object_set_new(o, "ratio", json_real(ratio));
	json_object_set_new(o, "ratio_4k", json_real(ratio_4k));
	if (report_close(o))
		scatter_die("cannot write the result");
}

static void print_row(const char *what, const struct report_series *s)
{
	printf("%-44s %8.4g %8.4g %8.4g  MiB/s\n", what, report_median(s), report_minimum(s), report_maximum(s));
}

static void print_table(const struct table *t, double ratio, double ratio_4k)
{
	char where[300];

	printf("%d runs, in turns, %d writes in flight; %s\n\n", RUNS, DEPTH, report_where(where, sizeof(where)));
	printf("%-44s %8s %8s %8s\n", "", "median", "min", "max");
	print_row("ib_write_bw, 1 MiB", &t->perftest);
	print_row("fabric/verbs, 1 MiB", &t->fabric);
	print_row("ib_write_bw, 4 KiB", &t->perftest_4k);
	print_row("fabric/verbs, 4 KiB, random pages", &t->fabric_4k);
	printf("\nratio %.2f (at least 0.95), ratio_4k %.2f (at least 0.90)\n", ratio, ratio_4k);
}

static _Noreturn void start_vm(bool json)
{
	char self[4096] = "";

	scatter_need(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0, "readlink");
	execl(RXE_VM, RXE_VM, "--timeout", "570", "--", self, json ? "--json" : NULL, NULL);
	scatter_die("cannot start " RXE_VM);
}

int main(int argc, char **argv)
{
	bool json = report_wants_json(argc, argv);
	struct table t = {0};

	if (!getenv("RXE_VM"))
		start_vm(json);
	measure(&t);
	double ratio = report_median(&t.fabric) / report_median(&t.perftest);
	double ratio_4k = report_median(&t.fabric_4k) / report_median(&t.perftest_4k);

	if (json)
		print_json(&t, ratio, ratio_4k);
	else
		print_table(&t, ratio, ratio_4k);
	return ratio >= 0.95 && ratio_4k >= 0.9 ? 0 : 1;
}
