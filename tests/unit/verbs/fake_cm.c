// SPDX-License-Identifier: LGPL-2.1-or-later
/* The connection manager: who listens, who asks, what each is told. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the libraries' own names are not ours
#include "tests/unit/verbs/fake.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REASON_NO_SERVICE = 8, REASON_BY_PEER = 28, ANSWER_BYTES = 196 };

struct event {
	struct rdma_cm_event event; /* first */
	struct event *next;
	uint8_t data[256];
};

struct channel {
	struct rdma_event_channel channel; /* first */
	struct event *first;
};

static struct fake_id *ids;
static uint16_t next_port = 20000;

static struct {
	enum rdma_cm_event_type type; /* 0: nothing in particular */
	int status;
	uint8_t data[256];
	size_t length;
} answer;

static struct {
	int result;
	uint8_t data[256];
	size_t length;
} knock;

void fake_answer(enum rdma_cm_event_type type, int status, const void *data, size_t length)
{
	answer.type = type;
	answer.status = status;
	answer.length = length;
	if (length)
		memcpy(answer.data, data, length);
}

static void tell(struct fake_id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type, int status,
		 const void *data, size_t length, size_t padded)
{
	struct channel *c = (struct channel *)(listener ? listener : &id->id)->channel;
	struct event *e = calloc(1, sizeof(*e)), **at = &c->first;

	assert(e && length <= sizeof(e->data));
	e->event = (struct rdma_cm_event){.id = &id->id, .listen_id = listener, .event = type, .status = status};
	if (length)
		memcpy(e->data, data, length);
	if (padded) {
		e->event.param.conn.private_data = e->data;
		e->event.param.conn.private_data_len = (uint8_t)padded;
	}
	while (*at)
		at = &(*at)->next;
	*at = e;
	fake_ring(c->channel.fd);
}

/* ---- channels ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *c = fake.sees_no_manager ? NULL : calloc(1, sizeof(*c));

	if (!c) {
		errno = ENOENT;
		return NULL;
	}
	c->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	pthread_mutex_lock(&fake_lock);
	fake.things++;
	pthread_mutex_unlock(&fake_lock);
	return &c->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *c = (struct channel *)channel;

	pthread_mutex_lock(&fake_lock);
	for (struct fake_id *id = ids; id; id = id->next)
		assert(id->id.channel != channel);
	assert(!c->first);
	fake.things--;
	pthread_mutex_unlock(&fake_lock);
	close(channel->fd);
	free(c);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct channel *c = (struct channel *)channel;
	uint64_t count;

	if (read(channel->fd, &count, sizeof(count)) != sizeof(count))
		return -1;
	pthread_mutex_lock(&fake_lock);
	struct event *e = c->first;

	if (e)
		c->first = e->next;
	pthread_mutex_unlock(&fake_lock);
	if (!e)
		return -1; /* it went with its id */
	*out = &e->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	free(event);
	return 0;
}

/* ---- ids ---- */

static struct fake_id *new_id(struct rdma_event_channel *channel)
{
	struct fake_id *id = calloc(1, sizeof(*id));

