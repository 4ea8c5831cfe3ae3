// SPDX-License-Identifier: LGPL-2.1-or-later
/* Addresses as people write them, and the sentences about those that are none. */
#include "common/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void good_addresses(void **state)
{
	static const struct {
		const char *text, *scheme, *host, *rest;
		uint16_t port;
	} cases[] = {
	    {"tcp://host-b", "tcp", "host-b", "", 7263},
	    {"tcp://host-b.example:80", "tcp", "host-b.example", "", 80},
	    {"TCP://10.0.0.1:65535", "tcp", "10.0.0.1", "", 65535},
	    {"rdma://[2001:db8::1]:18515", "rdma", "2001:db8::1", "", 18515},
	    {"tcp://[fe80::1%eth0]", "tcp", "fe80::1%eth0", "", 7263},
	    {"tcp://", "tcp", "", "", 7263},
	    {"tcp://:9000", "tcp", "", "", 9000},
	    {"tcp://localhost:0", "tcp", "localhost", "", 0},
	    {"tcp://h:1?lanes=2", "tcp", "h", "lanes=2", 1},
	    {"sim:100g?rate=10Gbit", "sim", "", "100g?rate=10Gbit", 7263},
	    {"sim:", "sim", "", "", 7263},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rf_error e = {0};
		struct rf_uri uri;

		if (rf_uri_parse(cases[i].text, &uri, &e) != 0)
			fail_msg("%s was refused: %s", cases[i].text, e.text);
		assert_string_equal(uri.scheme, cases[i].scheme);
		assert_string_equal(uri.host, cases[i].host);
		assert_string_equal(uri.rest, cases[i].rest);
		assert_int_equal(uri.port, cases[i].port);
	}
}

static void bad_addresses(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"host", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"host:7263", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"tcp:host", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"//host", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"averyveryverylongscheme://h", "write tcp://HOST or rdma://HOST, with or without :PORT"},
	    {"tcp://h:", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://h:65536", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://h:123456", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://h:-1", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://h:80x", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://[::1]80", "behind the host comes ':' and a port from 0 to 65535"},
	    {"tcp://2001:db8::1", "an IPv6 address stands in brackets, as in tcp://[2001:db8::1]:7263"},
	    {"tcp://[2001:db8::1", "a ']' is missing"},
	    {"tcp://[host]:80", "brackets are for IPv6 addresses"},
	    {"tcp://h/path", "the host's name has a character that no name has"},
	    {"tcp://a b", "the host's name has a character that no name has"},
	    {"tcp://user@h", "the host's name has a character that no name has"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rf_error e = {0};
		struct rf_uri uri;
		char expected[300];

		snprintf(expected, sizeof(expected), "\"%s\" is not an address: %s", cases[i].text, cases[i].why);
		assert_int_equal(rf_uri_parse(cases[i].text, &uri, &e), -1);
		assert_int_equal(e.code, RF_E_USAGE);
		assert_string_equal(e.text, expected);
	}
}

static void long_parts_are_refused(void **state)
{
	static const char *const starts[] = {"tcp://", "tcp://[", "tcp://h?", "sim:"};
	char part[300], text[400];
	struct rf_uri uri;

	memset(part, 'a', sizeof(part) - 1);
	part[sizeof(part) - 1] = '\0';
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct rf_error e = {0};

		snprintf(text, sizeof(text), "%s%s]", starts[i], part);
		assert_int_equal(rf_uri_parse(text, &uri, &e), -1);
		assert_non_null(strstr(e.text, "too long"));
	}
}

static void null_is_refused(void **state)
{
	struct rf_uri uri;

	assert_int_equal(rf_uri_parse(NULL, &uri, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(good_addresses),
	    cmocka_unit_test(bad_addresses),
	    cmocka_unit_test(long_parts_are_refused),
	    cmocka_unit_test(null_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
