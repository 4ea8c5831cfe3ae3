// SPDX-License-Identifier: LGPL-2.1-or-later
#include "common/findings.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXT_BYTES = 700 };

static void add(const struct rf_findings *f, struct rf_found *found, const char *format, va_list args)
{
	char text[TEXT_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	rf_one_line(text);
	found->text = text;
	f->add(f->arg, found);
}

void rf_found(const struct rf_findings *f, enum rf_finding_verdict verdict, const char *area, const char *what,
	      const char *advice, const char *format, ...)
{
	struct rf_found found = {.verdict = verdict, .area = area, .what = what, .advice = advice ? advice : ""};
	va_list args;

	va_start(args, format);
	add(f, &found, format, args);
	va_end(args);
}

void rf_found_value(const struct rf_findings *f, const char *area, const char *what, const char *measure,
		    uint64_t value, const char *format, ...)
{
	struct rf_found found = {
	    .verdict = RF_FOUND_OK, .area = area, .what = what, .advice = "", .measure = measure, .value = value};
	va_list args;

	va_start(args, format);
	add(f, &found, format, args);
	va_end(args);
}
