// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/engine/stage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { POLLS_MAX = 20000 };

struct stage_event {
	struct stage_event *next;
	struct rf_event event;
	uint8_t bytes[];
};

struct stage_task {
	struct stage_task *next;
	void (*fn)(void *);
	void *arg;
	struct rf_event done;
};

uint64_t stage_random(struct stage *s, uint64_t limit)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random % limit;
}

static struct stage_event *add_event(struct stage *s, const struct rf_event *event, const void *bytes, size_t length)
{
	struct stage_event *node = malloc(sizeof(*node) + length);
	assert_non_null(node);
	node->next = NULL;
	node->event = *event;
	if (length)
		memcpy(node->bytes, bytes, length);
	*s->tail = node;
	s->tail = &node->next;
	return node;
}

void stage_say(struct stage *s, unsigned lane, const void *message, size_t length)
{
	if (s->lost)
		return;
	struct stage_event *node =
	    add_event(s, &(struct rf_event){.kind = RF_EV_MESSAGE, .lane = lane, .length = length}, message, length);
	node->event.data = node->bytes;
}

void stage_lose(struct stage *s, const char *text)
{
	if (s->lost)
		return;
	s->lost = true;
	struct stage_event *node =
	    add_event(s, &(struct rf_event){.kind = RF_EV_LOST, .status = -1}, text, strlen(text) + 1);
	node->event.text = (const char *)node->bytes;
}

/* ---- work ---- */

static int add_task(struct stage *s, void (*fn)(void *), void *arg, const struct rf_event *done)
{
	struct stage_task *task = malloc(sizeof(*task)), **end = &s->tasks;
	assert_non_null(task);
	*task = (struct stage_task){.fn = fn, .arg = arg, .done = *done};
	while (*end)
		end = &(*end)->next;
	*end = task;
	return 0;
}

static void do_task(struct stage *s, struct stage_task **at)
{
	struct stage_task *task = *at;
	*at = task->next;
	if (task->fn)
		task->fn(task->arg);
	add_event(s, &task->done, NULL, 0);
	free(task);
}

/* All of it, or each with an even chance. */
static void do_tasks(struct stage *s, bool all)
{
	for (struct stage_task **at = &s->tasks; *at;)
		if (all || stage_random(s, 2))
			do_task(s, at);
		else
			at = &(*at)->next;
}

/* ---- the operations ---- */

static int stage_connect(struct rf_fabric *f, const struct rf_uri *uri, struct rf_error *e)
{
	return 0;
}

static int stage_accept(struct rf_fabric *f, int64_t timeout_ns, struct rf_error *e)
{
	return 0;
}

static int stage_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie)
{
	struct stage *s = (struct stage *)f;
	assert_true(address && length && length % 4096 == 0);
	if (s->no_memory)
		return add_task(s, NULL, NULL,
				&(struct rf_event){.kind = RF_EV_REGISTERED,
						   .cookie = cookie,
						   .status = -1,
						   .error_number = ENOMEM,
						   .text = "no memory on this stage"});
	s->registered++;
	return add_task(s, NULL, NULL,
			&(struct rf_event){.kind = RF_EV_REGISTERED, .cookie = cookie, .key = {{++s->next_key, 0}}});
}

static int stage_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie)
{
	struct stage *s = (struct stage *)f;
	assert_true(s->registered--);
	return add_task(s, NULL, NULL, &(struct rf_event){.kind = RF_EV_RELEASED, .cookie = cookie});
}

static bool no_room(struct stage *s, unsigned lane)
{
	if (!s->refuse_some || stage_random(s, 8))
		return false;
	s->full[lane] = true;
	return true;
}

static int stage_write(struct rf_fabric *f, unsigned lane, const struct rf_write *w, int n)
{
	struct stage *s = (struct stage *)f;
	assert_in_range(lane, 1, STAGE_LANES);
	if (s->lost)
		return -1;
	if (no_room(s, lane))
		return 0;
	for (int i = 0; i < n; i++) {
		uint8_t *copy = malloc(w[i].length); /* its bytes can be read */
		assert_non_null(copy);
		memcpy(copy, w[i].local, w[i].length);
		free(copy);
		s->written_bytes += w[i].length;
	}
	s->written[lane] += (uint64_t)n;
	return n;
}

