// SPDX-License-Identifier: LGPL-2.1-or-later
/* wp-async on real page tables: what it reports, what it cannot see (so that nobody builds on it), and what it says when
 * the guest is not there any more. */
#include "scratch.h"

#include "memory/uffd.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 2 * RF_SLICE_PAGES };

static struct rf_error e;
static const struct rf_run all = {0, PAGES};

static void need_the_kernel(void)
{
	struct rf_guest nobody = {0};

	if (rf_track_wp.probe(&nobody, &e)) {
		print_message("skipped: %s\n", e.text);
		skip();
	}
}

static struct rf_tracker *open_tracker(const struct scratch *s)
{
	struct rf_tracker *t;

	assert_good(rf_track_wp.open(s->guest, &t, &e), &e);
	return t;
}

static struct rf_tracker *armed(struct scratch *s)
{
	struct rf_tracker *t;

	need_the_kernel();
	scratch_open(s, PAGES, NULL, NULL);
	memset(s->memory, 1, PAGES << RF_PAGE_SHIFT);
	t = open_tracker(s);
	assert_good(t->ops->arm(t, 0, all, &e), &e);
	return t;
}

static void end(struct scratch *s, struct rf_tracker *t)
{
	t->ops->drop(t, 0, (struct rf_run){0, s->npages});
	t->ops->close(t);
	scratch_close(s);
}

static void collected_is(struct rf_tracker *t, struct rf_run slice, const char *text)
{
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, t->guest->blocks[0]->npages, &e), &e);
	assert_good(t->ops->collect(t, 0, slice, &dirty, &e), &e);
	assert_set(&dirty, text);
	rf_pages_free(&dirty);
}

static void a_write_is_reported_exactly_once(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);

	/* What was written before arming counts as not written, although the first scan reports it. */
	collected_is(t, all, "");
	scratch_touch(&s, 0, 2);
	scratch_touch(&s, 70, 2);
	scratch_touch(&s, 70, 3);
	scratch_touch(&s, PAGES - 1, 2);
	collected_is(t, all, "0 70 8191");
	collected_is(t, all, "");
	scratch_touch(&s, 70, 4);
	collected_is(t, all, "70");
	end(&s, t);
}

static void reading_is_not_writing(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	static char copy[64 * RF_PAGE_BYTES];

	for (uint64_t page = 0; page < PAGES; page += 64) {
		memcpy(copy, scratch_page(&s, page), sizeof(copy));
		s.block->ops->copy(s.block, (struct rf_run){page, 64}, copy);
	}
	collected_is(t, all, "");
	end(&s, t);
}

static void more_runs_than_one_scan_can_return(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	struct rf_pages dirty;

	for (uint64_t page = 0; page < PAGES; page += 2)
		scratch_touch(&s, page, 2);
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, all, &dirty, &e), &e);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(rf_pages_has(&dirty, page), page % 2 == 0);
	rf_pages_free(&dirty);
	collected_is(t, all, "");
	end(&s, t);
}

static void holes_filled_later_are_reported(void **state)
{
	struct scratch s;
	struct rf_tracker *t;

	need_the_kernel();
	scratch_open(&s, PAGES, NULL, NULL);
	scratch_touch(&s, 1, 1);
	t = open_tracker(&s);
	assert_good(t->ops->arm(t, 0, all, &e), &e);
	collected_is(t, all, "");
	assert_int_equal(scratch_allocated(&s), RF_PAGE_BYTES);
	/* Page 2 shares a page table with page 1, page 5000 has none yet: there more may be reported, never less. */
	scratch_touch(&s, 2, 1);
	scratch_touch(&s, 5000, 1);
	struct rf_pages dirty;

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, all, &dirty, &e), &e);
	assert_true(rf_pages_has(&dirty, 2));
	assert_false(rf_pages_has(&dirty, 1));
	assert_true(rf_pages_has(&dirty, 5000));
	rf_pages_free(&dirty);
	collected_is(t, all, "");
	assert_int_equal(scratch_allocated(&s), 3 * RF_PAGE_BYTES);
	end(&s, t);
}

/* Balloon and free page reporting: why the engine compares extents with what was ever sent. */
static void a_page_punched_while_armed_is_not_reported(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);

	scratch_punch(&s, 2, 1);
	collected_is(t, all, "");
	scratch_touch(&s, 2, 7);
	collected_is(t, all, "2");
	scratch_touch(&s, 3, 7);
	scratch_punch(&s, 5, 1);
	collected_is(t, all, "3");
	end(&s, t);
}

/* Direct I/O, vhost-user and the like: why the qemu part refuses them or takes drain points. */
static void writes_past_the_mapping_are_not_seen(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	char *other = mmap(NULL, PAGES << RF_PAGE_SHIFT, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);

	assert_ptr_not_equal(other, MAP_FAILED);
	*(volatile char *)(other + 7 * RF_PAGE_BYTES) = 9;
	assert_int_equal(pwrite(s.fd, "z", 1, 8 * RF_PAGE_BYTES), 1);
	assert_int_equal(*scratch_page(&s, 7), 9);
	collected_is(t, all, "");
	munmap(other, PAGES << RF_PAGE_SHIFT);
	end(&s, t);
}

