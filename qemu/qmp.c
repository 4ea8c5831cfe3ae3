// SPDX-License-Identifier: LGPL-2.1-or-later
/* QMP: QEMU greets, then answers one command after another; events come in between at any time.
 *
 * A monitor serves one client at a time. Others may connect, or find the short queue full, but hear nothing until the
 * first one leaves: a silent or full socket means that somebody else uses it. Every command carries an id, so that an
 * answer which comes after we gave up on it is not taken for the next one's. Once the connection has failed or its bytes
 * made no sense it stays dead, and every later call says why. */
#include "qemu/qmp.h"

#include "qemu/clock.h"
#include "qemu/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { GREETING_TIMEOUT_MS = 2000, MAX_EVENTS_AT_ONCE = 1000 };

struct rf_qmp {
	int fd;
	pid_t peer;
	int version;
	json_int_t last_id;
	bool unanswered; /* the command of that id */
	struct rf_frame frame;
	rf_qmp_event_fn *on_event;
	void *event_arg;
	int64_t event_us; /* of the event that is being handed over */
	struct rf_error death; /* code RF_E_NONE: alive */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static int die(struct rf_qmp *q, struct rf_error *e, const struct rf_error *reason)
{
	q->death = *reason;
	if (e)
		*e = *reason;
	return -1;
}

/* What a failed read or write means; error 0 is the end of what it says. */
static int gone(struct rf_qmp *q, int error, struct rf_error *e)
{
	struct rf_error reason;
	if (!error || error == EPIPE || error == ECONNRESET)
		rf_fail(&reason, RF_E_FAILED, "QEMU closed its monitor %s: it has probably ended", q->path);
	else if (error == EAGAIN)
		rf_fail(&reason, RF_E_FAILED, "QEMU does not read what its monitor %s is told", q->path);
	else
		rf_fail_errno(&reason, RF_E_FAILED, error, "QEMU's monitor %s is gone", q->path);
	return die(q, e, &reason);
}

/* ---- Bytes -------------------------------------------------------------------------------------------------------- */

static int send_all(struct rf_qmp *q, const char *bytes, size_t length, int pass_fd, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(RF_QMP_TIMEOUT_MS);
	while (length) {
		struct iovec iov = {(void *)bytes, length};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
		union {
			struct cmsghdr align;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control = {0};
		if (pass_fd >= 0) {
			m.msg_control = control.bytes;
			m.msg_controllen = sizeof(control.bytes);
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
		}
		ssize_t n = sendmsg(q->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			bytes += n;
			length -= n;
			pass_fd = -1; /* it went with the first byte */
			continue;
		}
		if (errno == EAGAIN && rf_deadline_left_ms(deadline)) {
			struct pollfd p = {q->fd, POLLOUT, 0};
			poll(&p, 1, rf_deadline_left_ms(deadline));
			continue;
		}
		if (errno == EINTR)
			continue;
		return gone(q, errno, e);
	}
	return 0;
}

/* Read what is there. 1: something came; 0: nothing within the time; -1: dead. */
static int receive_some(struct rf_qmp *q, int timeout_ms, struct rf_error *e)
{
	size_t room = rf_frame_room(&q->frame);
	if (!room) {
		struct rf_error reason;
		rf_fail(&reason, RF_E_FAILED, "QEMU's monitor %s sent a message without end", q->path);
		return die(q, e, &reason);
	}
	struct pollfd p = {q->fd, POLLIN, 0};
	int ready = poll(&p, 1, timeout_ms);
	if (ready <= 0)
		return 0; /* interrupted counts as "not yet": all callers loop on the clock */
	ssize_t n = recv(q->fd, q->frame.bytes + q->frame.used, room, MSG_DONTWAIT);
	if (n > 0) {
		q->frame.used += n;
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return gone(q, n ? errno : 0, e);
}

static int garbage(struct rf_qmp *q, struct rf_error *e)
{
	char shown[41];
	size_t n = 0;
	for (; n < sizeof(shown) - 1 && n < q->frame.used; n++) {
		unsigned char c = q->frame.bytes[n];
		shown[n] = c >= ' ' && c < 127 ? c : '.';
	}
	shown[n] = 0;
	struct rf_error reason;
	if (strncmp(shown, "QEMU ", 5) == 0)
		rf_fail(&reason, RF_E_FAILED, "%s is QEMU's human monitor: give the socket of a -qmp option", q->path);
	else
		rf_fail(&reason, RF_E_FAILED, "what listens at %s does not speak QMP: it says \"%s\"", q->path, shown);
	return die(q, e, &reason);
}

/* The next message: 1 and *message; 0: none until the deadline; -1: dead. */
static int next_message(struct rf_qmp *q, int64_t deadline, json_t **message, struct rf_error *e)
{
	if (q->death.code) {
		if (e)
			*e = q->death;
		return -1;
	}
	for (;;) {
		size_t length;
		enum rf_frame_state state = rf_frame_next(&q->frame, &length);
		if (state == RF_FRAME_GARBAGE)
			return garbage(q, e);
		if (state == RF_FRAME_COMPLETE) {
			*message = json_loadb(q->frame.bytes, length, 0, NULL);
			if (!*message)
				return garbage(q, e);
			rf_frame_drop(&q->frame, length);
			return 1;
		}
		int left = rf_deadline_left_ms(deadline);
		int r = receive_some(q, left, e);
		if (r < 0)
			return -1;
		if (r == 0 && left == 0)
			return 0;
	}
}

/* ---- Connection ----------------------------------------------------------------------------------------------------- */

int rf_qmp_connect(const char *path, struct rf_qmp **out, struct rf_error *e)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	if (!length || length >= sizeof(address.sun_path))
		return rf_fail(e, RF_E_REFUSED, "the path of a QMP socket has 1 to %zu bytes, \"%s\" has %zu",
			       sizeof(address.sun_path) - 1, path, length);
	memcpy(address.sun_path, path, length);

	struct rf_qmp *q = calloc(1, sizeof(*q));
	if (!q)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	memcpy(q->path, path, length);
	q->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->fd < 0) {
		rf_fail_errno(e, RF_E_FAILED, errno, "cannot make a socket");
		goto free_q;
	}
	while (connect(q->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			rf_fail(e, RF_E_REFUSED, "another client uses the monitor %s: give QEMU a second one", path);
		else
			rf_fail_errno(e, RF_E_REFUSED, errno, "cannot connect to the QMP socket %s", path);
		goto close_fd;
	}
	struct ucred peer;
	socklen_t size = sizeof(peer);
	if (getsockopt(q->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
		q->peer = peer.pid;
	*out = q;
	return 0;

close_fd:
	close(q->fd);
free_q:
	free(q);
	return -1;
}

static int read_version(struct rf_qmp *q, const json_t *greeting, struct rf_error *e)
{
	int major, minor, micro;
	if (json_unpack((json_t *)greeting, "{s:{s:{s:{s:i,s:i,s:i}}}}", "QMP", "version", "qemu", "major", &major,
			"minor", &minor, "micro", &micro) != 0)
		return rf_fail(e, RF_E_REFUSED, "what listens at %s does not speak QMP: its greeting is another one",
			       q->path);
	q->version = major * 10000 + minor * 100 + micro;
	return 0;
}

int rf_qmp_greet(struct rf_qmp *q, struct rf_error *e)
{
	json_t *greeting;
	int r = next_message(q, rf_deadline_ms(GREETING_TIMEOUT_MS), &greeting, e);
	if (r == 0)
		return rf_fail(e, RF_E_REFUSED,
			       "%s does not greet: another client uses this monitor (give QEMU a second one), or it is "
			       "not QMP",
			       q->path);
	if (r > 0) {
		r = read_version(q, greeting, e);
		json_decref(greeting);
	}
	if (r >= 0)
		r = rf_qmp_call(q, "qmp_capabilities", NULL, NULL, e);
	if (r < 0 && e)
		e->code = RF_E_REFUSED;
	return r < 0 ? -1 : 0;
}

pid_t rf_qmp_peer(const struct rf_qmp *q)
{
	return q->peer;
}

int rf_qmp_version(const struct rf_qmp *q)
{
	return q->version;
}

int64_t rf_qmp_event_us(const struct rf_qmp *q)
{
	return q->event_us;
}

int rf_qmp_fd(const struct rf_qmp *q)
{
	return q->fd;
}

void rf_qmp_on_event(struct rf_qmp *q, rf_qmp_event_fn *fn, void *arg)
{
	q->on_event = fn;
	q->event_arg = arg;
}

void rf_qmp_close(struct rf_qmp *q)
{
	if (!q)
		return;
	close(q->fd);
	rf_frame_free(&q->frame);
	free(q);
}

/* ---- Commands --------------------------------------------------------------------------------------------------------- */

/* Hand an event to its listener; false if the message is none. */
static bool take_event(struct rf_qmp *q, const json_t *message)
{
	const char *name = json_string_value(json_object_get(message, "event"));
	const json_t *stamp = json_object_get(message, "timestamp");
	q->event_us = json_integer_value(json_object_get(stamp, "seconds")) * 1000000 +
		      json_integer_value(json_object_get(stamp, "microseconds"));
	if (name && q->on_event)
		q->on_event(q->event_arg, name, json_object_get(message, "data"));
	return name;
}

static int send_command(struct rf_qmp *q, const char *command, json_t *arguments, int fd, struct rf_error *e)
{
	q->unanswered = false;
	if (q->death.code) {
		json_decref(arguments);
		if (e)
			*e = q->death;
		return -1;
	}
	json_t *message = json_pack("{s:s,s:I,s:o*}", "execute", command, "id", ++q->last_id, "arguments", arguments);
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	json_decref(message);
	if (!text)
		return rf_fail(e, RF_E_FAILED, "out of memory");
	int r = send_all(q, text, strlen(text), fd, e);
	free(text);
	q->unanswered = r == 0;
	return r;
}

static int take_answer(struct rf_qmp *q, const char *command, json_t *message, json_t **answer, struct rf_error *e)
{
	json_t *value = json_object_get(message, "return");
	if (!value) {
		const char *text = NULL;
		json_unpack(message, "{s:{s:s}}", "error", "desc", &text);
		return rf_fail(e, RF_E_FAILED, "QEMU refuses %s: %s", command, text ? text : "it does not say why");
	}
	if (answer)
		*answer = json_incref(value);
	return 0;
}

static int call(struct rf_qmp *q, const char *command, json_t *arguments, int fd, json_t **answer, struct rf_error *e)
{
	if (send_command(q, command, arguments, fd, e) != 0)
		return -1;
	int64_t deadline = rf_deadline_ms(RF_QMP_TIMEOUT_MS);
	do { /* a flood of events does not keep us here for longer either */
		json_t *message;
		int r = next_message(q, deadline, &message, e);
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		bool ours = !take_event(q, message) && json_integer_value(json_object_get(message, "id")) == q->last_id;
		r = ours ? take_answer(q, command, message, answer, e) : 0;
		json_decref(message);
		if (ours) {
			q->unanswered = false;
			return r;
		}
	} while (rf_deadline_left_ms(deadline));
	return rf_fail(e, RF_E_FAILED, "QEMU does not answer to %s within %d s", command, RF_QMP_TIMEOUT_MS / 1000);
}

int rf_qmp_call(struct rf_qmp *q, const char *command, json_t *arguments, json_t **answer, struct rf_error *e)
{
	return call(q, command, arguments, -1, answer, e);
}

bool rf_qmp_unanswered(const struct rf_qmp *q)
{
	return q->unanswered;
}

int rf_qmp_call_with_fd(struct rf_qmp *q, const char *command, json_t *arguments, int fd, struct rf_error *e)
{
	return call(q, command, arguments, fd, NULL, e);
}

int rf_qmp_post(struct rf_qmp *q, const char *command, json_t *arguments, struct rf_error *e)
{
	return send_command(q, command, arguments, -1, e);
}

int rf_qmp_human(struct rf_qmp *q, const char *line, char **text, struct rf_error *e)
{
	json_t *answer;
	if (rf_qmp_call(q, "human-monitor-command", json_pack("{s:s}", "command-line", line), &answer, e) != 0)
		return -1;
	const char *s = json_string_value(answer);
	*text = strdup(s ? s : "");
	json_decref(answer);
	return *text ? 0 : rf_fail(e, RF_E_FAILED, "out of memory");
}

int rf_qmp_take_events(struct rf_qmp *q, int timeout_ms, struct rf_error *e)
{
	int64_t deadline = rf_deadline_ms(timeout_ms);
	for (int n = 0; n < MAX_EVENTS_AT_ONCE; n++) {
		json_t *message;
		int r = next_message(q, deadline, &message, e);
		if (r <= 0)
			return r;
		take_event(q, message);
		json_decref(message);
		deadline = 0; /* the first has come: take the others that are there, but do not wait for more */
	}
	return 0;
}
