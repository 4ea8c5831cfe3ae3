// SPDX-License-Identifier: LGPL-2.1-or-later
/* Numbers with units: see sizes.h.
 *
 * A number is decimal digits, perhaps a point and more digits, perhaps one space, and a unit. Nothing else: no sign, no
 * exponent, no "inf", no hexadecimal, no space around it, since a value that is misread moves a guest in a way that
 * nobody asked for. Arithmetic is exact in 128 bits; floating point takes no part in parsing. What is lost below one
 * byte or nanosecond is dropped, but a number above zero never becomes zero: zero means "no limit" to several options. */
#include "common/sizes.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

__extension__ typedef unsigned __int128 wide;

#define NS_PER_US  UINT64_C(1000)
#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_S   UINT64_C(1000000000)
#define NS_PER_MIN (60 * NS_PER_S)
#define NS_PER_H   (60 * NS_PER_MIN)

/* One of it is multiply / divide bytes, bytes per second or nanoseconds. */
struct unit {
	uint64_t multiply, divide;
};

struct kind {
	const char *what, *example;
	bool (*unit)(const char *name, struct unit *unit);
};

static uint64_t power(uint64_t base, unsigned exponent)
{
	uint64_t result = 1;

	while (exponent--)
		result *= base;
	return result;
}

/* K, M, G or T, in either case: 1 to 4 and a step forward; 0 for none. */
static unsigned read_prefix(const char **name)
{
	static const char prefixes[] = "kmgt";
	const char *at = **name ? strchr(prefixes, tolower((unsigned char)**name)) : NULL;

	if (!at)
		return 0;
	++*name;
	return (unsigned)(at - prefixes) + 1;
}

/* A small "b" after a prefix means bit to some people and byte to others: it is not understood. */
static bool size_unit(const char *name, struct unit *unit)
{
	unsigned prefix = read_prefix(&name);

	*unit = (struct unit){power(1024, prefix), 1};
	return !*name || strcmp(name, "B") == 0 || (prefix && strcasecmp(name, "iB") == 0);
}

static bool rate_unit(const char *name, struct unit *unit)
{
	char plain[8];
	size_t length = strlen(name);

	if (length > 2 && strcasecmp(name + length - 2, "/s") == 0)
		length -= 2;
	if (length >= sizeof(plain))
		return false;
	snprintf(plain, sizeof(plain), "%.*s", (int)length, name);
	if (size_unit(plain, unit))
		return true;
	name = plain;
	*unit = (struct unit){power(1000, read_prefix(&name)), 8};
	return strcasecmp(name, "bit") == 0;
}

static bool duration_unit(const char *name, struct unit *unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
	    {"", NS_PER_MS}, {"ns", 1},           {"us", NS_PER_US}, {"ms", NS_PER_MS},
	    {"s", NS_PER_S}, {"min", NS_PER_MIN}, {"h", NS_PER_H},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcasecmp(units[i].name, name) == 0) {
			*unit = (struct unit){units[i].ns, 1};
			return true;
		}
	}
	return false;
}

static bool count_unit(const char *name, struct unit *unit)
{
	*unit = (struct unit){1, 1};
	return !*name;
}

static const struct kind size_kind = {"a size", "64M or 1.5GiB", size_unit};
static const struct kind rate_kind = {"a rate", "500MiB/s or 10Gbit", rate_unit};
static const struct kind duration_kind = {"a duration", "300ms or 1.5s", duration_unit};
static const struct kind count_kind = {"a whole number", "1024", count_unit};

/* Read digits at *text into *number, and 10 to their count into *scale; false when there are none or too many. 64 bits
 * times the largest unit fit 128. */
static bool read_digits(const char **text, uint64_t *number, uint64_t *scale)
{
	const char *start = *text;

	for (; **text >= '0' && **text <= '9'; ++*text) {
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(**text - '0'), number))
			return false;
		if (scale && __builtin_mul_overflow(*scale, 10, scale))
			return false;
	}
	return *text != start;
}

