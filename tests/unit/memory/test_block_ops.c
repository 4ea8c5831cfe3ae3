// SPDX-License-Identifier: LGPL-2.1-or-later
/* What is done with pages, and that it leaves holes alone: on memfds, on anonymous memory, on huge pages. */
#include "scratch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rf_error e;

static struct rf_pages extents_of(const struct rf_block *b, uint64_t first, uint64_t count)
{
	struct rf_pages data;

	assert_good(rf_pages_init(&data, b->npages, &e), &e);
	assert_good(b->ops->extents(b, (struct rf_run){first, count}, &data, &e), &e);
	return data;
}

static void extents_are(const struct rf_block *b, uint64_t first, uint64_t count, const char *text)
{
	struct rf_pages data = extents_of(b, first, count);

	assert_set(&data, text);
	rf_pages_free(&data);
}

static struct rf_digest digest_of(const struct rf_block *b, uint64_t first, uint64_t count)
{
	struct rf_digest d;

	assert_good(b->ops->digest(b, (struct rf_run){first, count}, &d, &e), &e);
	return d;
}

static bool same(struct rf_digest a, struct rf_digest b)
{
	return a.low == b.low && a.high == b.high;
}

/* A block on the same file that may be changed, as the destination has it. */
static struct rf_block *writable(const struct scratch *s, int fd)
{
	struct rf_block_source source = {
	    .name = "ram",
	    .length = s->npages << RF_PAGE_SHIFT,
	    .fd = fd,
	    .memory = fd < 0 ? s->memory : NULL,
	    .writable = true,
	};
	struct rf_block *b;

	assert_good(rf_block_open(&source, &b, &e), &e);
	return b;
}

static void extents_follow_the_file(void **state)
{
	struct scratch s;

	scratch_open(&s, 10000, NULL, NULL);
	extents_are(s.block, 0, 10000, "");
	scratch_touch(&s, 0, 1);
	scratch_touch(&s, 4095, 1);
	scratch_touch(&s, 4096, 1);
	scratch_touch(&s, 9999, 0); /* a page of zeros is data */
	extents_are(s.block, 0, 10000, "0 4095-4096 9999");
	extents_are(s.block, 1, 4095, "4095");
	extents_are(s.block, 4096, 4096, "4096");
	extents_are(s.block, 5000, 0, "");
	scratch_punch(&s, 0, 4096);
	extents_are(s.block, 0, 10000, "4096 9999");
	scratch_close(&s);
}

