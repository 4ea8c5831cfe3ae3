// SPDX-License-Identifier: LGPL-2.1-or-later
/* First touch of shared memory is slower than any network, so the destination's pages are made before their data comes.
 * Nobody's bytes change: the pages may hold data already. */
#include "fabric/tcp.h"

#include "common/checked.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PIECE_BYTES = 4 << 20 }; /* about 10 ms: as long as close() may have to wait for it */

/* Kernels before 5.14. An atomic addition of 0 is a write that cannot undo somebody else's. */
static void touch(unsigned char *start, uint64_t length, uint64_t page)
{
	for (uint64_t offset = 0; offset < length; offset += page)
		__atomic_fetch_add(start + offset, 0, __ATOMIC_RELAXED);
}

/* EINVAL means an old kernel, or a mapping that may not be written to: one page of our own tells which. */
static bool kernel_knows_advice(uint64_t page)
{
	void *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (own == MAP_FAILED)
		return true;
	bool known = madvise(own, page, MADV_POPULATE_WRITE) == 0 || errno != EINVAL;

	munmap(own, page);
	return known;
}

int rf_populate(void *address, uint64_t length, const atomic_bool *stop)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	bool advice_known = true;

	for (uint64_t done = 0; done < length && !atomic_load(stop);) {
		unsigned char *start = (unsigned char *)address + done;
		uint64_t piece = rf_min_u64(length - done, PIECE_BYTES);

		if (advice_known && madvise(start, piece, MADV_POPULATE_WRITE) < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			int err = errno;

			if (err != EINVAL)
				return err;
			if (kernel_knows_advice(page))
				return EACCES;
			advice_known = false;
		}
		if (!advice_known)
			touch(start, piece, page);
		done += piece;
	}
	return 0;
}
