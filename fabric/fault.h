// SPDX-License-Identifier: LGPL-2.1-or-later
/* A fabric that breaks on purpose, once, at a chosen moment: a wrapper around any fabric. */
#ifndef RAMFERRY_FABRIC_FAULT_H
#define RAMFERRY_FABRIC_FAULT_H

#include "fabric/fabric.h"

enum rf_fault_kind {
	RF_FAULT_NONE,
	RF_FAULT_REGISTER, /* a registration fails */
	RF_FAULT_MESSAGE,  /* a message is lost, and the connection with it */
	RF_FAULT_WRITE,    /* a write completes with an error, and the connection is lost */
	RF_FAULT_FREEZE, /* this side stands still, as a stopped process: its poll does not return before lasts_ns is over */
	RF_FAULT_MUTE,   /* nothing goes out or comes in any more, and nobody is told */
	RF_FAULT_VANISH, /* the connection is lost */
};

/* When: at the nth (from 1) operation of the kind: registrations, completed writes, or for the others messages sent,
 * if `type` is not 0 those of this wire type. With nth 0 (freeze, mute, vanish): at a time. A message that is lost does
 * not go out, nor does that which makes the fabric mute; those before a freeze or a vanishing do. */
struct rf_fault_spec {
	enum rf_fault_kind kind;
	uint64_t nth;
	uint16_t type;    /* the message's second field: u32 length, u16 type */
	int64_t at_ns;    /* of the fabric's clock, counted from the wrapping */
	int64_t lasts_ns; /* freeze; 0: 60 s */

	/* Breaks the connection under both sides. NULL: only this side is told, the other one hears nothing more. */
	void (*cut)(void *arg);
	void *cut_arg;
};

/* "fail-register=3", "drop-message=2", "drop-message=1@17" (the first of type 17), "fail-write=5", "freeze=1@17,10s" (for
 * ten seconds), "freeze=500ms", "mute=300ms", "vanish=4", "none". RF_E_USAGE otherwise. */
int rf_fault_parse(const char *text, struct rf_fault_spec *spec, struct rf_error *e);

/* Takes `inner`, whose closing is the wrapper's closing. NULL: no memory; then inner is as it was. */
struct rf_fabric *rf_fault_wrap(struct rf_fabric *inner, const struct rf_fault_spec *spec);

/* Did it happen? */
bool rf_fault_happened(const struct rf_fabric *f);

#endif
