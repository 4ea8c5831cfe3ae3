// SPDX-License-Identifier: LGPL-2.1-or-later
/* The receiver that waits at a URI: is it there, and how good is the way to it? engine/probe.h tells how it is asked. */
#include "engine/probe.h"

#include "common/sizes.h"
#include "lib/doctor.h"

static void tell_result(struct rf_doctor *d, const struct rf_probe_result *r)
{
	const struct rf_findings *f = &d->findings;
	char text[40];

	rf_found_value(f, "receiver", "connection", "connect_ns", (uint64_t)r->connect_ns,
		       "a ramferry receive waits at %s; connected within %s", d->uri_text,
		       rf_format_duration((uint64_t)r->connect_ns, text, sizeof text));
	rf_found_value(f, "receiver", "registration", "registration_ns", (uint64_t)r->register_ns,
		       "%d MiB were registered there within %s", RF_PROBE_BYTES >> 20,
		       rf_format_duration((uint64_t)r->register_ns, text, sizeof text));
	rf_found_value(f, "receiver", "round trip", "round_trip_ns", (uint64_t)r->round_trip_ns, "%s",
		       rf_format_duration((uint64_t)r->round_trip_ns, text, sizeof text));
	rf_found_value(f, "receiver", "bandwidth", "bytes_per_second", r->bytes_per_second,
		       "%s/s over %u lane(s), between caches", rf_format_size(r->bytes_per_second, text, sizeof text),
		       r->lanes);
}

static int measure(struct rf_doctor *d, struct rf_probe_result *result, struct rf_error *e)
{
	rf_migration *m = d->m;
	struct rf_options options = m->options; /* an engine may change them */
	struct rf_stats stats = {0};
	struct rf_fabric *fabric;
	char name[96];

	rf_name_us(name, sizeof name);
	if (rf_migration_open_fabric(m, d->fabric_ops, &fabric, e))
		return -1;

	struct rf_engine engine = {
	    .fabric = fabric,
	    .uri = d->uri,
	    .options = &options,
	    .log = &m->log,
	    .stats = &stats,
	    .cancelled = &m->cancelled,
	    .name = name,
	};
	int failed = rf_draw_id(engine.id, e) ? -1 : rf_probe_run(&engine, result, e);

	rf_migration_close_fabric(m, fabric);
	rf_engine_free(&engine);
	rf_stats_free(&stats);
	return failed;
}

void rf_doctor_receiver(struct rf_doctor *d)
{
	struct rf_probe_result result;
	struct rf_error e = {0};

	if (measure(d, &result, &e))
		rf_found(&d->findings, RF_FOUND_NEEDED, "receiver", "connection",
			 "see that a ramferry receive waits there, and that nothing on the way keeps it off", "%s",
			 e.text);
	else
		tell_result(d, &result);
}
