// SPDX-License-Identifier: LGPL-2.1-or-later
/* rf_doctor(): asks the parts of the house what they find, in the order in which a person would look, and counts what is in
 * the way of a move. Nothing here changes anything, on this host or at the receiver. */
#include "lib/doctor.h"

#include "qemu/examine.h"

#include <assert.h>

static_assert((int)RF_VERDICT_OK == (int)RF_FOUND_OK && (int)RF_VERDICT_ADVICE == (int)RF_FOUND_ADVICE &&
		  (int)RF_VERDICT_NEEDED == (int)RF_FOUND_NEEDED,
	      "the verdicts inside are the public ones");

static void tell(void *arg, const struct rf_found *found)
{
	struct rf_doctor *d = arg;
	rf_finding finding = {
	    .size = sizeof finding,
	    .verdict = (rf_verdict)found->verdict,
	    .area = found->area,
	    .what = found->what,
	    .text = found->text,
	    .advice = found->advice,
	    .measure = found->measure,
	    .value = found->value,
	};

	d->needed += found->verdict == RF_FOUND_NEEDED;
	d->fn(d->arg, &finding);
}

/* A guest of callbacks can only be asked whether it is as it was. */
static void examine_own_guest(struct rf_doctor *d)
{
	struct rf_guest *guest = d->m->guest;
	struct rf_error e;

	if (guest->ops->check && guest->ops->check(guest->ctx, RF_ROLE_SOURCE, &e))
		rf_found(&d->findings, RF_FOUND_NEEDED, "guest", "whole", NULL, "%s", e.text);
	else if (!guest->nblocks)
		rf_found(&d->findings, RF_FOUND_NEEDED, "guest", "whole", "add blocks to it first",
			 "it has no memory that can be moved");
	else
		rf_found(&d->findings, RF_FOUND_OK, "guest", "whole", NULL, "it can be moved");
}

static void examine(struct rf_doctor *d)
{
	struct rf_guest *guest = d->m->guest;

	/* Whether the guest can be looked at decides what the host is asked for. */
	if (guest && !rf_qemu_examine(guest, &d->findings, &d->role))
		examine_own_guest(d);
	rf_doctor_host(d);
	rf_doctor_fabrics(d);
	if (d->uri_text)
		rf_doctor_receiver(d);
}

RF_API rf_result rf_doctor(rf_migration *m, const char *uri, void (*fn)(void *arg, const rf_finding *finding),
			   void *arg)
{
	struct rf_doctor d = {.m = m, .uri_text = uri, .fn = fn, .arg = arg};
	struct rf_error e = {0};

	if (!m)
		return RF_USAGE;
	d.findings = (struct rf_findings){tell, &d};
	if (!fn)
		rf_fail(&e, RF_E_USAGE, "a doctor needs somebody to tell: the function is NULL");
	else if (m->used)
		rf_fail(&e, RF_E_USAGE, "this migration was used already: ask before it begins");
	else if (uri)
		rf_migration_check_uri(uri, RF_ROLE_SOURCE, &d.uri, &d.fabric_ops, &e);
	if (e.code)
		return rf_migration_failed(m, &e);
	rf_error_clear(&m->error);
	if (m->guest)
		m->guest->log = &m->log;
	examine(&d);
	if (m->guest)
		m->guest->log = NULL;
	if (atomic_load(&m->cancelled))
		rf_fail(&e, RF_E_CANCELLED, "cancelled");
	else if (d.needed)
		rf_fail(&e, RF_E_REFUSED, "%u of the findings %s in the way of a move", d.needed,
			d.needed == 1 ? "is" : "are");
	return e.code ? rf_migration_failed(m, &e) : RF_OK;
}
