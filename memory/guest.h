// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest as the engine sees it: blocks, how its writes are tracked, and what its lifecycle can do. lib/ builds one
 * from the callbacks of an embedding program, qemu/ from a running QEMU, guests/ for tests and bench. */
#ifndef RAMFERRY_MEMORY_GUEST_H
#define RAMFERRY_MEMORY_GUEST_H

#include "common/error.h"
#include "common/log.h"
#include "memory/block.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rf_role { RF_ROLE_SOURCE, RF_ROLE_DESTINATION };

/* A device state while it is being saved: bytes appended by the guest, sent or kept by the engine. */
struct rf_state_sink {
	int (*write)(void *arg, const void *data, size_t length); /* -1: stop, the migration has ended */
	void *arg;
};

/* How far a guest is on its way to its pause. */
enum rf_stand {
	RF_STAND_RUNS,     /* its downtime has not begun */
	RF_STAND_STOPPING, /* it runs no more, but its devices may still write */
	RF_STAND_STILL,
};

struct rf_tracker_ops;

/* Lifecycle: blocking, run on workers, one at a time for a guest. Each fails with a sentence. A NULL operation is a
 * success that does nothing. Which is allowed when is engine/handoff.c's business; the order of a good move is
 *
 *   source       check, prepare, pause, save, finish        a failure before COMMIT: undo, from whatever was reached
 *   destination  check, prepare, load_early, load, resume   a failure before it runs: discard */
struct rf_lifecycle_ops {
	/* Can this guest be moved (or filled) at all? Touches nothing. Fails with RF_E_REFUSED. */
	int (*check)(void *ctx, enum rf_role role, struct rf_error *e);

	/* Source: what the other side must have too, one "key=value" per line, e.g. the machine type. Sorted by the
	 * guest; compared line by line by the destination's facts. At most `length` bytes with the final 0. */
	int (*facts)(void *ctx, char *text, size_t length, struct rf_error *e);

	/* Both sides have agreed: change settings that undo()/discard() puts back. */
	int (*prepare)(void *ctx, enum rf_role role, struct rf_error *e);

	/* Source, for wp-async: a userfaultfd of the process that maps the guest, and its /proc/PID/pagemap. The caller
	 * closes both. NULL: the guest lives in this process. */
	int (*open_tracking)(void *ctx, int *userfaultfd, int *pagemap, struct rf_error *e);

	/* Source, for soft-dirty: /proc/PID/pagemap and clear_refs of that process. The caller closes both. NULL: as above. */
	int (*open_soft_dirty)(void *ctx, int *pagemap, int *clear_refs, struct rf_error *e);

	/* Source, for soft-dirty, before pause(): from hold(true) to hold(false) nobody writes guest RAM; then a guest that ran runs
	 * on. One that stands still already is left so. If that fails undo() sees to it. */
	int (*hold)(void *ctx, bool still, struct rf_error *e);

	/* Source, callback tracker: OR into bitmap (bit 0 = page `first`) the pages of the range written since the last
	 * call, and forget them there. The first call over a range starts tracking; its bits are ignored. */
	int (*collect)(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap, struct rf_error *e);
	void (*stop_tracking)(void *ctx);

	/* Source, before pause(): a drain point. Every write of a device that has begun comes to its end; no other begins before that.
	 * A guest that runs is stopped for it, and runs on afterwards: if that fails undo() sees to it. One that its operator
	 * has paused stays so. Given if needs_drain may become true. */
	int (*drain)(void *ctx, struct rf_error *e);

	/* Source: a step towards a guest that stands still and whose devices write no more; called until *stand says so.
	 * *was_running then says what the destination shall restore. Device state that depends on nothing in guest RAM may
	 * be handed to `early` on the way: it travels at once. */
	int (*pause)(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
		     struct rf_error *e);

	/* Source, paused: device state. Guest RAM may still be written to during this call, not after it; no page
	 * becomes a hole any more. */
	int (*save)(void *ctx, const struct rf_state_sink *sink, struct rf_error *e);

	/* Destination, while memory is still being filled: the next piece of what the source handed out early. NULL: it is
	 * kept for load(). */
	int (*load_early)(void *ctx, const void *state, size_t length, struct rf_error *e);

	/* Destination: memory is complete; take the (rest of the) device state. The guest does not run yet. */
	int (*load)(void *ctx, const void *state, size_t length, struct rf_error *e);

	/* Destination, after COMMIT: run the guest if `run`. When it fails the guest must not have run. */
	int (*resume)(void *ctx, bool run, struct rf_error *e);

	/* Source: as if nothing had happened: settings back, running if it ran. */
	int (*undo)(void *ctx, struct rf_error *e);

	/* Destination: make sure that this guest can never run: 0 only when that is certain. */
	int (*discard)(void *ctx, struct rf_error *e);

	/* Source, after the guest runs at the other side: it will never run here again. */
	int (*finish)(void *ctx, struct rf_error *e);

	/* Destination: is there still something that will run the guest? At any time, beside the others; does not block. */
	int (*alive)(void *ctx, struct rf_error *e);

	void (*close)(void *ctx);
};

struct rf_guest {
	struct rf_block **blocks;
	unsigned nblocks;
	const struct rf_lifecycle_ops *ops;
	void *ctx;
	const struct rf_tracker_ops *own_tracker; /* set by simulated guests; NULL: choose from memory/tracker.h */
	bool may_discard;                         /* pages may become holes without a write (balloon); true at first */
	char discarder[96];       /* what does that, for people: "the device virtio-mem-pci". "": not known */
	bool needs_drain;         /* devices write where trackers hear only of the beginning (direct I/O); false at first */
	char direct_writer[96];   /* what does that, for people: "the disk /a.img". "": not known */
	const struct rf_log *log; /* set by lib/ before check(); may be NULL */
};

/* An empty guest; add blocks, then hand it to a migration. rf_guest_destroy closes blocks and ctx. */
struct rf_guest *rf_guest_create(const struct rf_lifecycle_ops *ops, void *ctx);
int rf_guest_add(struct rf_guest *g, struct rf_block *b, struct rf_error *e); /* takes b, also on failure */
void rf_guest_destroy(struct rf_guest *g);

#endif
