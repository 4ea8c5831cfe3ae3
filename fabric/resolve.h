// SPDX-License-Identifier: LGPL-2.1-or-later
/* Host names to addresses, without being stuck in a name server that does not answer. */
#ifndef RAMFERRY_FABRIC_RESOLVE_H
#define RAMFERRY_FABRIC_RESOLVE_H

#include "common/error.h"
#include "fabric/events.h"

#include <netdb.h>
#include <stdint.h>

/* All TCP addresses of a host: an IPv4 or IPv6 address (with zone id), a name, or "" (all of this host, to listen at).
 * Ends early with RF_E_CANCELLED after rf_events_wake(). deadline_ns < 0: none. freeaddrinfo(*out) afterwards. */
int rf_resolve(const char *host, uint16_t port, struct rf_events *events, int64_t deadline_ns, struct addrinfo **out,
	       struct rf_error *e);

/* "[::1]:7263": numeric, as in a URI. Returns `text`. */
const char *rf_address_text(const struct sockaddr *address, socklen_t address_length, char *text, size_t room);

/* "host:port", with brackets around an IPv6 address. Returns `text`. */
const char *rf_host_port(const char *host, unsigned port, char *text, size_t room);

/* Wait until one of p[0..n) has something or somebody calls rf_events_wake(); p[0] is filled in for that. 1: something
 * is there; 0: the deadline has passed; -1: woken, and *e says RF_E_CANCELLED. */
struct pollfd;
int rf_wait_sockets(struct rf_events *events, struct pollfd *p, unsigned n, int64_t deadline_ns, struct rf_error *e);

#endif