	assert(id);
	id->id.channel = channel;
	id->next = ids;
	ids = id;
	fake.things++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps)
{
	assert(ps == RDMA_PS_TCP);
	pthread_mutex_lock(&fake_lock);
	*out = &new_id(channel)->id;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

void fake_disconnected_locked(struct fake_id *id)
{
	if (id->connected && !id->knocker)
		tell(id, NULL, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0, 0);
	id->connected = false;
}

static void part(struct fake_id *id)
{
	struct fake_id *peer = id->peer;

	id->peer = NULL;
	if (!peer)
		return;
	peer->peer = NULL;
	fake_disconnected_locked(peer);
	if (peer->knocker && !peer->gone) { /* nobody else owns it */
		peer->gone = true;
		knock.result = knock.result ? knock.result : 2;
	}
}

static void unlink_id(struct fake_id *id)
{
	struct fake_id **at = &ids;

	while (*at != id)
		at = &(*at)->next;
	*at = id->next;
	fake.things--;
}

static void forget_events(struct fake_id *id)
{
	struct channel *c = (struct channel *)id->id.channel;

	for (struct event **at = c ? &c->first : NULL; at && *at;) {
		struct event *e = *at;

		if (e->event.id != &id->id) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		free(e);
	}
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *f = (struct fake_id *)id;

	pthread_mutex_lock(&fake_lock);
	assert(!id->qp);
	/* Whoever asked and was not answered yet hears it now. */
	if (f->peer && !f->connected && !f->peer->connected && !f->peer->knocker)
		tell(f->peer, NULL, RDMA_CM_EVENT_REJECTED, REASON_BY_PEER, NULL, 0, 148);
	part(f);
	unlink_id(f);
	forget_events(f);
	pthread_mutex_unlock(&fake_lock);
	free(f);
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	return 0;
}

static void set_port(struct sockaddr *a, uint16_t port)
{
	((struct sockaddr_in *)a)->sin_port = htons(port);
}

/* All addresses in the tests are IPv4. */
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *a)
{
	struct fake_id *f = (struct fake_id *)id;
	uint16_t port = ntohs(((struct sockaddr_in *)a)->sin_port);

	if (a->sa_family != AF_INET) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	memcpy(&id->route.addr.src_storage, a, sizeof(struct sockaddr_in));
	f->port = port ? port : next_port++;
	set_port(&id->route.addr.src_addr, f->port);
	id->verbs = fake_context();
	id->port_num = 1;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	((struct fake_id *)id)->listens = true;
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(((struct fake_id *)id)->port);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	struct fake_id *f = (struct fake_id *)id;

	pthread_mutex_lock(&fake_lock);
	memcpy(&id->route.addr.dst_storage, to, sizeof(struct sockaddr_in));
	f->port = ntohs(((struct sockaddr_in *)to)->sin_port);
	id->verbs = fake.resolve_status ? NULL : fake_context();
	id->port_num = 1;
	tell(f, NULL, fake.resolve_status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, fake.resolve_status,
	     NULL, 0, 0);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	pthread_mutex_lock(&fake_lock);
	tell((struct fake_id *)id, NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0, 0);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

/* ---- connections ---- */

static struct fake_id *find_listener(uint16_t port)
{
	for (struct fake_id *id = ids; id; id = id->next)
		if (id->listens && id->port == port)
			return id;
	return NULL;
}

static void ask(struct fake_id *asker, struct fake_id *listener, const void *data, size_t length)
{
	struct fake_id *guest = new_id(listener->id.channel);
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(7)};

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(&guest->id.route.addr.dst_storage, &from, sizeof(from));
	guest->id.verbs = fake_context();
	guest->id.port_num = 1;
	guest->peer = asker;
	asker->peer = guest;
	tell(guest, &listener->id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, length, FAKE_PRIVATE_BYTES);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *f = (struct fake_id *)id;

	assert(p->private_data_len <= FAKE_PRIVATE_BYTES && p->rnr_retry_count == 7);
	if (fake.connect_error) {
		errno = fake.connect_error;
		return -1;
	}
	pthread_mutex_lock(&fake_lock);
	struct fake_id *listener = find_listener(f->port);

	if (answer.type)
		tell(f, NULL, answer.type, answer.status, answer.data, answer.length, ANSWER_BYTES);
	else if (fake.answers_nothing)
		;
	else if (listener)
		ask(f, listener, p->private_data, p->private_data_len);
	else
		tell(f, NULL, RDMA_CM_EVENT_REJECTED, REASON_NO_SERVICE, NULL, 0, 148);
	f->connected = answer.type == RDMA_CM_EVENT_ESTABLISHED;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *f = (struct fake_id *)id, *peer = f->peer;

	assert(p->rnr_retry_count == 7);
	pthread_mutex_lock(&fake_lock);
	if (peer && peer->knocker) {
		knock.result = 1;
		knock.length = p->private_data_len;
		memcpy(knock.data, p->private_data, knock.length);
	} else if (peer) {
		((struct fake_qp *)id->qp)->peer = (struct fake_qp *)peer->id.qp;
		((struct fake_qp *)peer->id.qp)->peer = (struct fake_qp *)id->qp;
		tell(peer, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, p->private_data, p->private_data_len, ANSWER_BYTES);
		peer->connected = true;
	}
	f->connected = true;
	tell(f, NULL, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0, 0);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
	struct fake_id *f = (struct fake_id *)id, *peer = f->peer;

	pthread_mutex_lock(&fake_lock);
	if (peer && peer->knocker) {
		knock.result = 2;
		knock.length = length;
		memcpy(knock.data, data, length);
	} else if (peer) {
		tell(peer, NULL, RDMA_CM_EVENT_REJECTED, REASON_BY_PEER, data, length, 148);
	}
	if (peer)
		peer->peer = NULL;
	f->peer = NULL;
	if (peer && peer->knocker)
		peer->gone = true;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	struct fake_id *f = (struct fake_id *)id;

	pthread_mutex_lock(&fake_lock);
	if (id->qp)
		fake_break_locked((struct fake_qp *)id->qp);
	f->connected = false;
	part(f);
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

void fake_remove(void)
{
	pthread_mutex_lock(&fake_lock);
	for (struct fake_id *id = ids; id; id = id->next)
		if (id->id.qp || id->listens)
			tell(id, NULL, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0, 0);
	pthread_mutex_unlock(&fake_lock);
}

static void free_knockers(void)
{
	for (struct fake_id *id = ids, *next; id; id = next) {
		next = id->next;
		if (!id->knocker)
			continue;
		if (id->peer)
			id->peer->peer = NULL;
		unlink_id(id);
		free(id);
	}
}

void fake_knock(uint16_t port, const void *data, size_t length)
{
	pthread_mutex_lock(&fake_lock);
	struct fake_id *listener = find_listener(port);

	assert(listener);
	free_knockers();
	memset(&knock, 0, sizeof(knock));
	struct fake_id *asker = new_id(NULL);

	asker->knocker = true;
	ask(asker, listener, data, length);
	pthread_mutex_unlock(&fake_lock);
}

int fake_knock_answer(void *data, size_t room)
{
	pthread_mutex_lock(&fake_lock);
	int result = knock.result;

	if (result)
		memcpy(data, knock.data, knock.length < room ? knock.length : room);
	if (result)
		free_knockers();
	pthread_mutex_unlock(&fake_lock);
	return result;
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
	return "something else happened";
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)
