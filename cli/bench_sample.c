// SPDX-License-Identifier: LGPL-2.1-or-later
/* What one move told, and what is made of it. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define MS  1e6

size_t rf_cli_stats(void)
{
	size_t n = 0;

	while (rf_stat_name(n))
		n++;
	return n;
}

size_t rf_cli_round_stats(void)
{
	size_t n = 0;

	while (rf_round_stat_name(n))
		n++;
	return n;
}

int rf_cli_sample_take(struct rf_cli_sample *s, const rf_migration *m)
{
	size_t nstats = rf_cli_stats(), nround = rf_cli_round_stats();

	s->nrounds = rf_round_count(m);
	s->stats = calloc(nstats, sizeof(*s->stats));
	s->rounds = calloc(s->nrounds * nround + 1, sizeof(*s->rounds));
	if (!s->stats || !s->rounds) {
		rf_cli_sample_free(s);
		return -1;
	}
	for (size_t i = 0; i < nstats; i++)
		rf_stat(m, rf_stat_name(i), &s->stats[i]);
	for (size_t round = 0; round < s->nrounds; round++)
		for (size_t i = 0; i < nround; i++)
			rf_round_stat(m, round, rf_round_stat_name(i), &s->rounds[round * nround + i]);
	return 0;
}

void rf_cli_sample_free(struct rf_cli_sample *s)
{
	free(s->stats);
	free(s->rounds);
	s->stats = s->rounds = NULL;
}

uint64_t rf_cli_sample_stat(const struct rf_cli_sample *s, const char *name)
{
	for (size_t i = 0; rf_stat_name(i); i++)
		if (!strcmp(rf_stat_name(i), name))
			return s->stats[i];
	return 0;
}

uint64_t rf_cli_sample_round_stat(const struct rf_cli_sample *s, size_t round, const char *name)
{
	for (size_t i = 0; rf_round_stat_name(i) && round < s->nrounds; i++)
		if (!strcmp(rf_round_stat_name(i), name))
			return s->rounds[round * rf_cli_round_stats() + i];
	return 0;
}

/* ---- the metrics --------------------------------------------------------------------------------------------------- */

static double stat_of(const struct rf_cli_sample *s, const char *name)
{
	return (double)rf_cli_sample_stat(s, name);
}

static double per_second(double amount, double ns)
{
	return ns > 0 ? amount * 1e9 / ns : 0;
}

static double total(const struct rf_cli_sample *s)
{
	return stat_of(s, "total_ns") / MS;
}

static double downtime(const struct rf_cli_sample *s)
{
	return stat_of(s, "downtime_ns") / MS;
}

static double predicted(const struct rf_cli_sample *s)
{
	return stat_of(s, "predicted_downtime_ns") / MS;
}

static double throughput(const struct rf_cli_sample *s)
{
	return per_second(stat_of(s, "transferred_bytes"), stat_of(s, "total_ns")) * 8 / 1e6;
}

static double sent(const struct rf_cli_sample *s)
{
	return stat_of(s, "transferred_bytes") / MIB;
}

static double rounds(const struct rf_cli_sample *s)
{
	return (double)s->nrounds;
}

static double first_round(const struct rf_cli_sample *s)
{
	return (double)rf_cli_sample_round_stat(s, 0, "bytes_per_second") / MIB;
}

static double final_pass(const struct rf_cli_sample *s)
{
	return stat_of(s, "final_bytes_per_second") / MIB;
}

static double final_pass_size(const struct rf_cli_sample *s)
{
	return s->nrounds ? (double)rf_cli_sample_round_stat(s, s->nrounds - 1, "bytes") / MIB : 0;
}

static double registrations(const struct rf_cli_sample *s)
{
	return stat_of(s, "registrations");
}

static double wait_key(const struct rf_cli_sample *s)
{
	return stat_of(s, "wait_key_ns") / MS;
}

static double guest_wrote(const struct rf_cli_sample *s)
{
	return per_second((double)s->outcome.written_bytes, (double)s->outcome.ran_ns) / MIB;
}

