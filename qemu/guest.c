// SPDX-License-Identifier: LGPL-2.1-or-later
/* A running, unmodified QEMU as a guest: finding it, refusing what cannot be moved, its memory. What happens at the
 * hand-off is in guest_source.c and guest_destination.c.
 *
 * Opening touches nothing: the monitor is entered and the process is locked against a second ramferry. Memory is looked
 * for in check(), because only then it is known whether it will be read or written. */
#include "qemu/guest.h"

#include "qemu/check.h"
#include "qemu/inject.h"
#include "qemu/ram.h"
#include "ramferry.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OLDEST_QEMU = 70200 };

/* ---- Checks and memory ------------------------------------------------------------------------------------------------ */

static int add_block(struct rf_qemu *g, const struct rf_ram *ram, bool writable, struct rf_error *e)
{
	int fd;
	struct rf_block *block;
	if (rf_mapping_check_alone(&g->process, &ram->mapping, e) != 0 ||
	    rf_mapping_open(&g->process, &ram->mapping, writable, &fd, e) != 0)
		return -1;
	struct rf_block_source source = {
	    .name = ram->id,
	    .length = ram->size,
	    .fd = fd,
	    .fd_offset = ram->mapping.file_offset,
	    .guest_address = ram->address,
	    .writable = writable,
	};
	int r = rf_block_open(&source, &block, e);
	close(fd);
	return r == 0 ? rf_guest_add(g->guest, block, e) : -1;
}

static int add_blocks(struct rf_qemu *g, enum rf_role role, struct rf_error *e)
{
	struct rf_ram *ram;
	unsigned count;
	if (rf_ram_list(g->qmp, &g->process, &ram, &count, e) != 0)
		return -1;
	int r = 0;
	for (unsigned i = 0; i < count && r == 0; i++)
		r = add_block(g, &ram[i], role == RF_ROLE_DESTINATION, e);
	free(ram);
	g->blocks_known = r == 0;
	return r;
}

static int check(void *ctx, enum rf_role role, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	struct rf_error unheard;
	if (!e)
		e = &unheard;
	int r = role == RF_ROLE_SOURCE ? rf_check_source_state(g->qmp, e)
				       : rf_check_destination_state(g->qmp, g->process.pid, e);
	if (r == 0 && !g->blocks_known)
		r = add_blocks(g, role, e);
	if (r == 0 && role == RF_ROLE_SOURCE)
		r = rf_check_writers(g->qmp, g->process.pid, g->guest, e);
	if (r != 0)
		e->code = RF_E_REFUSED;
	return r;
}

static int prepare(void *ctx, enum rf_role role, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	assert(g->blocks_known);
	if (rf_settings_change(g->qmp, role, &g->settings, e) != 0)
		return -1;
	g->touched = true;
	/* While QEMU waits for a guest, `stop` means: do not run it when it is there. As -S, which may be missing. */
	if (role == RF_ROLE_DESTINATION)
		return rf_qmp_call(g->qmp, "stop", NULL, NULL, e) == 0 ? rf_qemu_await_state(g, e) : -1;
	return 0;
}

