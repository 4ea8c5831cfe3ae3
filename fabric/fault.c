// SPDX-License-Identifier: LGPL-2.1-or-later
/* Faults as a wrapper: every operation goes to the inner fabric, unless the fault has happened and says otherwise.
 *
 * After the loss of a connection, work given to run() and registrations go on, as fabric.h wants it; only what the peer
 * would have to do with is kept away. The wrapper has no thread and no clock of its own. */
#include "fabric/fault.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_AT_ONCE = 16 };

struct held {
	struct rf_event event;
	struct held *next;
	char bytes[];
};

struct fault {
	struct rf_fabric fabric; /* first */
	struct rf_fabric *inner;
	struct rf_fault_spec spec;
	uint64_t count;  /* operations of the kind so far */
	int64_t at_ns;   /* when it happens, where that is a time */
	int64_t thaw_ns; /* frozen until then */
	bool happened, cut_off;
	struct held *held, **held_end, *delivered; /* events to deliver before those of the inner fabric */
};

static struct fault *of(struct rf_fabric *f)
{
	return (struct fault *)f;
}

static int64_t now(struct fault *x)
{
	return x->inner->ops->now(x->inner);
}

static void hold(struct fault *x, const struct rf_event *event)
{
	size_t text = event->text ? strlen(event->text) + 1 : 0, data = event->data ? event->length : 0;
	struct held *h = malloc(sizeof(*h) + data + text);

	assert(h);
	h->event = *event;
	h->next = NULL;
	if (data)
		h->event.data = memcpy(h->bytes, event->data, data);
	if (text)
		h->event.text = memcpy(h->bytes + data, event->text, text);
	*x->held_end = h;
	x->held_end = &h->next;
}

static void free_held(struct held **list)
{
	struct held *h;

	while ((h = *list)) {
		*list = h->next;
		free(h);
	}
}

/* ---- the fault itself -------------------------------------------------------------------------------------------- */

static void lose(struct fault *x, const char *text)
{
	x->cut_off = true;
	hold(x, &(struct rf_event){.kind = RF_EV_LOST, .status = -1, .text = text});
	if (x->spec.cut)
		x->spec.cut(x->spec.cut_arg);
}

static void happen(struct fault *x)
{
	x->happened = true;
	switch (x->spec.kind) {
	case RF_FAULT_MESSAGE:
		lose(x, "the connection broke while a message was sent");
		break;
	case RF_FAULT_WRITE:
		lose(x, "a write completed with an error");
		break;
	case RF_FAULT_VANISH:
		lose(x, "the peer has vanished");
		break;
	case RF_FAULT_FREEZE:
		x->thaw_ns = now(x) + x->spec.lasts_ns;
		break;
	case RF_FAULT_MUTE:
		x->cut_off = true;
		break;
	case RF_FAULT_REGISTER:
	case RF_FAULT_NONE:
		break;
	}
}

/* Is this operation the one? */
static bool strikes(struct fault *x, enum rf_fault_kind kind)
{
	if (x->happened || x->spec.kind != kind || !x->spec.nth || ++x->count != x->spec.nth)
		return false;
	happen(x);
	return true;
}

static bool is_timed(const struct fault *x)
{
	return !x->happened && x->spec.kind != RF_FAULT_NONE && !x->spec.nth;
}

static bool counts_message(const struct fault *x, const void *message, size_t length)
{
	uint16_t type = 0;

	if (length >= 6)
		memcpy(&type, (const char *)message + 4, sizeof(type));
	return !x->spec.type || x->spec.type == type;
}

static bool swallows(enum rf_fault_kind kind)
{
	return kind == RF_FAULT_MESSAGE || kind == RF_FAULT_MUTE;
}

static bool is_about_messages(enum rf_fault_kind kind)
{
	return swallows(kind) || kind == RF_FAULT_FREEZE || kind == RF_FAULT_VANISH;
}

/* ---- operations ---------------------------------------------------------------------------------------------------- */

static int fault_probe(char *text, size_t length, struct rf_error *e)
{
	return rf_fail(e, RF_E_USAGE, "faults are wrapped around a fabric, they are none");
}

static int fault_open(const struct rf_fabric_config *config, struct rf_fabric **out, struct rf_error *e)
{
	return fault_probe(NULL, 0, e);
}

static int fault_listen(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	return of(f)->inner->ops->listen(of(f)->inner, uri, e);
}

static int fault_address(struct rf_fabric *f, char *text, size_t length, struct rf_error *e)
{
	return of(f)->inner->ops->address(of(f)->inner, text, length, e);
}

static int fault_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e)
{
	int ret = of(f)->inner->ops->accept(of(f)->inner, timeout_ns, e);

	f->limits = of(f)->inner->limits;
	return ret;
}

static int fault_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	int ret = of(f)->inner->ops->connect(of(f)->inner, uri, e);

	f->limits = of(f)->inner->limits;
	return ret;
}

static void fault_close(struct rf_fabric *f)
{
	struct fault *x = of(f);

	if (!f)
		return;
	x->inner->ops->close(x->inner);
	free_held(&x->held);
	free_held(&x->delivered);
	free(x);
}

static void fault_file(struct rf_fabric *f, const void *address, uint64_t length, int fd, uint64_t offset)
{
	struct rf_fabric *inner = of(f)->inner;

	if (inner->ops->file)
		inner->ops->file(inner, address, length, fd, offset);
}

static int fault_can_pin(struct rf_fabric *f, uint64_t bytes, struct rf_error *e)
{
	struct rf_fabric *inner = of(f)->inner;

	return inner->ops->can_pin ? inner->ops->can_pin(inner, bytes, e) : 0;
}

