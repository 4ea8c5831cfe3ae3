// SPDX-License-Identifier: LGPL-2.1-or-later
/* QEMU's migration settings: changed for us, and put back. */
#ifndef RAMFERRY_QEMU_SETTINGS_H
#define RAMFERRY_QEMU_SETTINGS_H

#include "memory/guest.h"
#include "qemu/qmp.h"

struct rf_settings {
	json_t *capabilities; /* as they were: the arguments of migrate-set-capabilities; NULL: unchanged */
	json_t *parameters;   /* those of migrate-set-parameters */
};

/* Remember what is there, then change it. On failure the settings are as before, as far as QEMU lets us. */
int rf_settings_change(struct rf_qmp *q, enum rf_role role, struct rf_settings *s, struct rf_error *e);

/* Put back what was changed. Does nothing when nothing is; after a failure it can be called again. */
int rf_settings_restore(struct rf_qmp *q, struct rf_settings *s, struct rf_error *e);

/* The same without waiting for QEMU's answers. */
void rf_settings_post(struct rf_qmp *q, struct rf_settings *s);

void rf_settings_forget(struct rf_settings *s);

#endif