static int open_tracking(void *ctx, int *userfaultfd, int *pagemap, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	char name[32];
	snprintf(name, sizeof(name), "/proc/%d/pagemap", (int)g->process.pid);
	int map = open(name, O_RDONLY | O_CLOEXEC);
	if (map < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot open %s (run as root or as QEMU's user)", name);
	if (rf_inject_userfaultfd(g->process.pid, g->process.pidfd, userfaultfd, e) != 0) {
		close(map);
		return -1;
	}
	*pagemap = map;
	return 0;
}

/* ---- Facts ------------------------------------------------------------------------------------------------------------ */

struct facts {
	char machine[128], cpu[128], arch[32];
	bool kvm;
	json_int_t ram;
	size_t cpus;
};

static void copy_text(char *to, size_t length, const json_t *text, const char *ending)
{
	snprintf(to, length, "%s", json_is_string(text) ? json_string_value(text) : "?");
	size_t n = strlen(to), m = strlen(ending);
	if (n > m && strcmp(to + n - m, ending) == 0)
		to[n - m] = 0;
}

static int query_type(struct rf_qmp *q, const char *path, const char *ending, char *to, size_t length,
		      struct rf_error *e)
{
	json_t *answer;
	if (rf_qmp_call(q, "qom-get", json_pack("{s:s,s:s}", "path", path, "property", "type"), &answer, e) != 0)
		return -1;
	copy_text(to, length, answer, ending);
	json_decref(answer);
	return 0;
}

static int query_cpus(struct rf_qmp *q, struct facts *f, struct rf_error *e)
{
	json_t *cpus;
	if (rf_qmp_call(q, "query-cpus-fast", NULL, &cpus, e) != 0)
		return -1;
	f->cpus = json_array_size(cpus);
	const char *path = json_string_value(json_object_get(json_array_get(cpus, 0), "qom-path"));
	int r = path ? query_type(q, path, "-cpu", f->cpu, sizeof(f->cpu), e)
		     : rf_fail(e, RF_E_FAILED, "this guest has no CPU");
	json_decref(cpus);
	return r;
}

static int query_rest(struct rf_qmp *q, struct facts *f, struct rf_error *e)
{
	json_t *target, *kvm, *memory;
	if (rf_qmp_call(q, "query-target", NULL, &target, e) != 0)
		return -1;
	copy_text(f->arch, sizeof(f->arch), json_object_get(target, "arch"), "");
	json_decref(target);
	if (rf_qmp_call(q, "query-kvm", NULL, &kvm, e) != 0)
		return -1;
	f->kvm = json_is_true(json_object_get(kvm, "enabled"));
	json_decref(kvm);
	if (rf_qmp_call(q, "query-memory-size-summary", NULL, &memory, e) != 0)
		return -1;
	f->ram = json_integer_value(json_object_get(memory, "base-memory")) +
		 json_integer_value(json_object_get(memory, "plugged-memory"));
	json_decref(memory);
	return 0;
}

static int facts(void *ctx, char *text, size_t length, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	struct facts f = {0};
	if (query_type(g->qmp, "/machine", "-machine", f.machine, sizeof(f.machine), e) != 0 ||
	    query_cpus(g->qmp, &f, e) != 0 || query_rest(g->qmp, &f, e) != 0)
		return -1;
	int n = snprintf(text, length,
			 "accelerator=%s\n"
			 "arch=%s\n"
			 "cpu=%s\n"
			 "cpus=%zu\n"
			 "machine=%s\n"
			 "ram=%" JSON_INTEGER_FORMAT "\n",
			 f.kvm ? "kvm" : "other", f.arch, f.cpu, f.cpus, f.machine, f.ram);
	return n >= 0 && (size_t)n < length ? 0
					    : rf_fail(e, RF_E_FAILED, "this machine takes too many words to describe");
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------------ */

static void close_qemu(void *ctx)
{
	struct rf_qemu *g = ctx;
	if (g->posted) /* QEMU drops what it has not read when a client leaves */
		rf_qmp_call(g->qmp, "query-status", NULL, NULL, NULL);
	rf_qemu_stream_close(g);
	rf_settings_forget(&g->settings);
	rf_qmp_close(g->qmp);
	rf_process_close(&g->process);
	free(g);
}

static int alive(void *ctx, struct rf_error *e)
{
	struct rf_qemu *g = ctx;
	if (!rf_process_ended(&g->process, 0))
		return 0;
	return rf_fail(e, RF_E_FAILED, "QEMU (process %d) has ended", (int)g->process.pid);
}

static const struct rf_lifecycle_ops qemu_ops = {
    .check = check,
    .facts = facts,
    .prepare = prepare,
    .open_tracking = open_tracking,
    .drain = rf_qemu_drain,
    .hold = rf_qemu_hold,
    .open_soft_dirty = rf_qemu_open_soft_dirty,
    .pause = rf_qemu_pause,
    .save = rf_qemu_save,
    .load_early = rf_qemu_load_early,
    .load = rf_qemu_load,
    .resume = rf_qemu_resume,
    .undo = rf_qemu_undo,
    .discard = rf_qemu_discard,
    .finish = rf_qemu_finish,
    .alive = alive,
    .close = close_qemu,
};

struct rf_qemu *rf_qemu_of(const struct rf_guest *guest)
{
	return guest->ops == &qemu_ops ? guest->ctx : NULL;
}

static void on_event(void *arg, const char *name, const json_t *data)
{
	struct rf_qemu *g = arg;
	const char *status = json_string_value(json_object_get(data, "status"));
	if (strcmp(name, "MIGRATION") == 0 && status)
		snprintf(g->status, sizeof(g->status), "%s", status);
	if (strcmp(name, "STOP") == 0) {
		g->stopped = true;
		g->stopped_us = rf_qmp_event_us(g->qmp);
	}
	g->resumed |= strcmp(name, "RESUME") == 0;
}

static int enter(struct rf_qemu *g, const char *path, pid_t pid, struct rf_error *e)
{
	if (rf_qmp_connect(path, &g->qmp, e) != 0)
		return -1;
	pid_t owner = rf_qmp_peer(g->qmp);
	if (!pid && !owner)
		return rf_fail(e, RF_E_REFUSED,
			       "the QEMU behind %s runs in another process namespace: give its process id", path);
	/* The lock before the greeting: a monitor that another ramferry holds is silent, and this says why. */
	if (rf_process_open(&g->process, pid ? pid : owner, e) != 0 || rf_qmp_greet(g->qmp, e) != 0)
		return -1;
	int version = rf_qmp_version(g->qmp);
	if (version < OLDEST_QEMU)
		return rf_fail(e, RF_E_REFUSED,
			       "the QEMU behind %s is version %d.%d, but 7.2 is the oldest that will do", path,
			       version / 10000, version / 100 % 100);
	rf_qmp_on_event(g->qmp, on_event, g);
	return 0;
}

static rf_result fail(const struct rf_error *e, char *why, size_t why_length)
{
	if (why && why_length)
		snprintf(why, why_length, "%s", e->text);
	return (rf_result)e->code;
}

rf_result rf_guest_open_qemu(rf_guest **out, const char *qmp, int pid, char *why, size_t why_length)
{
	struct rf_error e = {0};
	if (!out || !qmp || pid < 0) {
		rf_fail(&e, RF_E_USAGE, "a guest needs the path of a QMP socket, and a process id of at least 0");
		return fail(&e, why, why_length);
	}
	struct rf_qemu *g = calloc(1, sizeof(*g));
	if (!g) {
		rf_fail(&e, RF_E_FAILED, "out of memory");
		return fail(&e, why, why_length);
	}
	g->stream = g->process.pidfd = g->process.lock = -1;
	if (enter(g, qmp, pid, &e) != 0) {
		close_qemu(g);
		return fail(&e, why, why_length);
	}
	g->guest = rf_guest_create(&qemu_ops, g);
	if (!g->guest) {
		close_qemu(g);
		rf_fail(&e, RF_E_FAILED, "out of memory");
		return fail(&e, why, why_length);
	}
	*out = g->guest;
	return RF_OK;
}
