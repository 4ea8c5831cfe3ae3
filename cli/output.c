// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What may wait for a slow reader: above the first only what matters is kept, above the second nothing. */
enum { FEW = 64, MANY = 100000 };

struct item {
	struct item *next;
	int fd;
	enum rf_cli_line kind;
	size_t length;
	char text[]; /* with its newline, if it has one */
};

struct rf_cli_output {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	bool threaded, closing;
	struct item *first, **last;
	unsigned waiting;

	/* The writer's own. */
	bool broken[3];  /* by file descriptor: nobody reads it any more */
	bool live_shown; /* the cursor stands in a live line */
};

static void write_bytes(struct rf_cli_output *o, int fd, const char *bytes, size_t length)
{
	while (length && !o->broken[fd]) {
		ssize_t n = write(fd, bytes, length);

		if (n >= 0) {
			bytes += n;
			length -= (size_t)n;
		} else if (errno == EAGAIN) {
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		} else if (errno != EINTR) {
			o->broken[fd] = true;
		}
	}
}

static void write_item(struct rf_cli_output *o, const struct item *item)
{
	static const char erase[] = "\r\033[K";

	if (o->live_shown || item->kind == RF_CLI_LIVE)
		write_bytes(o, STDOUT_FILENO, erase, sizeof(erase) - 1);
	o->live_shown = item->kind == RF_CLI_LIVE;
	write_bytes(o, item->fd, item->text, item->length);
}

static void *write_items(void *arg)
{
	struct rf_cli_output *o = arg;

	pthread_mutex_lock(&o->lock);
	for (;;) {
		struct item *item = o->first;

		if (!item && o->closing)
			break;
		if (!item) {
			pthread_cond_wait(&o->more, &o->lock);
			continue;
		}
		o->first = item->next;
		if (!o->first)
			o->last = &o->first;
		o->waiting--;
		pthread_mutex_unlock(&o->lock);
		write_item(o, item);
		free(item);
		pthread_mutex_lock(&o->lock);
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* Without a thread of its own (none could be had) lines are written by whoever has them. */
static void start_thread(struct rf_cli_output *o)
{
	sigset_t all, before;

	/* Signals are the main thread's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	o->threaded = !pthread_create(&o->thread, NULL, write_items, o);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct rf_cli_output *rf_cli_output_open(void)
{
	struct rf_cli_output *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->more, NULL);
	o->last = &o->first;
	start_thread(o);
	return o;
}

static struct item *make_item(int fd, enum rf_cli_line kind, const char *text)
{
	size_t length = strlen(text);
	struct item *item = malloc(sizeof(*item) + length + 1);

	if (!item)
		return NULL;
	*item = (struct item){.fd = fd, .kind = kind, .length = length};
	memcpy(item->text, text, length + 1);
	if (kind != RF_CLI_LIVE)
		item->text[item->length++] = '\n';
	return item;
}

void rf_cli_output_put(struct rf_cli_output *o, int fd, enum rf_cli_line kind, const char *text)
{
	struct item *item = make_item(fd, kind, text);

	if (!item)
		return;
	pthread_mutex_lock(&o->lock);
	if (!o->threaded) {
		write_item(o, item);
		free(item);
	} else if (o->waiting >= (kind == RF_CLI_LINE ? MANY : FEW)) {
		free(item);
	} else {
		*o->last = item;
		o->last = &item->next;
		o->waiting++;
		pthread_cond_signal(&o->more);
	}
	pthread_mutex_unlock(&o->lock);
}

void rf_cli_output_close(struct rf_cli_output *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->closing = true;
	pthread_cond_signal(&o->more);
	pthread_mutex_unlock(&o->lock);
	if (o->threaded)
		pthread_join(o->thread, NULL);
	if (o->live_shown)
		write_bytes(o, STDOUT_FILENO, "\n", 1);
	pthread_cond_destroy(&o->more);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

int rf_cli_output_columns(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}
