// SPDX-License-Identifier: LGPL-2.1-or-later
/* A process moves its own memory to another process while a thread keeps writing to it.
 *
 *     cc -o two 01-two-processes.c $(pkg-config --cflags --libs ramferry) -pthread && ./two
 *
 * The "guest" is a thread that adds 1 to the counter in some page and 1 to a total, which is its device state. If all
 * counters together make the total at the other side, too, then memory and state came from the same moment. */
#define _GNU_SOURCE 1 /* memfd_create() */
#include <ramferry.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 8192, PAGE = 4096 };

struct machine {
	const char *who;
	unsigned long long (*memory)[PAGE / 8]; /* shared; a counter stands at the start of each page */
	int fd, port_to;                        /* the receiver tells its port there */
	unsigned long long total, arrived;
	pthread_t thread;
	atomic_int running;
};

static void *count(void *arg)
{
	struct machine *m = arg;

	for (; atomic_load(&m->running); m->total++) {
		++m->memory[m->total * 2654435761u % PAGES][0];
		if (m->total % 64 == 0)
			usleep(1000); /* slower than the memory can be sent, or the move would not end */
	}
	return NULL;
}

/* What the library asks of a guest. Each call may fail with a sentence in `why`. */
static int on_resume(void *ctx, int run, char *why, size_t why_length)
{
	struct machine *m = ctx;

	if (!run || atomic_exchange(&m->running, 1))
		return 0;
	return pthread_create(&m->thread, NULL, count, m) ? -1 : 0;
}

static int on_pause(void *ctx, int *was_running, char *why, size_t why_length)
{
	struct machine *m = ctx;
	*was_running = atomic_exchange(&m->running, 0);
	return *was_running ? pthread_join(m->thread, NULL) : 0;
}

static int on_undo(void *ctx, char *why, size_t why_length)
{
	return on_resume(ctx, 1, why, why_length);
}

static int on_save(void *ctx, int (*write)(void *, const void *, size_t), void *sink, char *why, size_t why_length)
{
	return write(sink, &((struct machine *)ctx)->total, sizeof(unsigned long long));
}

static int on_load(void *ctx, const void *state, size_t length, char *why, size_t why_length)
{
	struct machine *m = ctx;
	unsigned long long sum = 0;

	memcpy(&m->total, state, length < sizeof(m->total) ? length : sizeof(m->total));
	m->arrived = m->total;
	for (uint64_t page = 0; page < PAGES; page++)
		sum += m->memory[page][0];
	printf("%s: total %llu, sum of all counters %llu\n", m->who, m->total, sum);
	return sum == m->total ? 0 : (snprintf(why, why_length, "memory and state do not fit"), -1);
}

static void on_log(void *arg, rf_log_severity severity, const char *sentence)
{
	struct machine *m = arg;
	if (severity != RF_DEBUG)
		printf("%s: %s\n", m->who, sentence);
	if (!strncmp(sentence, "listening at ", 13))
		dprintf(m->port_to, "%s", strrchr(sentence, ':') + 1);
}

/* One side of the move: a guest made of the machine, and a migration of it. */
static rf_result migrate(struct machine *m, const char *uri, rf_result (*move)(rf_migration *, const char *))
{
	static const rf_guest_ops ops = {.size = sizeof(ops),
					 .pause = on_pause,
					 .save = on_save,
					 .load = on_load,
					 .resume = on_resume,
					 .undo = on_undo};
	rf_guest *guest = rf_guest_new(&ops, m);
	rf_migration *migration = rf_migration_new(guest);
	uint64_t downtime = 0;
	char why[200];
	rf_result result = rf_guest_add_block(guest, "memory", m->memory, PAGES * PAGE, m->fd, 0, why, sizeof(why));
	rf_guest_set_discarder(guest, NULL); /* nothing here gives memory back */
	rf_on_log(migration, on_log, m);
	if (result == RF_OK)
		result = move(migration, uri);
	rf_stat(migration, "downtime_ns", &downtime);
	if (result != RF_OK)
		printf("%s: %s\n", m->who, rf_error(migration));
	else if (move == rf_send)
		printf("%s: it stood still for %.1f ms\n", m->who, (double)downtime / 1e6);
	rf_migration_free(migration);
	rf_guest_free(guest);
	return result;
}

int main(void)
{
	struct machine m = {.who = "sender"};
	int ports[2], status, was_running;
	pid_t receiver;
	char uri[64] = "tcp://127.0.0.1:";

	if (pipe(ports) || (receiver = fork()) < 0)
		return 1;
	if (receiver == 0)
		m = (struct machine){.who = "receiver", .port_to = ports[1]};
	close(ports[receiver ? 1 : 0]);
	m.fd = memfd_create("memory", MFD_CLOEXEC);
	if (ftruncate(m.fd, PAGES * PAGE))
		return 1;
	m.memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	if (receiver == 0) {
		status = migrate(&m, "tcp://127.0.0.1:0", rf_receive) != RF_OK;
		usleep(200000); /* let it count */
		on_pause(&m, &was_running, NULL, 0);
		printf("receiver: went on from %llu to %llu\n", m.arrived, m.total);
		return status || m.total <= m.arrived;
	}
	on_resume(&m, 1, NULL, 0);
	status = read(ports[0], uri + strlen(uri), 8) <= 0 || migrate(&m, uri, rf_send) != RF_OK;
	if (status)
		kill(receiver, SIGTERM);
	on_pause(&m, &was_running, NULL, 0);
	waitpid(receiver, &receiver, 0);
	return status || receiver;
}