static double cpu(const struct rf_cli_sample *s)
{
	return (double)s->outcome.cpu_ns / MS;
}

enum {
	CHUNKS = 1 << RF_CLI_CHUNK_SIZE,
	FLIGHT = 1 << RF_CLI_IN_FLIGHT,
	CONVERGE = 1 << RF_CLI_CONVERGE,
	ROUNDS = 1 << RF_CLI_ROUNDS,
	ANY = CHUNKS | FLIGHT | CONVERGE | ROUNDS,
};

const struct rf_cli_metric rf_cli_metrics[] = {
    {"total_ms", {"total", "ms"}, 0, ANY, total},
    {"downtime_ms", {"downtime", "ms"}, 1, ANY, downtime},
    {"predicted_downtime_ms", {"predicted", "ms"}, 1, CONVERGE, predicted},
    {"throughput_mbit_per_s", {"throughput", "Mbit/s"}, 0, CHUNKS, throughput},
    {"sent_mib", {"sent", "MiB"}, 0, ANY, sent},
    {"rounds", {"rounds", ""}, 0, CONVERGE | ROUNDS, rounds},
    {"first_round_mib_per_s", {"first round", "MiB/s"}, 0, FLIGHT | ROUNDS, first_round},
    {"final_pass_mib_per_s", {"final pass", "MiB/s"}, 1, FLIGHT, final_pass},
    {"final_pass_mib", {"final pass", "MiB"}, 1, FLIGHT | CONVERGE, final_pass_size},
    {"registrations", {"regis-", "trations"}, 0, CHUNKS, registrations},
    {"wait_key_ms", {"key waits", "ms"}, 1, CHUNKS, wait_key},
    {"guest_wrote_mib_per_s", {"guest wrote", "MiB/s"}, 1, CHUNKS | CONVERGE | ROUNDS, guest_wrote},
    {"cpu_ms", {"CPU", "ms"}, 0, 0, cpu},
    {NULL, {NULL, NULL}, 0, 0, NULL},
};

const struct rf_cli_metric *rf_cli_metric(const char *name)
{
	const struct rf_cli_metric *metric = rf_cli_metrics;

	while (metric->name && strcmp(metric->name, name))
		metric++;
	return metric->name ? metric : NULL;
}

/* ---- several runs -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct rf_cli_spread rf_cli_point_spread(const struct rf_cli_point *p, const struct rf_cli_metric *metric)
{
	double sorted[RF_CLI_RUNS_MAX];
	size_t n = p->nsamples;

	if (!n)
		return (struct rf_cli_spread){0, 0, 0};
	for (size_t i = 0; i < n; i++)
		sorted[i] = metric->of(&p->samples[i]);
	qsort(sorted, n, sizeof(*sorted), compare);
	return (struct rf_cli_spread){
	    .median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
	    .minimum = sorted[0],
	    .maximum = sorted[n - 1],
	};
}

const struct rf_cli_sample *rf_cli_point_middle(const struct rf_cli_point *p)
{
	for (size_t i = 0; i < p->nsamples; i++) {
		size_t before = 0;

		for (size_t j = 0; j < p->nsamples; j++) {
			double x = total(&p->samples[i]), y = total(&p->samples[j]);

			before += y < x || (y == x && j < i);
		}
		if (before == (p->nsamples - 1) / 2)
			return &p->samples[i];
	}
	return NULL;
}

/* ---- the host ------------------------------------------------------------------------------------------------------ */

/* The processor's name as the kernel gives it; not every architecture has one. */
static void name_cpu(char *name, size_t length)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];

	snprintf(name, length, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, length, "%s", colon);
		break;
	}
	if (f)
		fclose(f);
}

void rf_cli_host_look(struct rf_cli_host *host)
{
	struct utsname u = {0};

	uname(&u);
	snprintf(host->kernel, sizeof(host->kernel), "%s", u.release);
	snprintf(host->machine, sizeof(host->machine), "%s", u.machine);
	name_cpu(host->cpu, sizeof(host->cpu));
	host->cpus = sysconf(_SC_NPROCESSORS_ONLN);
	host->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}
