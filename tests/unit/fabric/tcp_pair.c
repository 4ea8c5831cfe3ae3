// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/fabric/tcp_pair.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct end {
	struct suite_side *side;
	const struct rf_fabric_config *config;
	struct rf_uri uri;   /* source: where to */
	struct rf_fabric *f; /* destination: already listening */
	bool connected;
	struct rf_error e;
};

/* The fabric of the role that runs on this thread. */
static _Thread_local struct rf_fabric *ours;

static void *source_main(void *arg)
{
	struct end *end = arg;

	if (rf_fabric_tcp.open(end->config, &end->f, &end->e) < 0)
		return NULL;
	end->connected = end->f->ops->connect(end->f, &end->uri, &end->e) == 0;
	ours = end->f;
	if (end->connected)
		suite_side_run(end->side, end->f);
	end->f->ops->close(end->f);
	return NULL;
}

static void *destination_main(void *arg)
{
	struct end *end = arg;

	end->connected = end->f->ops->accept(end->f, end->config->connect_timeout_ns, &end->e) == 0;
	ours = end->f;
	if (end->connected)
		suite_side_run(end->side, end->f);
	end->f->ops->close(end->f);
	return NULL;
}

static bool listen_at_loopback(struct end *destination, struct rf_uri *where)
{
	struct rf_uri any = {.scheme = "tcp", .host = "127.0.0.1"};
	char text[300];

	if (rf_fabric_tcp.open(destination->config, &destination->f, &destination->e) < 0)
		return false;
	if (destination->f->ops->listen(destination->f, &any, &destination->e) == 0 &&
	    destination->f->ops->address(destination->f, text, sizeof(text), &destination->e) == 0 &&
	    rf_uri_parse(text, where, &destination->e) == 0)
		return true;
	destination->f->ops->close(destination->f);
	return false;
}

static bool run_pair(const struct suite_fabric *on, const struct rf_fabric_config *config, struct suite_side *source,
		     struct suite_side *destination)
{
	struct end ends[2] = {{.side = source, .config = config}, {.side = destination, .config = config}};
	pthread_t threads[2];

	if (!listen_at_loopback(&ends[1], &ends[0].uri)) {
		fprintf(stderr, "%s\n", ends[1].e.text);
		return false;
	}
	pthread_create(&threads[0], NULL, source_main, &ends[0]);
	pthread_create(&threads[1], NULL, destination_main, &ends[1]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		if (!ends[i].connected)
			fprintf(stderr, "%s\n", ends[i].e.text);
	return ends[0].connected && ends[1].connected;
}

/* Shared memory, as a guest's is. */
static void *map_fd(size_t bytes, int *fd)
{
	void *p = MAP_FAILED;

	*fd = memfd_create("fabric-test", MFD_CLOEXEC);
	if (*fd >= 0 && ftruncate(*fd, (off_t)bytes) == 0)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static void *map(const struct suite_fabric *on, size_t bytes)
{
	int fd;
	void *p = map_fd(bytes, &fd);

	if (fd >= 0)
		close(fd);
	return p;
}

/* The same, and the fabric knows the file. It stays open, for the fabric may outlive the mapping. */
static void *map_and_tell(const struct suite_fabric *on, size_t bytes)
{
	int fd;
	void *p = map_fd(bytes, &fd);

	if (p && ours)
		ours->ops->file(ours, p, bytes, fd, 0);
	return p;
}

const struct suite_fabric tcp_suite_fabric = {"tcp",           run_pair,        map, suite_bytes_unmap,
					      suite_bytes_put, suite_bytes_hold};
const struct suite_fabric tcp_file_suite_fabric = {"tcp, into files", run_pair,        map_and_tell,
						   suite_bytes_unmap, suite_bytes_put, suite_bytes_hold};