/* mincore() tells such a user that every page is there. */
static void extents_are_right_for_one_who_may_only_read(void **state)
{
	struct rf_block_source source = {.name = "ram", .length = 1000 * RF_PAGE_BYTES};
	struct rf_block *b;
	struct scratch s;

	if (geteuid()) {
		print_message("skipped: only root can become somebody else\n");
		skip();
	}
	scratch_open(&s, 1000, NULL, NULL);
	memset(scratch_page(&s, 100), 1, 50 * RF_PAGE_BYTES);
	scratch_touch(&s, 999, 1);
	source.fd = s.fd;
	assert_int_equal(fchmod(s.fd, 0444), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_good(rf_block_open(&source, &b, &e), &e);
	extents_are(b, 0, 1000, "100-149 999");
	b->ops->close(b);
	assert_int_equal(seteuid(0), 0);
	scratch_close(&s);
}

static void extents_of_a_checkered_file(void **state)
{
	struct rf_pages data;
	struct scratch s;

	scratch_open(&s, 20000, NULL, NULL);
	/* Stretches of 1, 2, 3 … pages, holes of the same lengths between them. */
	for (uint64_t page = 0, n = 1; page + 2 * n < 20000; page += 2 * n++)
		memset(scratch_page(&s, page), 1, n << RF_PAGE_SHIFT);
	for (uint64_t slice = 1; slice <= 20000; slice *= 9) {
		assert_good(rf_pages_init(&data, 20000, &e), &e);
		for (uint64_t first = 0; first < 20000; first += slice) {
			struct rf_run range = {first, slice < 20000 - first ? slice : 20000 - first};

			assert_good(s.block->ops->extents(s.block, range, &data, &e), &e);
		}
		for (uint64_t page = 0, n = 1; page + 2 * n < 20000; page += 2 * n++) {
			assert_int_equal(rf_pages_count(&data, page, n), n);
			assert_int_equal(rf_pages_count(&data, page + n, n), 0);
		}
		rf_pages_free(&data);
	}
	scratch_close(&s);
}

static void zero_pages_are_found(void **state)
{
	struct rf_pages zero;
	struct scratch s;

	scratch_open(&s, 64, NULL, NULL);
	for (uint64_t page = 8; page < 24; page++)
		scratch_touch(&s, page, page == 9 || page == 23);
	scratch_page(&s, 12)[4095] = 1;
	assert_good(rf_pages_init(&zero, 64, &e), &e);
	s.block->ops->find_zero(s.block, (struct rf_run){9, 15}, &zero);
	assert_set(&zero, "10-11 13-22");
	rf_pages_free(&zero);
	scratch_close(&s);
}

static void copy_copies(void **state)
{
	static char to[3 * RF_PAGE_BYTES];
	struct scratch s;

	scratch_open(&s, 8, NULL, NULL);
	memset(scratch_page(&s, 2), 7, sizeof(to));
	s.block->ops->copy(s.block, (struct rf_run){2, 3}, to);
	assert_memory_equal(to, scratch_page(&s, 2), sizeof(to));
	scratch_close(&s);
}

static void a_hole_and_a_zero_page_have_the_same_digest(void **state)
{
	struct rf_digest empty, holes, other;
	struct scratch s;

	scratch_open(&s, 64, NULL, NULL);
	empty = digest_of(s.block, 0, 64);
	scratch_touch(&s, 3, 0);
	assert_true(same(empty, digest_of(s.block, 0, 64)));
	scratch_touch(&s, 5, 1);
	holes = digest_of(s.block, 0, 64);
	assert_false(same(empty, holes));
	scratch_touch(&s, 4, 0);
	scratch_touch(&s, 6, 0);
	assert_true(same(holes, digest_of(s.block, 0, 64)));
	scratch_punch(&s, 3, 2);
	assert_true(same(holes, digest_of(s.block, 0, 64)));

	/* Where bytes are matters, and every one of them does. */
	scratch_touch(&s, 5, 0);
	scratch_touch(&s, 6, 1);
	other = digest_of(s.block, 0, 64);
	assert_false(same(holes, other));
	scratch_page(&s, 6)[4095] ^= 1;
	assert_false(same(other, digest_of(s.block, 0, 64)));
	assert_true(same(empty, digest_of(s.block, 7, 57)));
	scratch_close(&s);
}

static void a_sparse_guest_stays_sparse(void **state)
{
	const uint64_t npages = 20ull << 18; /* 20 GiB */
	struct rf_digest before, after;
	struct rf_pages data;
	struct scratch s;
	uint64_t allocated;

	scratch_open(&s, npages, NULL, NULL);
	for (uint64_t i = 0; i < 1000; i++)
		scratch_touch(&s, i * 5003, (char)(i | 1));
	allocated = scratch_allocated(&s);
	data = extents_of(s.block, 0, npages);
	assert_int_equal(rf_pages_count(&data, 0, npages), 1000);
	before = digest_of(s.block, 0, npages);
	for (uint64_t first = 0; first < npages; first += RF_SLICE_PAGES)
		digest_of(s.block, first, RF_SLICE_PAGES);
	assert_int_equal(scratch_allocated(&s), allocated);

	/* Nor does clearing at the destination allocate, and it gives everything back. */
	struct rf_block *b = writable(&s, s.fd);

	assert_good(b->ops->clear(b, (struct rf_run){0, npages}, true, &e), &e);
	assert_int_equal(scratch_allocated(&s), allocated);
	after = digest_of(b, 0, npages);
	assert_false(same(before, after));
	assert_good(b->ops->clear(b, (struct rf_run){0, npages}, false, &e), &e);
	assert_int_equal(scratch_allocated(&s), 0);
	assert_true(same(after, digest_of(b, 0, npages)));
	b->ops->close(b);
	rf_pages_free(&data);
	scratch_close(&s);
}

static void clearing_keeps_the_pages_that_are_registered(void **state)
{
	struct rf_block *b;
	struct scratch s;

	scratch_open(&s, 64, NULL, NULL);
	b = writable(&s, s.fd);
	memset(scratch_page(&s, 10), 0x55, 20 * RF_PAGE_BYTES);
	assert_good(b->ops->clear(b, (struct rf_run){8, 12}, true, &e), &e);
	extents_are(b, 0, 64, "10-29");
	assert_int_equal(scratch_page(&s, 19)[4095], 0);
	assert_int_equal(scratch_page(&s, 20)[0], 0x55);
	assert_good(b->ops->clear(b, (struct rf_run){8, 12}, false, &e), &e);
	extents_are(b, 0, 64, "20-29");
	b->ops->close(b);
	scratch_close(&s);
}

static void anonymous_memory_is_cleared_too(void **state)
{
	static const int kinds[] = {MAP_SHARED, MAP_PRIVATE};

	for (int i = 0; i < 4; i++) {
		struct scratch s = {.npages = 64, .fd = -1};
		struct rf_block *b;

		s.memory = mmap(NULL, 64 * RF_PAGE_BYTES, PROT_READ | PROT_WRITE, kinds[i / 2] | MAP_ANONYMOUS, -1, 0);
		assert_ptr_not_equal(s.memory, MAP_FAILED);
		memset(s.memory, 0x55, 64 * RF_PAGE_BYTES);
		b = writable(&s, -1);
		assert_good(b->ops->clear(b, (struct rf_run){1, 62}, i % 2, &e), &e);
		for (int at = 0; at < 64 * RF_PAGE_BYTES; at++)
			assert_int_equal(s.memory[at], at < RF_PAGE_BYTES || at >= 63 * RF_PAGE_BYTES ? 0x55 : 0);
		b->ops->close(b);
		munmap(s.memory, 64 * RF_PAGE_BYTES);
	}
}

static void holes_between_huge_pages_are_found(void **state)
{
	struct rf_block *read_only;
	struct scratch s;
	char path[64];

	if (!scratch_open_huge(&s, 8))
		skip();
	assert_int_equal(s.block->page_bytes, 2 << 20);
	extents_are(s.block, 0, s.npages, "");
	scratch_page(&s, 3 * 512)[4097] = 1;
	scratch_touch(&s, 5 * 512, 0);
	scratch_touch(&s, 6 * 512 + 511, 1);
	uint64_t allocated = scratch_allocated(&s);

	extents_are(s.block, 0, s.npages, "1536-2047 2560-3583");
	extents_are(s.block, 1600, 1000, "1600-2047 2560-2599");
	assert_false(same(digest_of(s.block, 0, 1537), digest_of(s.block, 0, 1538)));
	assert_int_equal(scratch_allocated(&s), allocated);

	/* By reading, where the descriptor gives no better way: a huge page of zeros is a hole then. */
	struct rf_block_source source = {.name = "ram", .length = s.npages << RF_PAGE_SHIFT};

	snprintf(path, sizeof(path), "/proc/self/fd/%d", s.fd);
	source.fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(source.fd >= 0);
	assert_good(rf_block_open(&source, &read_only, &e), &e);
	extents_are(read_only, 0, s.npages, "1536-2047 3072-3583");
	extents_are(read_only, 1537, 2000, "1537-2047");
	extents_are(read_only, 3500, 83, "");
	assert_int_equal(scratch_allocated(&s), allocated);
	read_only->ops->close(read_only);
	close(source.fd);
	scratch_close(&s);
}

static void huge_pages_are_cleared_to_the_byte(void **state)
{
	struct rf_block *b;
	struct scratch s;

	if (!scratch_open_huge(&s, 6))
		skip();
	b = writable(&s, s.fd);
	memset(s.memory, 0x55, s.npages << RF_PAGE_SHIFT);
	assert_good(b->ops->clear(b, (struct rf_run){100, 2000}, false, &e), &e);
	/* Huge pages 1, 2 and 3 went back whole; of 0 and 4 only the bytes are gone. */
	extents_are(b, 0, s.npages, "0-511 2048-3071");
	assert_int_equal(scratch_page(&s, 100)[-1], 0x55);
	assert_int_equal(scratch_page(&s, 100)[0], 0);
	assert_int_equal(scratch_page(&s, 2100)[-1], 0);
	assert_int_equal(scratch_page(&s, 2100)[0], 0x55);
	b->ops->close(b);
	scratch_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(extents_follow_the_file),
	    cmocka_unit_test(extents_are_right_for_one_who_may_only_read),
	    cmocka_unit_test(extents_of_a_checkered_file),
	    cmocka_unit_test(zero_pages_are_found),
	    cmocka_unit_test(copy_copies),
	    cmocka_unit_test(a_hole_and_a_zero_page_have_the_same_digest),
	    cmocka_unit_test(a_sparse_guest_stays_sparse),
	    cmocka_unit_test(clearing_keeps_the_pages_that_are_registered),
	    cmocka_unit_test(anonymous_memory_is_cleared_too),
	    cmocka_unit_test(holes_between_huge_pages_are_found),
	    cmocka_unit_test(huge_pages_are_cleared_to_the_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
