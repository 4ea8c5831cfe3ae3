// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/fabric.h"

#include <stdio.h>
#include <string.h>

/* Those that a URI may name. sim is not here: it needs both sides in one process and is opened by name. */
static const struct rf_fabric_ops *const fabrics[] = {
    &rf_fabric_tcp,
#if RF_HAVE_RDMA
    &rf_fabric_verbs,
#endif
};

const struct rf_fabric_ops *rf_fabric_find(const char *scheme, struct rf_error *e)
{
	char names[200] = "";
	size_t count = sizeof(fabrics) / sizeof(fabrics[0]), length = 0;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(fabrics[i]->scheme, scheme) == 0)
			return fabrics[i];
		int n = snprintf(names + length, sizeof(names) - length, "%s%s", i ? ", " : "", fabrics[i]->scheme);

		if (n > 0 && (size_t)n < sizeof(names) - length)
			length += (size_t)n;
	}
	if (strcmp(scheme, "rdma") == 0) {
		rf_fail(e, RF_E_USAGE,
			"this ramferry was built without rdma: build it where the packages libibverbs-dev and "
			"librdmacm-dev are installed");
		return NULL;
	}
	rf_fail(e, RF_E_USAGE, "there is no fabric \"%s\"; those there are: %s", scheme, names);
	return NULL;
}
