// SPDX-License-Identifier: LGPL-2.1-or-later
/* peak-anon PID: watch RssAnon of a process until it ends and print the highest value seen, in bytes. The kernel keeps no high
 * water mark of anonymous memory alone, so it is sampled every 5 ms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long rss_anon_kib(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long kib = -1;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld kB", &kib) == 1)
			break;
	fclose(f);
	return kib; /* a zombie has no such line */
}

int main(int argc, char **argv)
{
	struct timespec pause = {.tv_nsec = 5000000};
	char path[64];
	long now, peak = -1;

	if (argc != 2)
		return 2;
	snprintf(path, sizeof(path), "/proc/%ld/status", strtol(argv[1], NULL, 10));
	while ((now = rss_anon_kib(path)) >= 0) {
		peak = now > peak ? now : peak;
		nanosleep(&pause, NULL);
	}
	printf("%ld\n", peak * 1024);
	return peak < 0;
}
