// SPDX-License-Identifier: LGPL-2.1-or-later
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct rf_lifecycle_ops nothing;

static void make_guest(struct scratch *s, const struct rf_lifecycle_ops *ops, void *ctx)
{
	struct rf_block_source source = {
	    .name = "ram",
	    .length = s->npages << RF_PAGE_SHIFT,
	    .fd = s->fd,
	    .guest_address = (uint64_t)s->memory,
	};
	struct rf_error e;

	assert_good(rf_block_open(&source, &s->block, &e), &e);
	s->guest = rf_guest_create(ops ? ops : &nothing, ctx);
	assert_non_null(s->guest);
	assert_good(rf_guest_add(s->guest, s->block, &e), &e);
}

void scratch_open(struct scratch *s, uint64_t npages, const struct rf_lifecycle_ops *ops, void *ctx)
{
	*s = (struct scratch){.npages = npages};
	s->fd = memfd_create("scratch", MFD_CLOEXEC);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)(npages << RF_PAGE_SHIFT)), 0);
	s->memory = mmap(NULL, npages << RF_PAGE_SHIFT, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_ptr_not_equal(s->memory, MAP_FAILED);
	make_guest(s, ops, ctx);
}

bool scratch_open_huge(struct scratch *s, uint64_t huge_pages)
{
	*s = (struct scratch){.npages = huge_pages * 512};
	s->fd = memfd_create("scratch", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
	if (s->fd >= 0) {
		assert_int_equal(ftruncate(s->fd, (off_t)(s->npages << RF_PAGE_SHIFT)), 0);
		s->memory = mmap(NULL, s->npages << RF_PAGE_SHIFT, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	}
	if (s->fd < 0 || s->memory == MAP_FAILED) {
		const char *why = getenv("WHY_NO_HUGE_PAGES");

		print_message("skipped: no huge pages (%s): tests/support/with-huge-pages gets some\n",
			      why ? why : strerror(errno));
		if (s->fd >= 0)
			close(s->fd);
		return false;
	}
	make_guest(s, NULL, NULL);
	return true;
}

/* Mapped where the kernel can use huge pages: at a multiple of their size. */
static void *map_aligned(int fd, uint64_t length)
{
	const uint64_t huge = 2 << 20;
	char *room = mmap(NULL, length + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(room, MAP_FAILED);
	char *at = (char *)(((uint64_t)room + huge - 1) & ~(huge - 1));

	munmap(room, (size_t)(at - room));
	munmap(at + length, (size_t)(room + huge - at));
	return mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
}

bool scratch_open_transparent(struct scratch *s, uint64_t huge_pages)
{
	const char *dir = getenv("RAMFERRY_THP_DIR"), *why = getenv("WHY_NO_HUGE_PAGES");

	*s = (struct scratch){.npages = huge_pages * 512};
	if (!dir) {
		print_message("skipped: no transparent huge pages (%s): tests/support/with-huge-pages gets some\n",
			      why ? why : "RAMFERRY_THP_DIR is not set");
		return false;
	}
	s->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)(s->npages << RF_PAGE_SHIFT)), 0);
	s->memory = map_aligned(s->fd, s->npages << RF_PAGE_SHIFT);
	assert_ptr_not_equal(s->memory, MAP_FAILED);
	make_guest(s, NULL, NULL);
	return true;
}

void scratch_close(struct scratch *s)
{
	rf_guest_destroy(s->guest);
	munmap(s->memory, s->npages << RF_PAGE_SHIFT);
	close(s->fd);
}

void scratch_touch(const struct scratch *s, uint64_t page, char value)
{
	*(volatile char *)scratch_page(s, page) = value;
}

void scratch_punch(const struct scratch *s, uint64_t page, uint64_t count)
{
	assert_int_equal(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(page << RF_PAGE_SHIFT),
				   (off_t)(count << RF_PAGE_SHIFT)),
			 0);
}

uint64_t scratch_allocated(const struct scratch *s)
{
	struct stat st;

	assert_int_equal(fstat(s->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

uint64_t resident_anon_kib(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[200];
	unsigned long long kib = 0;

	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
			break;
	fclose(status);
	return kib;
}

const char *set_text(const struct rf_pages *p)
{
	static char text[4096];
	struct rf_run run;
	size_t n = 0;

	text[0] = '\0';
	for (uint64_t at = 0; rf_pages_next(p, at, p->npages, &run) && n < sizeof(text) - 64;
	     at = run.first + run.count) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, n ? " %llu" : "%llu", (unsigned long long)run.first);
		if (run.count > 1)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "-%llu",
					      (unsigned long long)(run.first + run.count - 1));
	}
	return text;
}
