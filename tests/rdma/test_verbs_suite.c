// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite on a real RDMA device.
 *
 * usage: test-verbs-suite [ADDRESS]     default: 10.0.0.1
 *
 * The address belongs to the device. It runs inside the VMs of the tests, for hosts seldom have a device to spare. */
#include "tests/rdma/verbs_pair.h"
#include "tests/unit/fabric/suite.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <sys/utsname.h>

/* Up to Linux 6.4 soft-RoCE sends from a tasklet on the CPU of the thread that posts, which is held up until its data is
 * out: the message of the control lane cannot even be posted before. */
static bool posting_waits_for_data(void)
{
	struct utsname u;
	int major = 0, minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
	       (major < 6 || (major == 6 && minor < 5));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		verbs_address = argv[1];
	if (!verbs_have_device())
		return VERBS_SKIPPED;
	if (posting_waits_for_data()) {
		printf("this kernel's soft-RoCE lets no control message pass data: that case is left out\n");
		cmocka_set_skip_filter("control does not wait behind data");
	}
	return suite_run(&verbs_suite_fabric) ? 1 : 0;
}
