// SPDX-License-Identifier: LGPL-2.1-or-later
/* The fabric suite on tcp, over loopback. */
#include "tests/unit/fabric/tcp_pair.h"

int main(void)
{
	return suite_run(&tcp_suite_fabric) + suite_run(&tcp_file_suite_fabric) ? 1 : 0;
}
