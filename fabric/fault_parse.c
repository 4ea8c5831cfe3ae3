// SPDX-License-Identifier: LGPL-2.1-or-later
/* "kind=N", "kind=N@TYPE", "kind=TIME", each with ",TIME" behind it for how long a freeze lasts. */
#include "common/sizes.h"
#include "fabric/fault.h"

#include <string.h>

static const struct kind {
	const char *name;
	enum rf_fault_kind kind;
	bool typed, timed;
} kinds[] = {
    {"fail-register", RF_FAULT_REGISTER, false, false},
    {"drop-message", RF_FAULT_MESSAGE, true, false},
    {"fail-write", RF_FAULT_WRITE, false, false},
    {"freeze", RF_FAULT_FREEZE, true, true},
    {"mute", RF_FAULT_MUTE, true, true},
    {"vanish", RF_FAULT_VANISH, true, true},
};

static const struct kind *find_kind(const char *text, size_t length)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, text, length))
			return &kinds[i];
	return NULL;
}

static int parse_duration(const char *text, int64_t *ns, struct rf_error *e)
{
	uint64_t value;

	if (rf_parse_duration(text, &value, e))
		return -1;
	if (value > INT64_MAX / 2)
		return rf_fail(e, RF_E_USAGE, "\"%s\" is too long a time", text);
	*ns = (int64_t)value;
	return 0;
}

static int parse_nth(char *text, struct rf_fault_spec *spec, struct rf_error *e)
{
	char *type = strchr(text, '@');
	uint64_t value;

	if (type) {
		*type++ = '\0';
		if (rf_parse_count(type, &value, e))
			return -1;
		if (!value || value > UINT16_MAX)
			return rf_fail(e, RF_E_USAGE, "a message type is 1 to 65535, not %s", type);
		spec->type = (uint16_t)value;
	}
	if (rf_parse_count(text, &spec->nth, e))
		return -1;
	if (!spec->nth)
		return rf_fail(e, RF_E_USAGE, "operations are counted from 1");
	return 0;
}

int rf_fault_parse(const char *text, struct rf_fault_spec *spec, struct rf_error *e)
{
	const char *is = strchr(text, '=');
	const struct kind *kind;
	char when[64], *lasts;

	memset(spec, 0, sizeof(*spec));
	if (!strcmp(text, "none"))
		return 0;
	kind = is ? find_kind(text, (size_t)(is - text)) : NULL;
	if (!kind || strlen(is + 1) >= sizeof(when))
		return rf_fail(e, RF_E_USAGE, "\"%s\" is no fault", text);
	spec->kind = kind->kind;
	strcpy(when, is + 1);
	lasts = strchr(when, ',');
	if (lasts) {
		*lasts++ = '\0';
		if (kind->kind != RF_FAULT_FREEZE)
			return rf_fail(e, RF_E_USAGE, "only a freeze lasts, \"%s\" does not", text);
		if (parse_duration(lasts, &spec->lasts_ns, e))
			return -1;
	}
	if (strchr(when, '@') && !kind->typed)
		return rf_fail(e, RF_E_USAGE, "%s knows no message types", kind->name);
	/* a bare number counts operations, one with a unit is a time */
	if (kind->timed && !strchr(when, '@') && strspn(when, "0123456789") != strlen(when))
		return parse_duration(when, &spec->at_ns, e);
	return parse_nth(when, spec, e);
}
