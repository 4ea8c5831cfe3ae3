// SPDX-License-Identifier: LGPL-2.1-or-later
/* The verbs fabric: its operations, its beginning and its end. verbs.h tells how it works. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEFAULT_LANES = 2, /* a card is busy with one; two keep it so while one waits for a fence */
	DEFAULT_QUEUE_DEPTH = 512,
	MAX_QUEUE_DEPTH = 1 << 14,
	MAX_WRITE_BYTES = 1 << 30,
	MAX_SPANS = 16, /* each costs a system call and a place in the card's table */
};

/* The last words of a side (RUNNING above all) may need to be sent more than once, and a card's first retry alone may take a
 * second. A peer that has gone ends the wait before. */
#define FLUSH_NS INT64_C(5000000000)

/* On iWARP, which is TCP, a request is done when it was handed to TCP, and what the peer still sends to a closed connection may
 * throw away what is on its way to it. So a destination, whose last words (RUNNING) matter most, lets the source go first, which
 * does when it has heard them. */
#define LINGER_NS INT64_C(1000000000)

static unsigned choose(unsigned wish, unsigned otherwise, unsigned maximum)
{
	return (unsigned)rf_max_u64(1, rf_min_u64(wish ? wish : otherwise, maximum));
}

static int verbs_probe(char *text, size_t length, struct rf_error *e)
{
	char devices[400];
	unsigned n = rf_verbs_devices(devices, sizeof(devices));

	if (!n)
		return rf_fail(e, RF_E_REFUSED, "%s", devices);
	snprintf(text, length, "%u RDMA device(s): %s", n, devices);
	return 0;
}

static int verbs_open(const struct rf_fabric_config *config, struct rf_fabric **out, struct rf_error *e)
{
	struct rf_verbs *v = calloc(1, sizeof(*v));
	unsigned cpus = rf_cpu_count();

	*out = NULL;
	if (!v)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	v->config = *config;
	v->may_spin = cpus > 1;
	v->gap_ns = 1000 * 1000; /* nothing has come yet */
	v->free_region = UINT32_MAX;
	v->fabric.ops = &rf_fabric_verbs;
	v->fabric.limits = (struct rf_fabric_limits){
	    .lanes = choose(config->lanes, DEFAULT_LANES, RF_VERBS_MAX_LANES),
	    .queue_depth = choose(config->queue_depth, DEFAULT_QUEUE_DEPTH, MAX_QUEUE_DEPTH),
	    .max_write_bytes = choose(config->max_write_bytes, MAX_WRITE_BYTES, MAX_WRITE_BYTES),
	    .max_message_bytes = RF_VERBS_MIN_MESSAGE_BYTES,
	    .max_spans = MAX_SPANS,
	    .local_keys = true,
	    .pins = true,
	};
	if (rf_events_open(&v->events, e) < 0)
		goto free_fabric;
	/* A guest operation may hold a worker for half a minute; the others must still keep every CPU busy. */
	if (rf_workers_open(&v->workers, choose(config->workers, cpus + 2, 256), e) < 0)
		goto close_events;
	pthread_mutex_init(&v->lock, NULL);
	*out = &v->fabric;
	return 0;

close_events:
	rf_events_close(v->events);
free_fabric:
	free(v);
	return -1;
}

/* The order: nobody new comes in, what was sent goes out, the peer hears that we go, the workers end (they may be
 * registering), and then all is taken apart. */
static void verbs_close(struct rf_fabric *f)
{
	struct rf_verbs *v = rf_verbs_of(f);

	if (!f)
		return;
	rf_verbs_stop_listening(v);
	if (v->lane_count) {
		rf_verbs_flush(v, FLUSH_NS);
		if (v->accepted && v->context->device->transport_type == IBV_TRANSPORT_IWARP)
			rf_verbs_linger(v, LINGER_NS);
		rf_verbs_lose(v, "the connection was closed");
	}
	rf_workers_close(v->workers);
	rf_verbs_lanes_free(v);
	if (v->channel)
		rdma_destroy_event_channel(v->channel);
	rf_events_close(v->events);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

static void verbs_wake(struct rf_fabric *f)
{
	rf_events_wake(rf_verbs_of(f)->events);
}

static int64_t verbs_now(struct rf_fabric *f)
{
	return rf_monotonic_ns();
}

static void verbs_count(struct rf_fabric *f, struct rf_fabric_counters *counters)
{
	struct rf_verbs *v = rf_verbs_of(f);

	*counters = (struct rf_fabric_counters){
	    .registrations = atomic_load(&v->registrations),
	    .registration_ns = atomic_load(&v->registration_ns),
	    .doorbells = v->doorbells,
	    .completions = v->completion_count,
	};
}

const struct rf_fabric_ops rf_fabric_verbs = {
    .scheme = "rdma",
    .probe = verbs_probe,
    .open = verbs_open,
    .listen = rf_verbs_listen,
    .address = rf_verbs_address,
    .accept = rf_verbs_accept,
    .connect = rf_verbs_connect,
    .close = verbs_close,
    .file = rf_verbs_file,
    .can_pin = rf_verbs_can_pin,
    .count = verbs_count,
    .reg = rf_verbs_reg,
    .dereg = rf_verbs_dereg,
    .write = rf_verbs_write,
    .send = rf_verbs_send,
    .run = rf_verbs_run,
    .poll = rf_verbs_poll,
    .wake = verbs_wake,
    .now = verbs_now,
};
