// SPDX-License-Identifier: LGPL-2.1-or-later
/* The figures of a move, for people: totals, and the downtime in its parts. */
#include "cli/report.h"
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t stat_of(const struct rf_cli_report *r, const char *name)
{
	uint64_t value = 0;

	rf_stat(r->m, name, &value);
	return value;
}

static void put_totals(struct rf_cli_report *r)
{
	char one[RF_CLI_NUMBER], two[RF_CLI_NUMBER], three[RF_CLI_NUMBER], line[400];

	snprintf(line, sizeof(line), "total     %s, of which setup %s; %zu rounds and the final pass",
		 rf_cli_time(stat_of(r, "total_ns"), one), rf_cli_time(stat_of(r, "setup_ns"), two),
		 rf_round_count(r->m) - 1);
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
	snprintf(line, sizeof(line), "memory    %s, of which %s in use",
		 rf_cli_bytes(stat_of(r, "ram_total_bytes"), one), rf_cli_bytes(stat_of(r, "ram_data_bytes"), two));
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
	snprintf(line, sizeof(line), "sent      %s, of which %s pages; not sent: %s of zero pages",
		 rf_cli_bytes(stat_of(r, "transferred_bytes"), one), rf_cli_bytes(stat_of(r, "normal_bytes"), two),
		 rf_cli_bytes(stat_of(r, "duplicate_pages") * stat_of(r, "page_bytes"), three));
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
}

/* What a card was told and waited for; over tcp there is little to say. */
static void put_registrations(struct rf_cli_report *r)
{
	char one[RF_CLI_NUMBER], two[RF_CLI_NUMBER], three[RF_CLI_NUMBER], line[400];

	if (!stat_of(r, "fabric_registrations"))
		return;
	snprintf(line, sizeof(line),
		 "register  %s in %" PRIu64 " pieces; waited %s for them and %s for room on %" PRIu64 " lanes",
		 rf_cli_bytes(stat_of(r, "registered_bytes"), one), stat_of(r, "registrations"),
		 rf_cli_time(stat_of(r, "wait_key_ns"), two), rf_cli_time(stat_of(r, "wait_queue_ns"), three),
		 stat_of(r, "lanes"));
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
}

/* Short stops of the guest before its pause. */
static void put_drain_points(struct rf_cli_report *r)
{
	char one[RF_CLI_NUMBER], two[RF_CLI_NUMBER], line[400];
	uint64_t n = stat_of(r, "drain_points");

	if (!n)
		return;
	snprintf(line, sizeof(line),
		 "drains    %" PRIu64 " time%s, for %s in all, because of direct I/O; %s looked at again", n,
		 n == 1 ? "" : "s", rf_cli_time(stat_of(r, "drain_point_ns"), one),
		 rf_cli_bytes(stat_of(r, "suspect_pages") * stat_of(r, "page_bytes"), two));
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
}

static void put_downtime(struct rf_cli_report *r)
{
	static const struct {
		const char *stat, *word;
	} parts[] = {
	    {"downtime_pause_ns", "pause"},       {"downtime_save_ns", "save state"},
	    {"downtime_scan_ns", "last scan"},    {"downtime_final_pass_ns", "final pass"},
	    {"downtime_verify_ns", "verify"},     {"downtime_load_ns", "load state"},
	    {"downtime_hand_off_ns", "hand-off"},
	};
	char time[RF_CLI_NUMBER], line[400];
	size_t used;

	used = (size_t)snprintf(line, sizeof(line), "downtime  %s", rf_cli_time(stat_of(r, "downtime_ns"), time));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && used < sizeof(line); i++) {
		uint64_t ns = stat_of(r, parts[i].stat);

		if (!ns)
			continue;
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s %s", i ? ", " : ": ", parts[i].word,
					 rf_cli_time(ns, time));
	}
	rf_cli_output_put(r->output, STDOUT_FILENO, RF_CLI_LINE, line);
}

/* The source alone has measured all of it. */
void rf_cli_summary(struct rf_cli_report *r)
{
	if (r->quiet || r->side != RF_CLI_SEND || !stat_of(r, "total_ns"))
		return;
	put_totals(r);
	put_registrations(r);
	put_drain_points(r);
	put_downtime(r);
}
