// SPDX-License-Identifier: LGPL-2.1-or-later
/* XXH3-128 of a range of pages. */
#ifndef RAMFERRY_MEMORY_DIGEST_H
#define RAMFERRY_MEMORY_DIGEST_H

#include <stdint.h>

struct rf_digest {
	uint64_t low, high;
};

/* 64-bit hash of one 4 KiB page, for the hash tracker. Never 0. */
uint64_t rf_page_hash(const void *page);

#endif
