// SPDX-License-Identifier: LGPL-2.1-or-later
/* What was last sent of every page, as a hash of 8 bytes, 1/512 of the data: for trackers that compare.
 *
 * 0 stands for a page of zeros, which is what the emptied destination has before anything is sent; so memory of the kernel
 * that nobody touched says the right thing, and a page that becomes zero or a hole again after it was sent differs.
 *
 * Only the hash of the very bytes that were sent will do. One of the guest's own page, taken before or after, may be of other
 * bytes: a lock that is 0 when it is hashed, 1 when it is sent and 0 when it is compared would leave a 1 over there for
 * ever. Hence such trackers are `staged`. */
#ifndef RAMFERRY_MEMORY_SENT_H
#define RAMFERRY_MEMORY_SENT_H

#include "memory/guest.h"

struct rf_sent {
	const struct rf_guest *guest;
	uint64_t **hashes; /* per block, per page; relaxed atomics: a page may be sent while another is compared */
};

int rf_sent_open(struct rf_sent *s, const struct rf_guest *g, struct rf_error *e);
void rf_sent_close(struct rf_sent *s); /* also after a failed open */

/* This copy of the run goes out. */
void rf_sent_note(struct rf_sent *s, unsigned block, struct rf_run run, const void *copy);

/* Add to `dirty` the pages of the run that are not what was sent. A page that changes while it is looked at hashes to something of no
 * moment; whichever way that compares, the write began after the call did. Holes are not read where there may be some. */
int rf_sent_compare(const struct rf_sent *s, unsigned block, struct rf_run run, bool may_have_holes,
		    struct rf_pages *dirty, struct rf_error *e);

#endif
