// SPDX-License-Identifier: LGPL-2.1-or-later
/* Tracker "hash": works anywhere, asks the kernel for nothing, and reads all of the guest's data at each sync, to compare it
 * with what was last sent (sent.h). A page that changes while collect() reads it is found by the next one. */
#include "memory/sent.h"
#include "memory/tracker.h"

#include <stdlib.h>

struct hash_tracker {
	struct rf_tracker tracker;
	struct rf_sent sent;
};

static struct rf_sent *sent_of(struct rf_tracker *t)
{
	return &((struct hash_tracker *)t)->sent;
}

static int hash_probe(struct rf_guest *g, struct rf_error *why)
{
	return 0;
}

static void hash_close(struct rf_tracker *t)
{
	rf_sent_close(sent_of(t));
	free(t);
}

static int hash_open(struct rf_guest *g, struct rf_tracker **out, struct rf_error *e)
{
	struct hash_tracker *h = calloc(1, sizeof(*h));

	if (!h)
		return rf_fail(e, RF_E_FAILED, "no memory for the tracker");
	h->tracker = (struct rf_tracker){.ops = &rf_track_hash, .guest = g};
	if (rf_sent_open(&h->sent, g, e)) {
		hash_close(&h->tracker);
		return -1;
	}
	*out = &h->tracker;
	return 0;
}

/* Nothing to do: what round 0 does not send is known to be zero over there, and shows as different otherwise. */
static int hash_arm(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_error *e)
{
	return 0;
}

static int hash_collect(struct rf_tracker *t, unsigned block, struct rf_run slice, struct rf_pages *dirty,
			struct rf_error *e)
{
	return rf_sent_compare(sent_of(t), block, slice, true, dirty, e);
}

static void hash_sent(struct rf_tracker *t, unsigned block, struct rf_run run, const void *copy)
{
	rf_sent_note(sent_of(t), block, run, copy);
}

static void hash_drop(struct rf_tracker *t, unsigned block, struct rf_run slice)
{
}

const struct rf_tracker_ops rf_track_hash = {
    .name = "hash",
    .staged = true,
    .sees_devices = true,
    .probe = hash_probe,
    .open = hash_open,
    .arm = hash_arm,
    .collect = hash_collect,
    .sent = hash_sent,
    .drop = hash_drop,
    .close = hash_close,
};
