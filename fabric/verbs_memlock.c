// SPDX-License-Identifier: LGPL-2.1-or-later
/* May this process pin so much? The kernel compares RLIMIT_MEMLOCK with what cards have pinned of this process (VmPin), and
 * asks neither whoever has CAP_IPC_LOCK in the first user namespace. What mlock() holds is counted elsewhere, against the
 * same limit but not together with it. */
#include "fabric/verbs.h"

#include "common/checked.h"
#include "common/sizes.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The number behind `name` in /proc/self/status; 0 when it is not there. */
static uint64_t status_number(const char *name, const char *format)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[200];
	uint64_t value = 0;

	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), format, &value) == 1)
			break;
	if (status)
		fclose(status);
	return value;
}

static bool is_first_user_namespace(void)
{
	FILE *map = fopen("/proc/self/uid_map", "re");
	uint64_t inside = 1, outside = 1, count = 0;
	int n = map ? fscanf(map, "%" SCNu64 "%" SCNu64 "%" SCNu64, &inside, &outside, &count) : 0;

	if (map)
		fclose(map);
	return n == 3 && inside == 0 && outside == 0 && count == UINT32_MAX;
}

static bool may_pin_all(void)
{
	return (status_number("CapEff:", "%" SCNx64) >> CAP_IPC_LOCK & 1) && is_first_user_namespace();
}

int rf_verbs_can_pin(struct rf_fabric *f, uint64_t bytes, struct rf_error *e)
{
	struct rlimit limit;
	char missing[40], wanted[40], allowed[40];

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || may_pin_all())
		return 0;
	uint64_t pinned = status_number("VmPin:", "%" SCNu64) * 1024, all;

	if (!rf_verbs_of(f)->lane_count) /* our own buffers and queues come on top; once connected they are in VmPin */
		pinned += rf_verbs_own_bytes(f->limits.lanes, f->limits.queue_depth);
	if (!rf_add_u64(bytes, pinned, &all))
		all = UINT64_MAX;
	if (all <= limit.rlim_cur)
		return 0;
	return rf_fail(e, RF_E_REFUSED,
		       "%s of memory cannot be registered: this process may lock %s, which is %s (%" PRIu64
		       " bytes) too little; raise it with ulimit -l, or LimitMEMLOCK= of a service, or use a smaller "
		       "--max-pinned",
		       rf_format_size(bytes, wanted, sizeof(wanted)),
		       rf_format_size(limit.rlim_cur, allowed, sizeof(allowed)),
		       rf_format_size(all - limit.rlim_cur, missing, sizeof(missing)), all - limit.rlim_cur);
}
