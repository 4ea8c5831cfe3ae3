// SPDX-License-Identifier: LGPL-2.1-or-later
/* Operators and libvirt leave settings behind (multifd, post-copy, a bandwidth limit, TLS), and what we leave behind would
 * be worse: a later migration with x-ignore-shared still on carries no RAM. So all that bear on us are set, only those
 * that differ are touched, and exactly these are put back. Names that this QEMU does not know are skipped: a capability
 * that it does not have is off. */
#include "qemu/settings.h"

#include <string.h>

struct wish {
	const char *name;
	bool on[2]; /* by role: source, destination */
	bool needed;
};

static const struct wish wishes[] = {
    {"events", {true, true}, true},
    {"x-ignore-shared", {true, true}, true},
    {"pause-before-switchover", {true, false}, true},
    {"late-block-activate", {false, true}, true},
    /* What would change the stream, or want more channels than one. */
    {"auto-converge", {false, false}, false},
    {"background-snapshot", {false, false}, false},
    {"block", {false, false}, false},
    {"compress", {false, false}, false},
    {"dirty-bitmaps", {false, false}, false},
    {"dirty-limit", {false, false}, false},
    {"mapped-ram", {false, false}, false},
    {"multifd", {false, false}, false},
    {"postcopy-blocktime", {false, false}, false},
    {"postcopy-preempt", {false, false}, false},
    {"postcopy-ram", {false, false}, false},
    {"rdma-pin-all", {false, false}, false},
    {"release-ram", {false, false}, false},
    {"return-path", {false, false}, false},
    {"switchover-ack", {false, false}, false},
    {"x-colo", {false, false}, false},
    {"xbzrle", {false, false}, false},
    {"zero-blocks", {false, false}, false},
    {"zero-copy-send", {false, false}, false},
};

static const struct wish *find_wish(const char *name)
{
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		if (strcmp(wishes[i].name, name) == 0)
			return &wishes[i];
	return NULL;
}

static int append(json_t *list, const char *name, bool on)
{
	return json_array_append_new(list, json_pack("{s:s,s:b}", "capability", name, "state", (int)on));
}

/* Split the capabilities that differ into what they shall be and what they were. */
static int plan_capabilities(const json_t *present, enum rf_role role, json_t *new, json_t *old, struct rf_error *e)
{
	unsigned missing = 0;
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		missing += wishes[i].needed;
	size_t i;
	json_t *capability;
	json_array_foreach((json_t *)present, i, capability)
	{
		const char *name = json_string_value(json_object_get(capability, "capability"));
		const struct wish *wish = name ? find_wish(name) : NULL;
		bool is = json_is_true(json_object_get(capability, "state"));
		if (!wish)
			continue;
		missing -= wish->needed;
		if (is != wish->on[role] && (append(new, name, wish->on[role]) != 0 || append(old, name, is) != 0))
			return rf_fail(e, RF_E_FAILED, "out of memory");
	}
	if (missing)
		return rf_fail(e, RF_E_REFUSED,
			       "this QEMU lacks a migration capability that is needed (x-ignore-shared, "
			       "pause-before-switchover, late-block-activate)");
	return 0;
}

static int change_capabilities(struct rf_qmp *q, enum rf_role role, json_t **before, struct rf_error *e)
{
	json_t *present;
	if (rf_qmp_call(q, "query-migrate-capabilities", NULL, &present, e) != 0)
		return -1;
	json_t *new = json_array(), *old = json_array();
	int r = plan_capabilities(present, role, new, old, e);
	json_decref(present);
	if (r == 0 && json_array_size(new))
		r = rf_qmp_call(q, "migrate-set-capabilities", json_pack("{s:O}", "capabilities", new), NULL, e);
	if (r == 0)
		*before = json_pack("{s:O}", "capabilities", old);
	json_decref(new);
	json_decref(old);
	return r;
}

/* Source: QEMU's own limits must never slow its stream down, nor keep it from switching over at once. */
static json_t *wanted_parameters(void)
{
	return json_pack("{s:I,s:i,s:s,s:s}", "max-bandwidth", (json_int_t)1 << 50, "downtime-limit", 2000000,
			 "tls-creds", "", "mode", "normal");
}

static int change_parameters(struct rf_qmp *q, json_t **before, struct rf_error *e)
{
	json_t *present, *new = wanted_parameters(), *old = json_object();
	if (rf_qmp_call(q, "query-migrate-parameters", NULL, &present, e) != 0) {
		json_decref(new);
		json_decref(old);
		return -1;
	}
	const char *name;
	void *next;
	json_t *wanted;
	json_object_foreach_safe(new, next, name, wanted)
	{
		json_t *is = json_object_get(present, name);
		if (!is || json_equal(is, wanted))
			json_object_del(new, name);
		else
			json_object_set(old, name, is);
	}
	json_decref(present);
	int r = 0;
	if (json_object_size(new))
		r = rf_qmp_call(q, "migrate-set-parameters", json_incref(new), NULL, e);
	if (r == 0)
		*before = json_incref(old);
	json_decref(new);
	json_decref(old);
	return r;
}

int rf_settings_change(struct rf_qmp *q, enum rf_role role, struct rf_settings *s, struct rf_error *e)
{
	if (change_capabilities(q, role, &s->capabilities, e) != 0)
		return -1;
	if (role == RF_ROLE_SOURCE && change_parameters(q, &s->parameters, e) != 0) {
		rf_settings_restore(q, s, NULL);
		return -1;
	}
	return 0;
}

static bool differ(const struct rf_settings *s)
{
	return json_array_size(json_object_get(s->capabilities, "capabilities")) > 0;
}

int rf_settings_restore(struct rf_qmp *q, struct rf_settings *s, struct rf_error *e)
{
	if (json_object_size(s->parameters) &&
	    rf_qmp_call(q, "migrate-set-parameters", json_incref(s->parameters), NULL, e) != 0)
		return -1;
	json_decref(s->parameters);
	s->parameters = NULL;
	if (differ(s) && rf_qmp_call(q, "migrate-set-capabilities", json_incref(s->capabilities), NULL, e) != 0)
		return -1;
	rf_settings_forget(s);
	return 0;
}

void rf_settings_post(struct rf_qmp *q, struct rf_settings *s)
{
	if (json_object_size(s->parameters))
		rf_qmp_post(q, "migrate-set-parameters", json_incref(s->parameters), NULL);
	if (differ(s))
		rf_qmp_post(q, "migrate-set-capabilities", json_incref(s->capabilities), NULL);
	rf_settings_forget(s);
}

void rf_settings_forget(struct rf_settings *s)
{
	json_decref(s->parameters);
	json_decref(s->capabilities);
	*s = (struct rf_settings){0};
}
