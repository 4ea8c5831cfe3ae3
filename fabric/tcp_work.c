// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the tcp fabric does on its workers: registrations, and the engine's blocking work. */
#include "fabric/tcp.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
	struct rf_tcp *tcp;
	struct rf_event_node *node; /* posted at the end */
	void (*fn)(void *);         /* run() */
	void *arg;
	void *address; /* reg() */
	uint64_t length;
};

static int submit(struct rf_tcp *t, void (*run)(void *), const struct work *w)
{
	struct work *copy = malloc(sizeof(*copy));

	if (!copy)
		return -1;
	*copy = *w;
	if (rf_workers_submit(t->workers, &(struct rf_job){.run = run, .arg = copy}) == 0)
		return 0;
	free(copy);
	return -1;
}

static void fail_registration(struct rf_event_node *node, const char *what, int err)
{
	enum { ROOM = 300 };
	char room[100];
	/* The file that is mapped has no page there and gets none; whoever touched it would be killed by SIGBUS. */
	const char *why = err == EFAULT ? "the file system that holds it is full, or no huge pages are left"
					: strerror_r(err, room, sizeof(room));

	node->event.status = -1;
	node->text = malloc(ROOM);
	if (!node->text) {
		node->event.text = "out of memory";
		return;
	}
	snprintf(node->text, ROOM, "%s: %s", what, why);
	node->event.text = node->text;
}

static void register_region(void *arg)
{
	struct work *w = arg;
	char what[200];
	/* A file gets its pages from what is spliced into it: cheaper than making them first. */
	int err = rf_files_find(&w->tcp->files, (uintptr_t)w->address, w->length)
		      ? 0
		      : rf_populate(w->address, w->length, &w->tcp->closing);

	snprintf(what, sizeof(what), "cannot make %" PRIu64 " bytes of memory ready for the peer", w->length);
	if (err)
		fail_registration(w->node, what, err);
	else if (rf_regions_add(w->tcp->regions, w->address, w->length, &w->node->event.key) < 0)
		fail_registration(w->node, what, ENOMEM);
	rf_events_post(w->tcp->events, w->node);
	free(w);
}

int rf_tcp_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct rf_event_node *node = rf_event_node_new(RF_EV_REGISTERED, cookie, 0);

	assert(length);
	if (!node)
		return -1;
	/* Whoever sends reads its own memory; a key of zeros stands for that. */
	if (access == RF_ACCESS_LOCAL_READ) {
		rf_events_post(t->events, node);
		return 0;
	}
	if (submit(t, register_region, &(struct work){.tcp = t, .node = node, .address = address, .length = length}) ==
	    0)
		return 0;
	rf_event_node_free(node);
	return -1;
}

int rf_tcp_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct rf_event_node *node = rf_event_node_new(RF_EV_RELEASED, cookie, 0);

	if (!node)
		return -1;
	if (!key.value[0]) {
		rf_events_post(t->events, node);
		return 0;
	}
	if (rf_regions_remove(t->regions, key, node))
		return 0;
	rf_event_node_free(node);
	return -1;
}

static void run_work(void *arg)
{
	struct work *w = arg;

	w->fn(w->arg);
	rf_events_post(w->tcp->events, w->node);
	free(w);
}

int rf_tcp_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie)
{
	struct rf_tcp *t = rf_tcp_of(f);
	struct rf_event_node *node = rf_event_node_new(RF_EV_DONE, cookie, 0);

	if (!node)
		return -1;
	if (submit(t, run_work, &(struct work){.tcp = t, .node = node, .fn = fn, .arg = arg}) == 0)
		return 0;
	rf_event_node_free(node);
	return -1;
}