static int parse(const struct kind *kind, const char *text, uint64_t *value, struct rf_error *e)
{
	if (!text)
		text = "";

	const char *at = text;
	uint64_t number = 0, scale = 1;

	bool digits = read_digits(&at, &number, NULL);
	if (!digits && at != text)
		goto too_large;
	if (digits && *at == '.') {
		at++;
		digits = read_digits(&at, &number, &scale);
	}
	if (!digits)
		goto not_a_number;
	if (*at == ' ' && at[1])
		at++;
	struct unit unit;
	if (!kind->unit(at, &unit) || (scale > 1 && unit.multiply / unit.divide <= 1))
		goto not_a_number;

	wide product = (wide)number * unit.multiply / ((wide)scale * unit.divide);
	if (product > UINT64_MAX)
		goto too_large;
	if (!product && number)
		return rf_fail(e, RF_E_USAGE, "\"%.60s\" is too small to tell from 0", text);
	*value = (uint64_t)product;
	return 0;

too_large:
	return rf_fail(e, RF_E_USAGE, "\"%.60s\" is too large", text);
not_a_number:
	return rf_fail(e, RF_E_USAGE, "\"%.60s\" is not %s, such as %s", text, kind->what, kind->example);
}

int rf_parse_size(const char *text, uint64_t *bytes, struct rf_error *e)
{
	return parse(&size_kind, text, bytes, e);
}

int rf_parse_rate(const char *text, uint64_t *bytes_per_second, struct rf_error *e)
{
	return parse(&rate_kind, text, bytes_per_second, e);
}

int rf_parse_duration(const char *text, uint64_t *ns, struct rf_error *e)
{
	return parse(&duration_kind, text, ns, e);
}

int rf_parse_count(const char *text, uint64_t *count, struct rf_error *e)
{
	return parse(&count_kind, text, count, e);
}

struct scale {
	const char *name;
	uint64_t unit;
};

static const struct scale size_scales[] = {
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"PiB", UINT64_C(1) << 50},
    {"EiB", UINT64_C(1) << 60},
    {NULL, 0},
};

static const struct scale duration_scales[] = {
    {"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}, {"min", NS_PER_MIN}, {"h", NS_PER_H}, {NULL, 0},
};

/* The largest unit that `value` reaches, or the next one where three digits would not do. */
static const char *format(const struct scale *scale, uint64_t value, char *buffer, size_t length)
{
	while (scale[1].name && value >= scale[1].unit)
		scale++;
	assert(scale->unit);
	if (value % scale->unit == 0) {
		snprintf(buffer, length, "%llu %s", (unsigned long long)(value / scale->unit), scale->name);
		return buffer;
	}

	double amount = (double)value / (double)scale->unit;
	if (amount >= 999.5 && scale[1].name) {
		scale++;
		amount = (double)value / (double)scale->unit;
	}
	int decimals = amount < 0.9995 ? 3 : amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
	snprintf(buffer, length, "%.*f %s", decimals, amount, scale->name);
	return buffer;
}

const char *rf_format_size(uint64_t bytes, char *buffer, size_t length)
{
	return format(size_scales, bytes, buffer, length);
}

const char *rf_format_duration(uint64_t ns, char *buffer, size_t length)
{
	/* Nobody reads 90 seconds as 1.50 minutes: whole seconds stay whole, in the largest unit that keeps them so. */
	if (ns && ns % NS_PER_S == 0 && ns / NS_PER_S < 10000) {
		const char *name = ns % NS_PER_H == 0 ? "h" : ns % NS_PER_MIN == 0 ? "min" : "s";
		uint64_t unit = ns % NS_PER_H == 0 ? NS_PER_H : ns % NS_PER_MIN == 0 ? NS_PER_MIN : NS_PER_S;
		snprintf(buffer, length, "%llu %s", (unsigned long long)(ns / unit), name);
		return buffer;
	}
	return format(duration_scales, ns, buffer, length);
}
