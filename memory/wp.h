// SPDX-License-Identifier: LGPL-2.1-or-later
/* Write-protect-async tracking of one address range, below the tracker: track_wp.c and its probe share it. */
#ifndef RAMFERRY_MEMORY_WP_H
#define RAMFERRY_MEMORY_WP_H

#include "memory/guest.h"

/* Agree with the kernel on the features for a fresh userfaultfd. */
int rf_wp_handshake(int userfaultfd, struct rf_error *e);

/* Put [address, address + length) of the userfaultfd's process under tracking. Nothing is protected yet: every page
 * counts as written until it is collected for the first time. */
int rf_wp_register(int userfaultfd, uint64_t address, uint64_t length, struct rf_error *e);

/* Add to `dirty` (NULL: throw away) what was written in the slice of the block mapped at `address`; protect it again. */
int rf_wp_collect(int pagemap, uint64_t address, struct rf_run slice, struct rf_pages *dirty, struct rf_error *e);

/* Is all of the slice mapped and under tracking? */
int rf_wp_check(int pagemap, uint64_t address, struct rf_run slice, struct rf_error *e);

/* End tracking. Harmless where there is none, and when the process is gone. */
void rf_wp_unregister(int userfaultfd, uint64_t address, uint64_t length);

/* Does this kernel do all of the above? Tried on a scratch page. Changes nothing outside. */
int rf_wp_self_test(struct rf_error *why);

#endif
