// SPDX-License-Identifier: LGPL-2.1-or-later
/* Hashes. XXH3 is inlined from libxxhash's header, so that a page costs no call through the linker's table. It is no
 * defence against an attacker who may write guest memory: it finds accidents. */
#include "memory/digest.h"

#include "memory/pages.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t rf_page_hash(const void *page)
{
	uint64_t hash = XXH3_64bits(page, RF_PAGE_BYTES);

	return hash ? hash : 1;
}
