// SPDX-License-Identifier: LGPL-2.1-or-later
/* rf_send() and rf_receive(): guest, fabric and engine are wired together, run, and taken apart again.
 *
 * Nothing is touched before the arguments are found to make sense; up to then the migration can still be used.
 *
 * A fabric accepts once. When that was a prober (engine/probe.h), a new fabric listens at the same port before the old one is
 * closed: the prober sees its connection end when the next caller is awaited. */
#include "engine/engine.h"
#include "lib/migration.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

static_assert((int)RF_PHASE_LISTENING == (int)RF_ENGINE_LISTENING && (int)RF_PHASE_SETUP == (int)RF_ENGINE_SETUP &&
		  (int)RF_PHASE_ROUNDS == (int)RF_ENGINE_ROUNDS &&
		  (int)RF_PHASE_SWITCHOVER == (int)RF_ENGINE_SWITCHOVER &&
		  (int)RF_PHASE_RUNNING == (int)RF_ENGINE_RUNNING && (int)RF_PHASE_UNDOING == (int)RF_ENGINE_UNDOING,
	      "the engine's phases are the public ones");

/* What one run needs besides the migration. */
struct run {
	rf_migration *m;
	enum rf_role role;
	struct rf_uri uri;
	const struct rf_fabric_ops *fabric_ops;
	struct rf_fabric *fabric;
	char name[96];
};

void rf_migration_tell_progress(void *arg, const struct rf_engine_progress *p)
{
	rf_migration *m = arg;
	rf_progress told = {
	    .size = sizeof told,
	    .phase = (rf_phase)p->phase,
	    .round_ended = p->round_ended,
	    .round = p->round,
	    .sent_bytes = p->sent_bytes,
	    .left_bytes = p->left_bytes,
	    .dirty_bytes = p->dirty_bytes,
	    .bytes_per_second = p->bytes_per_second,
	    .dirty_bytes_per_second = p->dirty_bytes_per_second,
	    .predicted_downtime_ns = p->predicted_downtime_ns,
	    .elapsed_ns = p->elapsed_ns,
	};

	if (m->progress_fn)
		m->progress_fn(m->progress_arg, &told);
}

int rf_migration_check_uri(const char *text, enum rf_role role, struct rf_uri *uri, const struct rf_fabric_ops **ops,
			   struct rf_error *e)
{
	if (!text)
		return rf_fail(e, RF_E_USAGE, "a URI is needed, such as tcp://host or rdma://host");
	if (rf_uri_parse(text, uri, e))
		return -1;
	*ops = rf_fabric_find(uri->scheme, e);
	if (!*ops)
		return -1;
	if (role == RF_ROLE_SOURCE && !uri->host[0])
		return rf_fail(e, RF_E_USAGE, "%s names no host to send to", text);
	if (role == RF_ROLE_SOURCE && !uri->port)
		return rf_fail(e, RF_E_USAGE, "%s names no port to send to", text);
	if (uri->rest[0])
		return rf_fail(e, RF_E_USAGE, "%s:// takes nothing behind the address: \"?%.60s\" is too much",
			       uri->scheme, uri->rest);
	return 0;
}

static int check_arguments(struct run *run, const char *uri, struct rf_error *e)
{
	if (run->m->used)
		return rf_fail(e, RF_E_USAGE, "this migration was used already: one rf_send() or rf_receive() each");
	if (rf_migration_check_uri(uri, run->role, &run->uri, &run->fabric_ops, e))
		return -1;
	if (!run->m->guest)
		return rf_fail(e, RF_E_REFUSED, "this migration has no guest");
	return 0;
}

int rf_draw_id(uint8_t id[16], struct rf_error *e)
{
	size_t have = 0;

	while (have < 16) {
		ssize_t n = getrandom(id + have, 16 - have, 0);

		if (n < 0 && errno != EINTR)
			return rf_fail_errno(e, RF_E_FAILED, errno, "cannot draw a random migration id");
		if (n > 0)
			have += (size_t)n;
	}
	return 0;
}

void rf_name_us(char *name, size_t length)
{
	char host[65];

	if (gethostname(host, sizeof host))
		host[0] = '\0';
	host[sizeof host - 1] = '\0';
	snprintf(name, length, "process %ld on %s", (long)getpid(), host[0] ? host : "a host without a name");
}

int rf_migration_open_fabric(rf_migration *m, const struct rf_fabric_ops *ops, struct rf_fabric **out,
			     struct rf_error *e)
{
	const struct rf_options *o = &m->options;
	struct rf_fabric_config config = {
	    .lanes = (unsigned)o->lanes,
	    .queue_depth = (unsigned)o->queue_depth,
	    .workers = (unsigned)o->workers,
	    .connect_timeout_ns = (int64_t)o->connect_timeout_ns,
	    .log = &m->log,
	    .signal_interval = (unsigned)o->signal_interval,
	    .max_write_bytes = (uint32_t)o->max_write_bytes,
	    .rdma_timeout_ns = (int64_t)o->rdma_timeout_ns,
	    .rdma_retry = (unsigned)o->rdma_retry,
	    .traffic_class = (unsigned)o->traffic_class,
	    .device = o->device[0] ? o->device : NULL,
	    .gid_index = o->gid_index == RF_OPTION_UNSET ? -1 : (int)o->gid_index,
	};

