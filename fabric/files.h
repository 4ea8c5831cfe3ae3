// SPDX-License-Identifier: LGPL-2.1-or-later
/* Which memory is which file. Moving data from a socket into a file on tmpfs costs the CPU a good deal less than into a
 * mapping of it: nothing is zeroed first, no page fault is taken, and page tables stay small. (The other way, sendfile
 * instead of sendmsg, was tried and costs more: the receiver then gets its bytes in pieces of 4 KiB.)
 *
 * The kernel lets in one writer of a file at a time, and who has to wait burns a CPU while the other copies. So lanes take
 * turns by a lock of ours, which lets the CPU do something else: an eighth less time and CPU for two lanes on two CPUs. */
#ifndef RAMFERRY_FABRIC_FILES_H
#define RAMFERRY_FABRIC_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	RF_FILES_MAX = 64,
	RF_FILE_LANES_MAX = 2,
	RF_FILE_PIECE_BYTES = 64 << 10 /* shorter pieces go through the mapping */
};

struct rf_file {
	uint64_t address, length; /* of the mapping */
	int fd;                   /* not ours */
	uint64_t offset;          /* of the mapping's first byte */
	pthread_mutex_t turn;     /* to write to it */
};

/* Filled by one thread, read by any. What does not fit is not known, and goes through the mapping. */
struct rf_files {
	atomic_uint count;
	struct rf_file files[RF_FILES_MAX];
};

void rf_files_add(struct rf_files *files, const void *address, uint64_t length, int fd, uint64_t offset);

void rf_files_close(struct rf_files *files); /* nobody uses them any more */

/* The file that all of [address, address + length) is a mapping of, or NULL. */
struct rf_file *rf_files_find(struct rf_files *files, uint64_t address, uint64_t length);

/* From socket to file by way of a pipe, without a copy to user space. */
struct rf_splice {
	int pipe[2];
	int useless; /* tried in vain: this kernel or file system cannot */
};

void rf_splice_open(struct rf_splice *s); /* without a pipe it is useless, which is no error */
void rf_splice_close(struct rf_splice *s);

/* Up to `length` bytes to `memory`, which is a mapping of `file`. How many; 0 the peer has ended; -1 errno, with
 * s->useless set when nothing was taken from the socket and it should be read in another way. */
ssize_t rf_splice_in(struct rf_splice *s, int socket, struct rf_file *file, void *memory, size_t length);

#endif