static void fault_count(struct rf_fabric *f, struct rf_fabric_counters *counters)
{
	struct rf_fabric *inner = of(f)->inner;

	*counters = (struct rf_fabric_counters){0};
	if (inner->ops->count)
		inner->ops->count(inner, counters);
}

static int fault_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie)
{
	struct fault *x = of(f);

	if (strikes(x, RF_FAULT_REGISTER)) {
		hold(x, &(struct rf_event){.kind = RF_EV_REGISTERED,
					   .cookie = cookie,
					   .status = -1,
					   .text = "the registration failed on purpose"});
		return 0;
	}
	return x->inner->ops->reg(x->inner, address, length, access, cookie);
}

static int fault_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie)
{
	return of(f)->inner->ops->dereg(of(f)->inner, key, cookie);
}

static int fault_write(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n)
{
	struct fault *x = of(f);

	if (!x->cut_off)
		return x->inner->ops->write(x->inner, lane, w, n);
	return x->spec.kind == RF_FAULT_MUTE ? n : -1;
}

static int fault_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	struct fault *x = of(f);
	bool counts;
	int ret;

	if (x->cut_off)
		return x->spec.kind == RF_FAULT_MUTE ? 1 : -1;
	counts = counts_message(x, message, length);
	if (counts && swallows(x->spec.kind) && x->count + 1 == x->spec.nth && strikes(x, x->spec.kind))
		return 1;
	ret = x->inner->ops->send(x->inner, lane, message, length);
	if (ret == 1 && counts && is_about_messages(x->spec.kind))
		strikes(x, x->spec.kind);
	return ret;
}

static int fault_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie)
{
	return of(f)->inner->ops->run(of(f)->inner, fn, arg, cookie);
}

static void fault_wake(struct rf_fabric *f)
{
	of(f)->inner->ops->wake(of(f)->inner);
}

static int64_t fault_now(struct rf_fabric *f)
{
	return now(of(f));
}

/* ---- poll ---------------------------------------------------------------------------------------------------------- */

/* What the inner fabric has to say of the peer is kept back once the connection is said to be lost. */
static bool passes(struct fault *x, const struct rf_event *event)
{
	if (event->kind == RF_EV_WRITTEN && strikes(x, RF_FAULT_WRITE))
		return false;
	return !x->cut_off ||
	       (event->kind != RF_EV_WRITTEN && event->kind != RF_EV_MESSAGE && event->kind != RF_EV_LOST);
}

static int filter(struct fault *x, struct rf_event *events, int n)
{
	int i, kept = 0;

	for (i = 0; i < n; i++)
		if (passes(x, &events[i]))
			events[kept++] = events[i];
	return kept;
}

/* A process that is stopped finds everything that came meanwhile when it goes on. */
static void stand_still(struct fault *x)
{
	struct rf_event events[HELD_AT_ONCE];
	int i, n;

	while (now(x) < x->thaw_ns) {
		n = x->inner->ops->poll(x->inner, events, HELD_AT_ONCE, x->thaw_ns - now(x));
		for (i = 0; i < n; i++)
			hold(x, &events[i]);
	}
}

static int take_held(struct fault *x, struct rf_event *events, int max)
{
	struct held *h;
	int n;

	for (n = 0; n < max && (h = x->held); n++) {
		if (!(x->held = h->next))
			x->held_end = &x->held;
		events[n] = h->event;
		h->next = x->delivered;
		x->delivered = h;
	}
	return n;
}

static int fault_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	struct fault *x = of(f);
	int64_t end_ns = timeout_ns < 0 ? INT64_MAX : now(x) + timeout_ns, until_ns;
	int n;

	free_held(&x->delivered);
	for (;;) {
		if (is_timed(x) && now(x) >= x->at_ns)
			happen(x);
		stand_still(x);
		n = take_held(x, events, max);
		if (n)
			return n;
		until_ns = is_timed(x) && x->at_ns < end_ns ? x->at_ns : end_ns;
		n = x->inner->ops->poll(x->inner, events, max, until_ns == INT64_MAX ? -1 : until_ns - now(x));
		n = filter(x, events, n);
		if (n || (!x->held && now(x) >= end_ns))
			return n;
	}
}

static const struct rf_fabric_ops fault_ops = {
    .scheme = "fault",
    .probe = fault_probe,
    .open = fault_open,
    .listen = fault_listen,
    .address = fault_address,
    .accept = fault_accept,
    .connect = fault_connect,
    .close = fault_close,
    .file = fault_file,
    .can_pin = fault_can_pin,
    .count = fault_count,
    .reg = fault_reg,
    .dereg = fault_dereg,
    .write = fault_write,
    .send = fault_send,
    .run = fault_run,
    .poll = fault_poll,
    .wake = fault_wake,
    .now = fault_now,
};

struct rf_fabric *rf_fault_wrap(struct rf_fabric *inner, const struct rf_fault_spec *spec)
{
	struct fault *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->fabric.ops = &fault_ops;
	x->fabric.limits = inner->limits;
	x->inner = inner;
	x->spec = *spec;
	if (!x->spec.lasts_ns)
		x->spec.lasts_ns = INT64_C(60000000000);
	x->at_ns = now(x) + spec->at_ns;
	x->held_end = &x->held;
	return &x->fabric;
}

bool rf_fault_happened(const struct rf_fabric *f)
{
	return ((const struct fault *)f)->happened;
}
