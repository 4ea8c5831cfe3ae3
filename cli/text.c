// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cli/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Three digits, so that a live line does not jitter. */
static void three_digits(double value, const char *unit, char buffer[RF_CLI_NUMBER])
{
	int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;

	snprintf(buffer, RF_CLI_NUMBER, "%.*f %s", decimals, value, unit);
}

const char *rf_cli_bytes(uint64_t bytes, char buffer[RF_CLI_NUMBER])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	/* 999.5 would be written as 1000: it goes to the next unit. */
	for (; value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		value /= 1024;
	if (unit == 0)
		snprintf(buffer, RF_CLI_NUMBER, "%" PRIu64 " B", bytes);
	else
		three_digits(value, units[unit], buffer);
	return buffer;
}

const char *rf_cli_rate(uint64_t per_second, char buffer[RF_CLI_NUMBER])
{
	rf_cli_bytes(per_second, buffer);

	size_t length = strlen(buffer);

	snprintf(buffer + length, RF_CLI_NUMBER - length, "/s");
	return buffer;
}

const char *rf_cli_time(uint64_t ns, char buffer[RF_CLI_NUMBER])
{
	if (ns < UINT64_C(999500000))
		three_digits((double)ns / 1e6, "ms", buffer);
	else if (ns < 120 * UINT64_C(1000000000))
		three_digits((double)ns / 1e9, "s", buffer);
	else
		snprintf(buffer, RF_CLI_NUMBER, "%" PRIu64 " min %02" PRIu64 " s", ns / UINT64_C(60000000000),
			 ns / UINT64_C(1000000000) % 60);
	return buffer;
}

/* Bytes of the UTF-8 character at p, or 0. Overlong forms, surrogates and C1 controls count as none. */
static size_t utf8_length(const unsigned char *p)
{
	static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};
	size_t length = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 0;

	if (!length || p[0] >= 0xf5)
		return 0;

	uint32_t point = p[0] & (0x7f >> length);

	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (p[i] & 0x3f);
	}
	if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	return length;
}

char *rf_cli_clean(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p;) {
		size_t length = *p < 0x80 ? *p >= 0x20 && *p != 0x7f : utf8_length(p);

		if (!length)
			*p = '?';
		p += length ? length : 1;
	}
	return text;
}
