// SPDX-License-Identifier: LGPL-2.1-or-later
/* Addresses: see uri.h. Which schemes exist is not known here: lib/ looks for a fabric of that name. */
#include "common/uri.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static int bad(struct rf_error *e, const char *text, const char *why)
{
	return rf_fail(e, RF_E_USAGE, "\"%.100s\" is not an address: %s", text, why);
}

/* Letters, digits, '+', '-' and '.' after a letter, as RFC 3986 has it; NULL without a ':' behind them. */
static const char *read_scheme(const char *text, struct rf_uri *uri)
{
	size_t n = 0;

	if (!isalpha((unsigned char)text[0]))
		return NULL;
	while (isalnum((unsigned char)text[n]) || (text[n] && strchr("+-.", text[n])))
		n++;
	if (text[n] != ':' || n >= sizeof(uri->scheme))
		return NULL;
	for (size_t i = 0; i < n; i++)
		uri->scheme[i] = (char)tolower((unsigned char)text[i]);
	return text + n + 1;
}

static bool copy(char *to, size_t room, const char *from, size_t length)
{
	if (length >= room)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return true;
}

/* What a name or address may hold. '%' and what follows it name an interface. */
static bool host_is_plain(const char *host)
{
	for (; *host; host++) {
		if (!isalnum((unsigned char)*host) && !strchr("-._%:", *host) && (unsigned char)*host < 0x80)
			return false;
	}
	return true;
}

static bool read_port(const char *text, size_t length, uint16_t *port)
{
	unsigned value = 0;

	if (length < 1 || length > 5)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	*port = (uint16_t)value;
	return value <= UINT16_MAX;
}

/* "host", "host:port", "[v6]", "[v6]:port", each perhaps with "?rest". */
static int read_authority(const char *whole, const char *text, struct rf_uri *uri, struct rf_error *e)
{
	size_t length = strcspn(text, "?");
	const char *end = text + length;
	const char *host = text, *host_end;
	bool brackets = text[0] == '[';

	if (*end == '?' && !copy(uri->rest, sizeof(uri->rest), end + 1, strlen(end + 1)))
		return bad(e, whole, "what follows '?' is too long");
	if (brackets) {
		host = text + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end)
			return bad(e, whole, "a ']' is missing");
		text = host_end + 1;
	} else {
		host_end = memchr(text, ':', length);
		if (!host_end)
			host_end = end;
		if (host_end < end && memchr(host_end + 1, ':', (size_t)(end - host_end - 1)))
			return bad(e, whole, "an IPv6 address stands in brackets, as in tcp://[2001:db8::1]:7263");
		text = host_end;
	}
	if (!copy(uri->host, sizeof(uri->host), host, (size_t)(host_end - host)))
		return bad(e, whole, "the host's name is too long");
	if (!host_is_plain(uri->host))
		return bad(e, whole, "the host's name has a character that no name has");
	if (brackets && !strchr(uri->host, ':'))
		return bad(e, whole, "brackets are for IPv6 addresses");
	if (text == end)
		return 0;
	if (*text != ':' || !read_port(text + 1, (size_t)(end - text - 1), &uri->port))
		return bad(e, whole, "behind the host comes ':' and a port from 0 to 65535");
	return 0;
}

int rf_uri_parse(const char *text, struct rf_uri *uri, struct rf_error *e)
{
	static const char expected[] = "write tcp://HOST or rdma://HOST, with or without :PORT";

	memset(uri, 0, sizeof(*uri));
	uri->port = RF_DEFAULT_PORT;
	const char *rest = text ? read_scheme(text, uri) : NULL;
	if (!rest)
		return bad(e, text ? text : "", expected);
	if (strncmp(rest, "//", 2) == 0)
		return read_authority(text, rest + 2, uri, e);
	/* "host:7263" parses as scheme and rest, too; only sim: goes without slashes. */
	if (strcmp(uri->scheme, "sim") != 0)
		return bad(e, text, expected);
	if (!copy(uri->rest, sizeof(uri->rest), rest, strlen(rest)))
		return bad(e, text, "the profile's text is too long");
	return 0;
}
