// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite's view of verbs: both sides in this process, over the device that has verbs_address. */
#include "tests/rdma/verbs_pair.h"

#include "tests/unit/fabric/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

struct end {
	struct suite_side *side;
	struct rf_fabric_config config;
	struct rf_uri uri;   /* source: where to */
	struct rf_fabric *f; /* destination: already listening */
	bool connected;
	struct rf_error e;
};

static void *source_main(void *arg)
{
	struct end *end = arg;

	if (rf_fabric_verbs.open(&end->config, &end->f, &end->e) < 0)
		return NULL;
	end->connected = end->f->ops->connect(end->f, &end->uri, &end->e) == 0;
	if (end->connected)
		suite_side_run(end->side, end->f);
	end->f->ops->close(end->f);
	return NULL;
}

static void *destination_main(void *arg)
{
	struct end *end = arg;

	end->connected = end->f->ops->accept(end->f, end->config.connect_timeout_ns, &end->e) == 0;
	if (end->connected)
		suite_side_run(end->side, end->f);
	end->f->ops->close(end->f);
	return NULL;
}

static bool start_listening(struct end *destination, struct rf_uri *where)
{
	struct rf_uri here = {.scheme = "rdma"};
	char text[300];

	snprintf(here.host, sizeof(here.host), "%s", verbs_address);
	if (rf_fabric_verbs.open(&destination->config, &destination->f, &destination->e) < 0)
		return false;
	if (destination->f->ops->listen(destination->f, &here, &destination->e) == 0 &&
	    destination->f->ops->address(destination->f, text, sizeof(text), &destination->e) == 0 &&
	    rf_uri_parse(text, where, &destination->e) == 0)
		return true;
	destination->f->ops->close(destination->f);
	return false;
}

static bool run_pair(const struct suite_fabric *on, const struct rf_fabric_config *config, struct suite_side *source,
		     struct suite_side *destination)
{
	struct rf_fabric_config own = *config, ours = verbs_config();
	pthread_t threads[2];

	own.rdma_retry = ours.rdma_retry;
	own.gid_index = ours.gid_index;
	struct end ends[2] = {{.side = source, .config = own}, {.side = destination, .config = own}};

	if (!start_listening(&ends[1], &ends[0].uri)) {
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
static void *map(const struct suite_fabric *on, size_t bytes)
{
	return verbs_map(bytes, PROT_READ | PROT_WRITE, NULL);
}

const struct suite_fabric verbs_suite_fabric = {"verbs",           run_pair,        map,
						suite_bytes_unmap, suite_bytes_put, suite_bytes_hold};
