// SPDX-License-Identifier: LGPL-2.1-or-later
#include "common/log.h"

#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>

void rf_log(const struct rf_log *log, enum rf_log_level level, const char *format, ...)
{
	char sentence[1000]; /* holds an error's text with room for what stands around it */
	va_list args;

	/* Before formatting: most programs do not listen, and some sentences are written on hot paths. */
	if (!log || !log->write)
		return;
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	rf_one_line(sentence);
	log->write(log->arg, level, sentence);
}
