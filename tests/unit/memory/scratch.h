// SPDX-License-Identifier: LGPL-2.1-or-later
/* Guests for the tests of memory/: a memfd, a mapping that plays the guest's, and a block on the same file. */
#ifndef RAMFERRY_TESTS_MEMORY_SCRATCH_H
#define RAMFERRY_TESTS_MEMORY_SCRATCH_H

#include "memory/tracker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct scratch {
	int fd;
	uint64_t npages;
	char *memory; /* as the guest sees it: writable, shared */
	struct rf_guest *guest;
	struct rf_block *block;
};

/* A guest with one block "ram" of that many pages, all holes. `ops` NULL: it does nothing. */
void scratch_open(struct scratch *s, uint64_t npages, const struct rf_lifecycle_ops *ops, void *ctx);

/* The same of huge pages of 2 MiB. False, with the reason printed: none can be had. */
bool scratch_open_huge(struct scratch *s, uint64_t huge_pages);

/* The same of pages of 4 KiB that the kernel maps as transparent huge pages. */
bool scratch_open_transparent(struct scratch *s, uint64_t huge_pages);
void scratch_close(struct scratch *s);

static inline char *scratch_page(const struct scratch *s, uint64_t page)
{
	return s->memory + (page << RF_PAGE_SHIFT);
}

/* One write of the guest's to that page. */
void scratch_touch(const struct scratch *s, uint64_t page, char value);
void scratch_punch(const struct scratch *s, uint64_t page, uint64_t count);
uint64_t scratch_allocated(const struct scratch *s); /* bytes of the file */

uint64_t resident_anon_kib(void); /* of this process */

/* "3 5-8 100": the set as text, in a static buffer. */
const char *set_text(const struct rf_pages *p);

#define assert_set(pages, text) assert_string_equal(set_text(pages), text)

/* Call, expect 0; on failure show the sentence. */
#define assert_good(call, e)                       \
	do {                                       \
		if (call)                          \
			fail_msg("%s", (e)->text); \
	} while (0)

/* Expect -1 and a sentence that contains `part`. */
#define assert_fails(call, e, part)                                                  \
	do {                                                                         \
		assert_int_equal(call, -1);                                          \
		if (!strstr((e)->text, part))                                        \
			fail_msg("\"%s\" does not contain \"%s\"", (e)->text, part); \
	} while (0)

#endif
