// SPDX-License-Identifier: LGPL-2.1-or-later
/* The zero test sees every single bit of a page and none outside; the hash of a page is never 0. */
#include "scratch.h"

#include "memory/zero.h"

static _Alignas(RF_PAGE_BYTES) unsigned char memory[3 * RF_PAGE_BYTES];
static unsigned char *const page = memory + RF_PAGE_BYTES; /* the one in the middle */

static void every_bit_counts(void **state)
{
	memset(memory, 0, sizeof(memory));
	assert_true(rf_page_is_zero(page));
	for (int i = 0; i < RF_PAGE_BYTES * 8; i++) {
		page[i / 8] = (unsigned char)(1 << i % 8);
		assert_false(rf_page_is_zero(page));
		page[i / 8] = 0;
	}
}

static void neighbours_do_not_count(void **state)
{
	memset(memory, 0xff, sizeof(memory));
	memset(page, 0, RF_PAGE_BYTES);
	assert_true(rf_page_is_zero(page));
}

static void a_page_aligned_to_32_bytes_will_do(void **state)
{
	memset(memory, 0xff, sizeof(memory));
	memset(memory + 32, 0, RF_PAGE_BYTES);
	assert_true(rf_page_is_zero(memory + 32));
	memory[32 + RF_PAGE_BYTES - 1] = 1;
	assert_false(rf_page_is_zero(memory + 32));
}

static void a_hash_tells_pages_apart(void **state)
{
	uint64_t zero, other;

	memset(memory, 0, sizeof(memory));
	zero = rf_page_hash(page);
	assert_int_not_equal(zero, 0);
	for (int i = 0; i < RF_PAGE_BYTES; i++) {
		page[i] = 1;
		other = rf_page_hash(page);
		assert_int_not_equal(other, zero);
		assert_int_not_equal(other, 0);
		page[i] = 0;
	}
	assert_int_equal(rf_page_hash(page), zero);
	page[-1] = page[RF_PAGE_BYTES] = 1;
	assert_int_equal(rf_page_hash(page), zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_bit_counts),
	    cmocka_unit_test(neighbours_do_not_count),
	    cmocka_unit_test(a_page_aligned_to_32_bytes_will_do),
	    cmocka_unit_test(a_hash_tells_pages_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
