// SPDX-License-Identifier: LGPL-2.1-or-later
/* Errors: see error.h. A sentence that does not fit is cut at its end, so what rf_wrap() puts in front always shows. */
#include "common/error.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rf_one_line(char *text)
{
	size_t length = 0;

	for (; text[length]; length++) {
		unsigned char c = (unsigned char)text[length];
		if (c < ' ' || c == 0x7f)
			text[length] = ' ';
	}
	while (length && text[length - 1] == ' ')
		length--;
	/* An ellipsis is part of what was said; one full stop is not. */
	if (length >= 2 && text[length - 1] == '.' && text[length - 2] != '.')
		length--;
	text[length] = '\0';
}

static void set_text(struct rf_error *e, enum rf_code code, const char *format, va_list args)
{
	char text[sizeof(e->text)];

	/* By way of `text`: an argument may be e->text itself. */
	vsnprintf(text, sizeof(text), format, args);
	rf_one_line(text);
	e->code = code;
	memcpy(e->text, text, sizeof(text));
}

int rf_fail(struct rf_error *e, enum rf_code code, const char *format, ...)
{
	va_list args;

	if (!e)
		return -1;
	va_start(args, format);
	set_text(e, code, format, args);
	va_end(args);
	return -1;
}

int rf_fail_errno(struct rf_error *e, enum rf_code code, int error_number, const char *format, ...)
{
	char reason[100];
	va_list args;

	if (!e)
		return -1;
	va_start(args, format);
	set_text(e, code, format, args);
	va_end(args);

	/* GNU strerror_r: the result need not be the buffer, and no other thread can change it. */
	size_t used = strlen(e->text);
	snprintf(e->text + used, sizeof(e->text) - used, ": %s", strerror_r(error_number, reason, sizeof(reason)));
	return -1;
}

int rf_wrap(struct rf_error *e, const char *format, ...)
{
	char inner[sizeof(e->text)];
	va_list args;

	if (!e)
		return -1;
	memcpy(inner, e->text, sizeof(inner));
	va_start(args, format);
	set_text(e, e->code, format, args);
	va_end(args);

	size_t used = strlen(e->text);
	snprintf(e->text + used, sizeof(e->text) - used, ": %s", inner);
	return -1;
}

void rf_error_clear(struct rf_error *e)
{
	if (!e)
		return;
	e->code = RF_E_NONE;
	e->text[0] = '\0';
}
