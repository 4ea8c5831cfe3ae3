// SPDX-License-Identifier: LGPL-2.1-or-later
/* What the files of the doctor share. */
#ifndef RAMFERRY_LIB_DOCTOR_H
#define RAMFERRY_LIB_DOCTOR_H

#include "common/findings.h"
#include "lib/migration.h"

struct rf_doctor {
	rf_migration *m;
	struct rf_findings findings;
	unsigned needed;   /* findings so far without whose remedy nothing works */
	enum rf_role role; /* of the guest, if there is one */

	/* the receiver that is asked about */
	const char *uri_text; /* NULL: none is */
	struct rf_uri uri;
	const struct rf_fabric_ops *fabric_ops;

	void (*fn)(void *arg, const rf_finding *finding); /* the caller's */
	void *arg;
};

void rf_doctor_host(struct rf_doctor *d);     /* trackers, rights */
void rf_doctor_fabrics(struct rf_doctor *d);  /* tcp, rdma and what may be pinned for it; after the guest is known */
void rf_doctor_receiver(struct rf_doctor *d); /* there is one to ask */

#endif
