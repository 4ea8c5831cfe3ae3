// SPDX-License-Identifier: LGPL-2.1-or-later
/* In a build without rdma-core. */
#include "fabric/verbs_probe.h"

bool rf_verbs_examine(const struct rf_findings *f, bool asked)
{
	rf_found(f, asked ? RF_FOUND_NEEDED : RF_FOUND_ADVICE, "rdma", "rdma-core",
		 "install libibverbs-dev and librdmacm-dev (rdma-core-devel), and build ramferry again",
		 "this ramferry was built without it, and knows no rdma://");
	return false;
}
