// SPDX-License-Identifier: LGPL-2.1-or-later
/* Is a page all zero? */
#ifndef RAMFERRY_MEMORY_ZERO_H
#define RAMFERRY_MEMORY_ZERO_H

#include <stdbool.h>

/* `page` is 4 KiB long and aligned to 32 bytes. Reads while somebody writes to it give an answer of some moment. */
bool rf_page_is_zero(const void *page);

#endif
