// SPDX-License-Identifier: LGPL-2.1-or-later
/* still-guest send URI MIB PAGES [OPTION=VALUE...]: move a guest that does nothing but write PAGES scattered pages when it is paused.
 * still-guest receive URI MIB: get it.
 *
 * So round 0 is all of its memory, and the final pass is PAGES writes of 4 KiB: each can be timed by itself, which no real guest
 * allows. The sender prints "NAME VALUE" for each statistic that bench/rdma-wire wants; either side prints the CPU
 * time that the move took it, and last the sum of its memory: both sums must be the same. */
#include "ramferry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGE = 4096 };

struct still {
	uint64_t (*memory)[PAGE / 8];
	uint64_t pages, scattered;
};

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

static int on_pause(void *ctx, int *was_running, char *why, size_t why_length)
{
	struct still *g = ctx;

	*was_running = 1;
	/* An odd stride meets every page once before it meets one twice. */
	for (uint64_t i = 0; i < g->scattered; i++)
		g->memory[i * 2654435761u % g->pages][i % (PAGE / 8)] = mix(i + 1);
	return 0;
}

static int on_resume(void *ctx, int run, char *why, size_t why_length)
{
	return 0;
}

static void print_sum(const struct still *g)
{
	uint64_t sum = 0;

	for (uint64_t page = 0; page < g->pages; page++)
		for (unsigned word = 0; word < PAGE / 8; word++)
			sum = mix(sum + g->memory[page][word]);
	printf("sum %" PRIx64 "\n", sum);
}

static long long cpu_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
	       used.ru_stime.tv_usec;
}

static void print_stat(const rf_migration *m, const char *name)
{
	uint64_t value = 0;

	if (rf_stat(m, name, &value) == 0)
		printf("%s %" PRIu64 "\n", name, value);
}

static void print_figures(const rf_migration *m)
{
	static const char *const names[] = {"total_ns",      "downtime_ns",  "downtime_final_pass_ns",
					    "normal_bytes",  "normal_pages", "wait_key_ns",
					    "registrations", "doorbells",    "completions"};
	uint64_t value = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		print_stat(m, names[i]);
	rf_round_stat(m, 0, "duration_ns", &value);
	printf("round0_ns %" PRIu64 "\n", value);
	rf_round_stat(m, 0, "bytes", &value);
	printf("round0_bytes %" PRIu64 "\n", value);
}

static int fill(struct still *g, uint64_t mib, int fd)
{
	g->pages = mib << 8;
	if (fd < 0 || ftruncate(fd, (off_t)(g->pages * PAGE)))
		return -1;
	g->memory = mmap(NULL, g->pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return g->memory == MAP_FAILED ? -1 : 0;
}

static int move(struct still *g, int fd, int argc, char **argv, int options)
{
	static const rf_guest_ops ops = {.size = sizeof(ops), .pause = on_pause, .resume = on_resume};
	int sends = strcmp(argv[1], "send") == 0;
	rf_guest *guest = rf_guest_new(&ops, g);
	rf_migration *m = rf_migration_new(guest);
	char why[200] = "no memory";
	rf_result r = RF_FAILED;

	if (guest && m)
		r = rf_guest_add_block(guest, "memory", g->memory, g->pages * PAGE, fd, 0, why, sizeof(why));
	rf_guest_set_discarder(guest, NULL);
	for (int i = options; i < argc && r == RF_OK; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = '\0';
		r = rf_set(m, argv[i], value ? value : "on");
	}
	long long before = cpu_us();

	if (r == RF_OK)
		r = sends ? rf_send(m, argv[2]) : rf_receive(m, argv[2]);
	if (r != RF_OK)
		fprintf(stderr, "still-guest: %s\n", m && *rf_error(m) ? rf_error(m) : why);
	else if (sends)
		print_figures(m);
	rf_migration_free(m);
	rf_guest_free(guest);
	if (r == RF_OK)
		printf("cpu_us %lld\n", cpu_us() - before);
	return (int)r;
}

int main(int argc, char **argv)
{
	int sends = argc >= 5 && strcmp(argv[1], "send") == 0;
	int receives = argc == 4 && strcmp(argv[1], "receive") == 0;
	int fd = memfd_create("still-guest", MFD_CLOEXEC);
	struct still g = {0};

	if (!sends && !receives) {
		fprintf(stderr,
			"usage: still-guest send URI MIB PAGES [OPTION=VALUE...] | still-guest receive URI MIB\n");
		return 2;
	}
	if (fill(&g, strtoull(argv[3], NULL, 10), fd)) {
		perror("still-guest: no memory");
		return 1;
	}
	if (sends) {
		g.scattered = strtoull(argv[4], NULL, 10);
		for (uint64_t i = 0; i < g.pages * (PAGE / 8); i++)
			g.memory[0][i] = mix(i + 7);
	}
	int status = move(&g, fd, argc, argv, sends ? 5 : 4);

	if (status == 0)
		print_sum(&g);
	return status;
}
