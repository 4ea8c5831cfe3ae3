// SPDX-License-Identifier: LGPL-2.1-or-later
/* Shared by the parts of scatter: the buffers, how their content is checked, the receiving process. */
#ifndef RAMFERRY_BENCH_SCATTER_H
#define RAMFERRY_BENCH_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SCATTER_PAGE = 4096 };
#define SCATTER_BYTES ((size_t)512 << 20)
#define SCATTER_PAGES (SCATTER_BYTES / SCATTER_PAGE)

/* Print a sentence and end the process with 1. */
_Noreturn void scatter_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void scatter_need(bool ok, const char *what); /* or die with errno */

unsigned char *scatter_map(void); /* a new shared mapping that nobody has touched */
uint64_t scatter_random(uint64_t *state);

/* Every page says at both its ends which it is and in which run, so that the copy can be checked cheaply. */
void scatter_stamp(unsigned char *memory, unsigned run);
bool scatter_stamped(const unsigned char *memory, unsigned run);

double scatter_rate(int64_t ns); /* MiB/s of the whole buffer */

/* Run `child` in a process of its own, with one end of a pair of sockets; *fd is the other. */
pid_t scatter_start(void (*child)(int fd, unsigned run), unsigned run, int *fd);
void scatter_end(pid_t pid, int fd); /* wait for it; die when it failed */

/* The two ways. */
double scatter_run_stream(const unsigned char *memory, unsigned run); /* MiB/s */

struct scatter_result {
	double mib_per_second;
	double register_seconds; /* of that time: until the last chunk's key was there */
	unsigned lanes;
};
struct scatter_result scatter_run_fabric(const unsigned char *memory, const uint32_t *order, unsigned lanes,
					 unsigned run); /* lanes 0: as the fabric chooses */

#endif