static int stage_send(struct rf_fabric *f, unsigned lane, const void *message, size_t length)
{
	struct stage *s = (struct stage *)f;
	assert_in_range(lane, 0, STAGE_LANES);
	assert_in_range(length, RF_FRAME_BYTES, RF_MESSAGE_BYTES_MAX);
	if (s->lost)
		return -1;
	if (no_room(s, lane))
		return 0;
	s->heard(s->actor, lane, message, length);
	return 1;
}

static int stage_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie)
{
	return add_task((struct stage *)f, fn, arg, &(struct rf_event){.kind = RF_EV_DONE, .cookie = cookie});
}

static void tell_written(struct stage *s)
{
	for (unsigned lane = 0; lane <= STAGE_LANES; lane++) {
		if (!s->written[lane] && !s->full[lane])
			continue;
		add_event(s,
			  &(struct rf_event){.kind = RF_EV_WRITTEN, .lane = lane, .count = (uint32_t)s->written[lane]},
			  NULL, 0);
		s->written[lane] = 0;
		s->full[lane] = false;
	}
}

static int deliver(struct stage *s, struct rf_event *events, int max)
{
	int n = 0, most = s->tidy ? max : 1 + (int)stage_random(s, (uint64_t)max);
	while (n < most && s->head) {
		struct stage_event *node = s->head;
		s->head = node->next;
		if (!s->head)
			s->tail = &s->head;
		events[n++] = node->event;
		node->next = s->delivered;
		s->delivered = node;
	}
	return n;
}

static void forget_delivered(struct stage *s)
{
	while (s->delivered) {
		struct stage_event *node = s->delivered;
		s->delivered = node->next;
		free(node);
	}
}

static int stage_poll(struct rf_fabric *f, struct rf_event *events, int max, int64_t timeout_ns)
{
	struct stage *s = (struct stage *)f;
	if (++s->polls > POLLS_MAX)
		fail_msg("the engine polls without end");
	forget_delivered(s);
	do_tasks(s, s->tidy);
	tell_written(s);
	/* Now and then the actor speaks before anything has come of what went on. */
	if ((!s->head || !stage_random(s, 4)) && !s->tidy)
		s->says(s->actor);
	if (!s->head)
		do_tasks(s, true);
	if (!s->head)
		s->says(s->actor);
	if (!s->head) {
		if (timeout_ns < 0)
			fail_msg("the engine waits for ever");
		s->now_ns += timeout_ns;
		return 0;
	}
	s->now_ns += 1000;
	return deliver(s, events, max);
}

static void stage_wake(struct rf_fabric *f)
{
	add_event((struct stage *)f, &(struct rf_event){.kind = RF_EV_WOKEN}, NULL, 0);
}

static int64_t stage_now(struct rf_fabric *f)
{
	return ((struct stage *)f)->now_ns;
}

static const struct rf_fabric_ops stage_ops = {
    .scheme = "stage",
    .accept = stage_accept,
    .connect = stage_connect,
    .reg = stage_reg,
    .dereg = stage_dereg,
    .write = stage_write,
    .send = stage_send,
    .run = stage_run,
    .poll = stage_poll,
    .wake = stage_wake,
    .now = stage_now,
};

void stage_open(struct stage *s, uint64_t seed)
{
	*s = (struct stage){
	    .base = {.ops = &stage_ops,
		     .limits = {.lanes = STAGE_LANES,
				.queue_depth = 64,
				.max_write_bytes = 1 << 20,
				.max_message_bytes = RF_MESSAGE_BYTES_MAX,
				.max_spans = 16}},
	    .random = seed * 0x9e3779b97f4a7c15 | 1,
	    .now_ns = 1000000000,
	};
	s->tail = &s->head;
}

void stage_close(struct stage *s)
{
	do_tasks(s, true);
	forget_delivered(s);
	while (s->head) {
		struct stage_event *node = s->head;
		s->head = node->next;
		free(node);
	}
}
