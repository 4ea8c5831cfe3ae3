// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite on a real RDMA device, both sides in this process.
 *
 * usage: test-verbs-suite [ADDRESS]     default: 10.0.0.1
 *
 * The address belongs to the device. It runs inside the VMs of the tests, for hosts seldom have a device to spare. */
#include "tests/unit/fabric/suite.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

struct end {
	struct suite_side *side;
	struct rf_fabric_config config;
	struct rf_uri uri;   /* source: where to */
	struct rf_fabric *f; /* destination: already listening */
	bool connected;
	struct rf_error e;
};

static const char *our_address = "10.0.0.1";

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

	snprintf(here.host, sizeof(here.host), "%s", our_address);
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
	struct rf_fabric_config own = *config;
	pthread_t threads[2];

	own.rdma_retry = 7;
	own.gid_index = -1;
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
	int fd = memfd_create("fabric-test", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)bytes) == 0)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static const struct suite_fabric verbs = {"verbs", run_pair, map, suite_bytes_unmap, suite_bytes_put, suite_bytes_hold};

/* Up to Linux 6.4 soft-RoCE sends from a tasklet on the CPU of the thread that posts, which is held up until its data is
 * out: the message of the control lane cannot even be posted before. */
static bool posting_waits_for_data(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 5));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		our_address = argv[1];
	if (posting_waits_for_data()) {
		printf("this kernel's soft-RoCE lets no control message pass data: that case is left out\n");
		cmocka_set_skip_filter("control does not wait behind data");
	}
	return suite_run(&verbs) ? 1 : 0;
}
