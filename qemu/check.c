// SPDX-License-Identifier: LGPL-2.1-or-later
#include "qemu/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rf_query_status(struct rf_qmp *q, char *status, size_t length, bool *running, struct rf_error *e)
{
	json_t *answer;
	const char *text = NULL;
	int on = 0;
	if (rf_qmp_call(q, "query-status", NULL, &answer, e) != 0)
		return -1;
	int r = json_unpack(answer, "{s:s,s:b}", "status", &text, "running", &on);
	snprintf(status, length, "%s", r == 0 ? text : "");
	if (running)
		*running = r == 0 && on;
	json_decref(answer);
	return r == 0 ? 0 : rf_fail(e, RF_E_FAILED, "QEMU describes its status in a way that is not understood");
}

static void take_migrate(const json_t *answer, char *status, size_t length, char *why, size_t why_length)
{
	const char *text = json_string_value(json_object_get(answer, "status"));
	snprintf(status, length, "%s", text ? text : "none");
	text = json_string_value(json_object_get(answer, "error-desc"));
	if (why)
		snprintf(why, why_length, "%s", text ? text : "");
}

int rf_query_migrate(struct rf_qmp *q, char *status, size_t length, char *why, size_t why_length, struct rf_error *e)
{
	json_t *answer;
	if (rf_qmp_call(q, "query-migrate", NULL, &answer, e) != 0)
		return -1;
	take_migrate(answer, status, length, why, why_length);
	json_decref(answer);
	return 0;
}

bool rf_migrate_is_busy(const char *status)
{
	static const char *const settled[] = {"none", "completed", "failed", "cancelled"};
	for (size_t i = 0; i < sizeof(settled) / sizeof(*settled); i++)
		if (strcmp(status, settled[i]) == 0)
			return false;
	return true;
}

/* No migration under way, and nothing that QEMU itself would refuse later. */
static int check_migrate(struct rf_qmp *q, struct rf_error *e)
{
	json_t *answer;
	char status[32];
	if (rf_qmp_call(q, "query-migrate", NULL, &answer, e) != 0)
		return -1;
	take_migrate(answer, status, sizeof(status), NULL, 0);
	const char *blocker = json_string_value(json_array_get(json_object_get(answer, "blocked-reasons"), 0));
	int r = 0;
	if (rf_migrate_is_busy(status))
		r = rf_fail(e, RF_E_REFUSED, "a migration of QEMU's own is under way (%s)", status);
	else if (blocker)
		r = rf_fail(e, RF_E_REFUSED, "QEMU cannot migrate this guest: %s", blocker);
	json_decref(answer);
	return r;
}

int rf_check_source_state(struct rf_qmp *q, struct rf_error *e)
{
	char status[32];
	if (rf_query_status(q, status, sizeof(status), NULL, e) != 0)
		return -1;
	if (strcmp(status, "postmigrate") == 0)
		return rf_fail(e, RF_E_REFUSED,
			       "the guest stands still since an earlier migration; if it surely runs nowhere "
			       "else, let it go on with `cont` first");
	if (strcmp(status, "inmigrate") == 0)
		return rf_fail(e, RF_E_REFUSED, "this QEMU waits for a guest (-incoming) and has none to send");
	if (strcmp(status, "running") != 0 && strcmp(status, "paused") != 0)
		return rf_fail(e, RF_E_REFUSED, "the guest is neither running nor paused but %s", status);
	return check_migrate(q, e);
}

/* `-incoming` with an address would take any stream that comes, and never one from us. Newer versions show that in
 * query-migrate; for older ones there is the command line. */
static int check_incoming(pid_t pid, struct rf_error *e)
{
	char name[32], *argument = NULL;
	size_t size = 0;
	snprintf(name, sizeof(name), "/proc/%d/cmdline", (int)pid);
	FILE *f = fopen(name, "re");
	if (!f)
		return 0;
	bool next = false, address = false, defer = false;
	while (getdelim(&argument, &size, 0, f) > 0) {
		if (next && strcmp(argument, "defer") == 0)
			defer = true;
		else if (next)
			address = true;
		next = strcmp(argument, "-incoming") == 0 || strcmp(argument, "--incoming") == 0;
	}
	free(argument);
	fclose(f);
	if (address && !defer)
		return rf_fail(e, RF_E_REFUSED,
			       "this QEMU waits for another kind of migration: start it with -S -incoming "
			       "defer");
	return 0;
}

int rf_check_destination_state(struct rf_qmp *q, pid_t pid, struct rf_error *e)
{
	char status[32];
	if (rf_query_status(q, status, sizeof(status), NULL, e) != 0)
		return -1;
	if (strcmp(status, "inmigrate") != 0)
		return rf_fail(e, RF_E_REFUSED,
			       "this QEMU does not wait for a guest (it is %s): start it with -S -incoming "
			       "defer",
			       status);
	return check_migrate(q, e) != 0 ? -1 : check_incoming(pid, e);
}
