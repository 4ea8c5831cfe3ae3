// SPDX-License-Identifier: LGPL-2.1-or-later
#ifndef RAMFERRY_FABRIC_TCP_LISTEN_H
#define RAMFERRY_FABRIC_TCP_LISTEN_H

#include "fabric/tcp.h"

enum { RF_TCP_MAX_LISTENERS = 8 };

struct rf_tcp_listener {
	int fds[RF_TCP_MAX_LISTENERS]; /* non-blocking; at least one */
	unsigned count;
};

#endif