/* read() into guest memory is a write of the kernel's through the guest's mapping. */
static void writes_of_the_kernel_are_seen(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "data", 4), 4);
	assert_int_equal(read(ends[0], scratch_page(&s, 12) - 2, 4), 4);
	collected_is(t, all, "11-12");
	close(ends[0]);
	close(ends[1]);
	end(&s, t);
}

static void huge_pages_are_reported_whole(void **state)
{
	struct scratch s;
	struct rf_tracker *t;

	need_the_kernel();
	if (!scratch_open_huge(&s, 6))
		skip();
	for (uint64_t page = 0; page < s.npages; page += 512)
		scratch_touch(&s, page, 1);
	scratch_punch(&s, 5 * 512, 512);
	t = open_tracker(&s);
	assert_good(t->ops->arm(t, 0, (struct rf_run){0, s.npages}, &e), &e);
	collected_is(t, (struct rf_run){0, s.npages}, "");
	scratch_touch(&s, 512 + 100, 2);
	scratch_touch(&s, 4 * 512 + 511, 2);
	collected_is(t, (struct rf_run){0, s.npages}, "512-1023 2048-2559");
	scratch_touch(&s, 5 * 512, 2);
	collected_is(t, (struct rf_run){0, s.npages}, "2560-3071");
	collected_is(t, (struct rf_run){0, s.npages}, "");
	end(&s, t);
}

struct part {
	struct rf_tracker *t;
	struct rf_run slice;
	struct rf_pages *dirty;
	struct rf_error e;
	int result;
};

static void *collect_part(void *arg)
{
	struct part *p = arg;

	p->result = p->t->ops->collect(p->t, 0, p->slice, p->dirty, &p->e);
	return NULL;
}

static void slices_are_collected_at_once(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	struct rf_pages dirty;
	struct part parts[2];
	pthread_t threads[2];

	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	for (uint64_t page = 0; page < PAGES; page += 3)
		scratch_touch(&s, page, 2);
	for (uint64_t i = 0; i < 2; i++) {
		parts[i] = (struct part){.t = t, .slice = {i * RF_SLICE_PAGES, RF_SLICE_PAGES}, .dirty = &dirty};
		assert_int_equal(pthread_create(&threads[i], NULL, collect_part, &parts[i]), 0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_good(parts[i].result, &parts[i].e);
	}
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(rf_pages_has(&dirty, page), page % 3 == 0);
	rf_pages_free(&dirty);
	end(&s, t);
}

static void a_dropped_slice_is_an_error_and_the_others_go_on(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	struct rf_pages dirty;

	t->ops->drop(t, 0, (struct rf_run){0, RF_SLICE_PAGES});
	scratch_touch(&s, 5, 2);
	scratch_touch(&s, RF_SLICE_PAGES + 5, 2);
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_fails(t->ops->collect(t, 0, (struct rf_run){0, RF_SLICE_PAGES}, &dirty, &e), &e,
		     "block \"ram\": the guest's memory between");
	assert_set(&dirty, "");
	rf_pages_free(&dirty);
	collected_is(t, (struct rf_run){RF_SLICE_PAGES, RF_SLICE_PAGES}, "4101");
	end(&s, t);
}

/* More than one piece of what is unregistered at once, and an end that is no multiple of it. */
static void a_big_block_is_dropped_to_its_end(void **state)
{
	struct rf_tracker *t, *second;
	struct scratch s;

	need_the_kernel();
	scratch_open(&s, 40000, NULL, NULL);
	scratch_touch(&s, 39999, 1);
	t = open_tracker(&s);
	assert_good(t->ops->arm(t, 0, (struct rf_run){0, s.npages}, &e), &e);
	assert_fails(rf_track_wp.open(s.guest, &second, &e), &e, "is tracked by somebody else already");
	t->ops->drop(t, 0, (struct rf_run){0, s.npages});
	second = open_tracker(&s);
	t->ops->close(t); /* which takes nothing from its successor */
	assert_good(second->ops->arm(second, 0, (struct rf_run){0, s.npages}, &e), &e);
	scratch_touch(&s, 39999, 2);
	collected_is(second, (struct rf_run){0, s.npages}, "39999");
	end(&s, second);
}

static void memory_that_was_mapped_anew_is_an_error(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s);
	struct rf_pages dirty;

	assert_ptr_equal(mmap(scratch_page(&s, 10), RF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, s.fd,
			      10 * RF_PAGE_BYTES),
			 scratch_page(&s, 10));
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_fails(t->ops->collect(t, 0, all, &dirty, &e), &e, "is not tracked any more");
	assert_int_equal(munmap(scratch_page(&s, 10), RF_PAGE_BYTES), 0);
	assert_fails(t->ops->arm(t, 0, all, &e), &e, "only 33550336 of 33554432 bytes");
	rf_pages_free(&dirty);
	end(&s, t);
}