	if (ops->open(&config, out, e))
		return -1;
	rf_migration_publish(m, *out);

	/* A cancellation from before that moment had nobody to wake. */
	if (atomic_load(&m->cancelled)) {
		rf_fail(e, RF_E_CANCELLED, "cancelled");
		goto close;
	}
	return 0;
close:
	rf_migration_close_fabric(m, *out);
	return -1;
}

void rf_migration_close_fabric(rf_migration *m, struct rf_fabric *fabric)
{
	rf_migration_withdraw(m);
	fabric->ops->close(fabric);
}

static int start_listening(struct run *run, struct rf_error *e)
{
	char address[128];
	struct rf_uri there;

	if (run->fabric_ops->listen(run->fabric, &run->uri, e))
		return -1;
	if (run->fabric_ops->address(run->fabric, address, sizeof address, e))
		return -1;
	rf_log(&run->m->log, RF_LOG_INFO, "listening at %s", address);
	if (run->m->listening_fn)
		run->m->listening_fn(run->m->listening_arg, address);
	if (!run->uri.port && !rf_uri_parse(address, &there, e))
		run->uri.port = there.port; /* who was told it finds us there again */
	return 0;
}

/* As start_listening(), beside a fabric that does not any more; where both do not go together, after it. */
static int listen_again(struct run *run, struct rf_error *e)
{
	struct rf_fabric *old = run->fabric;
	int failed;

	rf_migration_withdraw(run->m);
	if (rf_migration_open_fabric(run->m, run->fabric_ops, &run->fabric, e)) {
		run->fabric = NULL;
		failed = -1;
	} else {
		failed = run->fabric_ops->listen(run->fabric, &run->uri, e);
	}
	run->fabric_ops->close(old);
	if (failed && run->fabric && e->code != RF_E_CANCELLED)
		failed = run->fabric_ops->listen(run->fabric, &run->uri, e);
	return failed;
}

static struct rf_engine make_engine(struct run *run)
{
	rf_migration *m = run->m;

	return (struct rf_engine){
	    .fabric = run->fabric,
	    .uri = run->uri,
	    .guest = m->guest,
	    .options = &m->options,
	    .log = &m->log,
	    .stats = &m->stats,
	    .progress = rf_migration_tell_progress,
	    .progress_arg = m,
	    .cancelled = &m->cancelled,
	    .name = run->name,
	};
}

/* Until a source came. A prober's options are not for the source that comes next. */
static int receive(struct run *run, struct rf_engine *engine, struct rf_error *e)
{
	rf_migration *m = run->m;
	struct rf_options options = m->options;

	/* The engine looks again; but who hears that we listen may count on a guest that can be filled. */
	if (m->guest->ops->check && m->guest->ops->check(m->guest->ctx, RF_ROLE_DESTINATION, e))
		return -1;
	if (start_listening(run, e))
		return -1;
	for (;;) {
		*engine = make_engine(run);

		int failed = rf_destination_run(engine, e);

		if (!engine->probed)
			return failed;
		m->options = options;
		failed = listen_again(run, e);
		rf_engine_free(engine);
		if (failed)
			return -1;
	}
}

static int run_engine(struct run *run, struct rf_engine *engine, struct rf_error *e)
{
	if (run->role == RF_ROLE_DESTINATION)
		return receive(run, engine, e);
	*engine = make_engine(run);
	return rf_draw_id(engine->id, e) ? -1 : rf_source_run(engine, e);
}

static rf_result migrate(rf_migration *m, const char *uri, enum rf_role role)
{
	struct run run = {.m = m, .role = role};
	struct rf_engine engine = {0};
	struct rf_error e = {0};

	if (!m)
		return RF_USAGE;
	if (check_arguments(&run, uri, &e))
		return rf_migration_failed(m, &e);
	m->used = true;
	rf_error_clear(&m->error);
	rf_name_us(run.name, sizeof run.name);
	if (rf_migration_open_fabric(m, run.fabric_ops, &run.fabric, &e))
		return rf_migration_failed(m, &e);
	m->guest->log = &m->log;

	int failed = run_engine(&run, &engine, &e);

	if (run.fabric)
		rf_migration_close_fabric(m, run.fabric);
	rf_engine_free(&engine);
	m->guest->log = NULL; /* the guest may outlive the migration */
	return failed ? rf_migration_failed(m, &e) : RF_OK;
}

RF_API rf_result rf_send(rf_migration *m, const char *uri)
{
	return migrate(m, uri, RF_ROLE_SOURCE);
}

RF_API rf_result rf_receive(rf_migration *m, const char *uri)
{
	return migrate(m, uri, RF_ROLE_DESTINATION);
}
