// SPDX-License-Identifier: LGPL-2.1-or-later
/* tcp://host:port, tcp://[2001:db8::1]:port, tcp://[fe80::1%eth0], sim:profile?rate=…; the port defaults to 7263. */
#ifndef RAMFERRY_COMMON_URI_H
#define RAMFERRY_COMMON_URI_H

#include "common/error.h"

#include <stdint.h>

enum { RF_DEFAULT_PORT = 7263 };

struct rf_uri {
	char scheme[16]; /* lower case, without ':' */
	char host[256];  /* without brackets; "" for all addresses (receive) */
	uint16_t port;   /* 0: let the system choose (receive) */
	char rest[256];  /* what follows '?', or the profile of a sim: URI */
};

/* -1 with a sentence (RF_E_USAGE) that quotes what was given. */
int rf_uri_parse(const char *text, struct rf_uri *uri, struct rf_error *e);

#endif