static void only_one_can_track(void **state)
{
	struct scratch s;
	struct rf_tracker *t = armed(&s), *second;

	assert_fails(rf_track_wp.open(s.guest, &second, &e), &e, "is tracked by somebody else already");
	/* Closing alone ends it, also when nothing was dropped; then another may. */
	t->ops->close(t);
	second = open_tracker(&s);
	assert_good(second->ops->arm(second, 0, all, &e), &e);
	scratch_touch(&s, 1, 2);
	collected_is(second, all, "1");
	end(&s, second);
}

/* A guest in a process of its own: it maps the same file, makes its userfaultfd, then writes a page per byte told. */
struct remote {
	pid_t pid;
	int command, answer, userfaultfd_there;
};

static void run_remote(struct scratch *s, int command, int answer)
{
	int fd = rf_userfaultfd();
	unsigned char page;

	if (write(answer, &fd, sizeof(fd)) != sizeof(fd))
		_exit(1);
	while (read(command, &page, 1) == 1) {
		scratch_touch(s, page, 3);
		if (write(answer, &page, 1) != 1)
			break;
	}
	_exit(0);
}

static int open_remote(void *ctx, int *userfaultfd, int *pagemap, struct rf_error *why)
{
	struct remote *r = ctx;
	int pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	char path[64];

	*userfaultfd = (int)syscall(SYS_pidfd_getfd, pidfd, r->userfaultfd_there, 0);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)r->pid);
	*pagemap = open(path, O_RDONLY | O_CLOEXEC);
	close(pidfd);
	if (*userfaultfd < 0 || *pagemap < 0)
		return rf_fail(why, RF_E_FAILED, "no access to the child");
	return 0;
}

static void the_death_of_the_guests_process_is_noticed(void **state)
{
	static const struct rf_lifecycle_ops ops = {.open_tracking = open_remote};
	struct remote r = {0};
	struct scratch s;
	struct rf_tracker *t;
	struct rf_pages dirty;
	int command[2], answer[2];
	unsigned char page = 200;

	need_the_kernel();
	scratch_open(&s, PAGES, &ops, &r);
	memset(s.memory, 1, PAGES << RF_PAGE_SHIFT);
	assert_int_equal(pipe(command) | pipe(answer), 0);
	r.pid = fork();
	assert_true(r.pid >= 0);
	if (!r.pid)
		run_remote(&s, command[0], answer[1]);
	assert_int_equal(read(answer[0], &r.userfaultfd_there, sizeof(int)), sizeof(int));
	t = open_tracker(&s);
	assert_good(t->ops->arm(t, 0, all, &e), &e);
	assert_int_equal(write(command[1], &page, 1), 1);
	assert_int_equal(read(answer[0], &page, 1), 1);
	scratch_touch(&s, 300, 2); /* through our mapping: not the guest */
	assert_good(rf_pages_init(&dirty, PAGES, &e), &e);
	assert_good(t->ops->collect(t, 0, all, &dirty, &e), &e);
	assert_true(rf_pages_has(&dirty, 200));
	assert_false(rf_pages_has(&dirty, 300));

	kill(r.pid, SIGKILL);
	assert_int_equal(waitpid(r.pid, NULL, 0), r.pid);
	assert_fails(t->ops->collect(t, 0, all, &dirty, &e), &e,
		     "block \"ram\": the process that runs the guest is gone");
	assert_fails(t->ops->arm(t, 0, all, &e), &e, "the process that runs the guest is gone");
	rf_pages_free(&dirty);
	for (int i = 0; i < 2; i++) {
		close(command[i]);
		close(answer[i]);
	}
	end(&s, t);
}

static void pages_of_1_gib_are_refused(void **state)
{
	struct scratch s;

	scratch_open(&s, 1, NULL, NULL);
	s.block->page_bytes = 1 << 30;
	assert_fails(rf_track_wp.probe(s.guest, &e), &e, "pages of 1 GiB");
	scratch_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_write_is_reported_exactly_once),
	    cmocka_unit_test(reading_is_not_writing),
	    cmocka_unit_test(more_runs_than_one_scan_can_return),
	    cmocka_unit_test(holes_filled_later_are_reported),
	    cmocka_unit_test(a_page_punched_while_armed_is_not_reported),
	    cmocka_unit_test(writes_past_the_mapping_are_not_seen),
	    cmocka_unit_test(writes_of_the_kernel_are_seen),
	    cmocka_unit_test(huge_pages_are_reported_whole),
	    cmocka_unit_test(slices_are_collected_at_once),
	    cmocka_unit_test(a_dropped_slice_is_an_error_and_the_others_go_on),
	    cmocka_unit_test(a_big_block_is_dropped_to_its_end),
	    cmocka_unit_test(memory_that_was_mapped_anew_is_an_error),
	    cmocka_unit_test(only_one_can_track),
	    cmocka_unit_test(the_death_of_the_guests_process_is_noticed),
	    cmocka_unit_test(pages_of_1_gib_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
