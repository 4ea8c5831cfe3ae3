// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/rdma/verbs_pair.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(20000000000)

const char *verbs_address = "10.0.0.1";
char verbs_log[4000];

/* Fabrics log from the thread that drives them; tests that look at the log wait for that thread first. */
static void keep(void *arg, enum rf_log_level level, const char *sentence)
{
	size_t length = strlen(verbs_log);

	snprintf(verbs_log + length, sizeof(verbs_log) - length, "%s\n", sentence);
}

bool verbs_have_device(void)
{
	struct rf_error e;
	char text[300];

	if (rf_fabric_verbs.probe(text, sizeof(text), &e) == 0)
		return true;
	printf("skipped: %s\n", e.text);
	return false;
}

struct rf_fabric_config verbs_config(void)
{
	static const struct rf_log log = {.write = keep};

	return (struct rf_fabric_config){
	    .connect_timeout_ns = PATIENCE_NS, .log = &log, .rdma_retry = 7, .gid_index = -1};
}

static struct rf_fabric *listen_with(const struct rf_fabric_config *config, struct rf_uri *where, struct rf_error *e)
{
	struct rf_uri here = {.scheme = "rdma"};
	struct rf_fabric *f;
	char text[300];

	snprintf(here.host, sizeof(here.host), "%s", verbs_address);
	if (rf_fabric_verbs.open(config, &f, e) < 0)
		return NULL;
	if (f->ops->listen(f, &here, e) == 0 && f->ops->address(f, text, sizeof(text), e) == 0 &&
	    rf_uri_parse(text, where, e) == 0)
		return f;
	f->ops->close(f);
	return NULL;
}

struct rf_fabric *verbs_listen(struct rf_uri *where, struct rf_error *e)
{
	struct rf_fabric_config config = verbs_config();

	return listen_with(&config, where, e);
}

static void *accept_main(void *arg)
{
	struct verbs_pair *p = arg;

	return p->destination->ops->accept(p->destination, PATIENCE_NS, &p->e) == 0 ? p : NULL;
}

bool verbs_pair_open(struct verbs_pair *p, const struct rf_fabric_config *config)
{
	struct rf_uri where;
	struct rf_error e = {0};
	pthread_t thread;
	void *accepted;

	*p = (struct verbs_pair){0};
	p->destination = listen_with(config, &where, &p->e);
	if (!p->destination)
		return false;
	if (rf_fabric_verbs.open(config, &p->source, &p->e) < 0)
		return false;
	pthread_create(&thread, NULL, accept_main, p);
	bool connected = p->source->ops->connect(p->source, &where, &e) == 0;

	if (!connected)
		p->destination->ops->wake(p->destination);
	pthread_join(thread, &accepted);
	if (!connected)
		p->e = e;
	return connected && accepted;
}

void verbs_pair_close(struct verbs_pair *p)
{
	if (p->source)
		p->source->ops->close(p->source);
	if (p->destination)
		p->destination->ops->close(p->destination);
	*p = (struct verbs_pair){0};
}

bool verbs_await(struct rf_fabric *f, enum rf_event_kind kind, struct rf_event *event)
{
	int64_t deadline = f->ops->now(f) + PATIENCE_NS;

	while (f->ops->now(f) < deadline)
		if (f->ops->poll(f, event, 1, deadline - f->ops->now(f)) == 1 && event->kind == kind)
			return true;
	return false;
}

void *verbs_map(size_t bytes, int rights, int *fd)
{
	int own = memfd_create("verbs-test", MFD_CLOEXEC);
	void *p = MAP_FAILED;

	if (own >= 0 && ftruncate(own, (off_t)bytes) == 0)
		p = mmap(NULL, bytes, rights, MAP_SHARED, own, 0);
	if (fd)
		*fd = own;
	else
		close(own);
	return p == MAP_FAILED ? NULL : p;
}
