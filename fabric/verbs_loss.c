// SPDX-License-Identifier: LGPL-2.1-or-later
/* From the first sign of trouble to RF_EV_LOST: see verbs.h. A card tells a number; this is what it means to a person. */
#include "fabric/verbs.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rf_verbs_lose(struct rf_verbs *v, const char *format, ...)
{
	va_list args;

	if (v->losing)
		return;
	v->losing = true;
	va_start(args, format);
	vsnprintf(v->loss, sizeof(v->loss), format, args);
	va_end(args);
	rf_one_line(v->loss);
	/* Moves the queue pairs to the error state, so that nothing is read or written any more, and tells the peer. */
	for (unsigned i = 0; i < v->lane_count; i++)
		if (v->lanes[i].id)
			rdma_disconnect(v->lanes[i].id);
}

static const char *state_of_port(const struct rf_verbs *v)
{
	struct ibv_port_attr port;

	if (ibv_query_port(v->context, v->port, &port))
		return "the RDMA device does not answer either";
	return port.state == IBV_PORT_ACTIVE ? "the link is up at this side" : "the link is down at this side";
}

/* A flushed request is the consequence of an error whose own completion may follow. Where none does, this side has none: the
 * peer asked the card for something that it may not have, or went away. */
static void flushed(struct rf_verbs *v, unsigned lane)
{
	if (v->flushed)
		return;
	v->flushed = true;
	v->flushed_lane = lane;
	v->flushed_ns = rf_monotonic_ns();
}

void rf_verbs_broken_off(struct rf_verbs *v)
{
	rf_verbs_lose(v,
		      "the connection to %s broke off on lane %u: the peer wrote where it may not, or its card failed",
		      v->peer, v->flushed_lane);
}

void rf_verbs_failed(struct rf_verbs *v, const struct ibv_wc *wc)
{
	unsigned lane = (unsigned)(wc->wr_id >> 32) & 0xff;
	const char *peer = v->peer;

	if (v->losing)
		return;
	switch (wc->status) {
	case IBV_WC_WR_FLUSH_ERR:
		flushed(v, lane);
		break;
	case IBV_WC_RETRY_EXC_ERR:
		rf_verbs_look_at_cm(v); /* a peer that said good-bye answers no more, either */
		rf_verbs_lose(v, "%s does not answer any more on lane %u, however often the card asked; %s", peer, lane,
			      state_of_port(v));
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		rf_verbs_lose(v, "%s has no buffer for a message on lane %u although it promised one", peer, lane);
		break;
	case IBV_WC_REM_ACCESS_ERR:
		rf_verbs_lose(v, "%s's card refused a write on lane %u: it leads outside of what the peer registered",
			      peer, lane);
		break;
	case IBV_WC_REM_INV_REQ_ERR:
		rf_verbs_lose(v, "%s's card does not take a request on lane %u: it is too long or of no kind it knows",
			      peer, lane);
		break;
	case IBV_WC_REM_OP_ERR:
		rf_verbs_lose(v, "%s's card failed on lane %u: it could not carry out a request", peer, lane);
		break;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		rf_verbs_lose(v, "our RDMA device failed a request on lane %u (%s); %s", lane,
			      ibv_wc_status_str(wc->status), state_of_port(v));
		break;
	case IBV_WC_LOC_LEN_ERR:
		rf_verbs_lose(v, "%s sent a longer message on lane %u than was agreed", peer, lane);
		break;
	default:
		rf_verbs_lose(v, "the connection to %s broke on lane %u: %s", peer, lane,
			      ibv_wc_status_str(wc->status));
	}
}
