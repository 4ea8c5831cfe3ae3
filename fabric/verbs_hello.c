// SPDX-License-Identifier: LGPL-2.1-or-later
/* Introductions. Whatever a peer sent is judged here before anything else looks at it. */
#include "fabric/verbs.h"

#include <endian.h>
#include <string.h>

void rf_verbs_fill_hello(struct rf_verbs_hello *h, enum rf_verbs_status status)
{
	*h = (struct rf_verbs_hello){
	    .version = RF_VERBS_VERSION,
	    .status = (uint16_t)status,
	    .max_message_bytes = RF_VERBS_MIN_MESSAGE_BYTES,
	};
	memcpy(h->magic, RF_VERBS_MAGIC, sizeof(h->magic));
}

/* Some networks pad private data with zeros, so it may be longer than what was sent. */
bool rf_verbs_is_hello(const void *data, size_t length)
{
	return length >= sizeof(struct rf_verbs_hello) && memcmp(data, RF_VERBS_MAGIC, 8) == 0;
}

bool rf_verbs_hello_makes_sense(const struct rf_verbs_hello *h)
{
	return h->lanes >= 1 && h->lanes <= RF_VERBS_MAX_LANES && h->lane <= h->lanes &&
	       h->buffers >= RF_VERBS_MIN_BUFFERS && h->buffers <= RF_VERBS_MAX_BUFFERS &&
	       h->max_message_bytes >= RF_VERBS_MIN_MESSAGE_BYTES && h->max_message_bytes <= RF_VERBS_MAX_MESSAGE_BYTES;
}

/* QEMU begins with two big-endian numbers: its version, which has always been 1, and flags, of which there is one. */
const char *rf_verbs_stranger(const void *data, size_t length)
{
	uint32_t head[2];

	if (length < sizeof(head))
		return "it says nothing of itself";
	memcpy(head, data, sizeof(head));
	if (be32toh(head[0]) == 1 && be32toh(head[1]) <= 1)
		return "it looks like QEMU's own rdma: migration";
	return "what it says of itself is nothing that we know";
}
