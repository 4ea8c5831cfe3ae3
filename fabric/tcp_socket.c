// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The engine notices a silent peer by its own PING. These end what even the peer's kernel does not answer, in about 30 s,
 * so that no thread of ours stays for ever. Buffer sizes are left to the kernel: setting them turns its tuning off. */
int rf_tcp_tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
	    {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 10},
	    {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 4}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) < 0)
			return -1;
	return 0;
}

void rf_tcp_fill_preamble(struct rf_tcp_preamble *p, enum rf_tcp_status status)
{
	*p = (struct rf_tcp_preamble){
	    .version = RF_TCP_VERSION,
	    .status = status,
	    .max_message_bytes = RF_TCP_MAX_MESSAGE_BYTES,
	};
	memcpy(p->magic, RF_TCP_MAGIC, sizeof(p->magic));
}

bool rf_tcp_magic_fits(const struct rf_tcp_preamble *p, size_t received)
{
	size_t n = received < sizeof(p->magic) ? received : sizeof(p->magic);

	return memcmp(p->magic, RF_TCP_MAGIC, n) == 0;
}

void rf_tcp_quote(const void *bytes, size_t length, char *text, size_t room)
{
	const unsigned char *b = bytes;
	size_t used = 0;

	text[0] = '\0';
	/* A text protocol's first line says enough. */
	for (size_t i = 0; i < length && b[i] != '\r' && b[i] != '\n' && used + 5 <= room; i++) {
		bool plain = b[i] >= ' ' && b[i] < 0x7f && b[i] != '"' && b[i] != '\\';

		used += (size_t)snprintf(text + used, room - used, plain ? "%c" : "\\x%02x", b[i]);
	}
}
