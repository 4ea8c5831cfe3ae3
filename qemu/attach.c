// SPDX-License-Identifier: LGPL-2.1-or-later
/* Files are compared by device and inode only, as /proc shows them; paths serve sentences. The lock lies on the process's
 * folder in /proc: there is exactly one, everybody can open it, and nothing of it outlives us or the process. */
#include "qemu/attach.h"

#include "qemu/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int rf_process_open(struct rf_process *p, pid_t pid, struct rf_error *e)
{
	*p = (struct rf_process){.pid = pid, .pidfd = -1, .lock = -1};
	p->pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot get hold of process %d", (int)pid);
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	p->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->lock < 0) {
		rf_fail_errno(e, RF_E_REFUSED, errno, "cannot open %s", path);
		goto close_pidfd;
	}
	if (flock(p->lock, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			rf_fail(e, RF_E_REFUSED, "another ramferry is at work on this QEMU (process %d)", (int)pid);
		else
			rf_fail_errno(e, RF_E_REFUSED, errno, "cannot lock %s", path);
		goto close_lock;
	}
	return 0;

close_lock:
	close(p->lock);
close_pidfd:
	close(p->pidfd);
	p->pidfd = p->lock = -1;
	return -1;
}

void rf_process_close(struct rf_process *p)
{
	if (p->lock >= 0)
		close(p->lock);
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = p->lock = -1;
}

bool rf_process_ended(const struct rf_process *p, int timeout_ms)
{
	int64_t deadline = rf_deadline_ms(timeout_ms);
	for (;;) {
		struct pollfd f = {p->pidfd, POLLIN, 0};
		int left = rf_deadline_left_ms(deadline);
		if (poll(&f, 1, left) > 0)
			return f.revents & POLLIN;
		if (!left)
			return false;
	}
}

/* ---- Mappings --------------------------------------------------------------------------------------------------------- */

struct maps_line {
	uint64_t start, end, offset, device, inode;
	bool shared;
	char path[256];
};

static bool parse_line(const char *line, struct maps_line *l)
{
	char permissions[5];
	unsigned major, minor;
	int path = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &l->start, &l->end,
		   permissions, &l->offset, &major, &minor, &l->inode, &path) != 7)
		return false;
	l->device = makedev(major, minor);
	l->shared = permissions[3] == 's';
	snprintf(l->path, sizeof(l->path), "%s", line + path);
	l->path[strcspn(l->path, "\n")] = 0;
	return true;
}

/* Take a line into the mapping if it goes on where that ends. */
static bool extend(struct rf_mapping *m, uint64_t *end, const struct maps_line *l)
{
	if (*end == m->address) { /* the first: it holds the address, its beginning may lie before it */
		m->device = l->device;
		m->inode = l->inode;
		m->file_offset = l->offset + (m->address - l->start);
		snprintf(m->path, sizeof(m->path), "%s", l->path);
	} else if (l->start != *end || l->device != m->device || l->inode != m->inode ||
		   l->offset != m->file_offset + (*end - m->address)) {
		return false;
	}
	*end = l->end;
	return l->shared && l->inode;
}

int rf_mapping_find(const struct rf_process *p, uint64_t address, uint64_t length, struct rf_mapping *m,
		    struct rf_error *e)
{
	char name[64];
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)p->pid);
	FILE *f = fopen(name, "re");
	if (!f)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot read %s (run as root or as QEMU's user)", name);

	*m = (struct rf_mapping){.address = address, .length = length};
	uint64_t end = address;
	bool good = true;
	char *line = NULL;
	size_t size = 0;
	errno = 0;
	while (good && end - address < length && getline(&line, &size, f) > 0) {
		struct maps_line l;
		if (parse_line(line, &l) && l.end > end && l.start < address + length)
			good = l.start <= end && extend(m, &end, &l);
	}
	int error = ferror(f) ? errno : 0;
	free(line);
	fclose(f);
	if (error)
		return rf_fail_errno(e, RF_E_REFUSED, error, "cannot read %s (run as root or as QEMU's user)", name);
	if (!good || end - address < length)
		return rf_fail(e, RF_E_REFUSED, "process %d has no shared mapping of a file at 0x%" PRIx64, (int)p->pid,
			       address);
	return 0;
}

/* ---- Files ------------------------------------------------------------------------------------------------------------ */

/* Walk the descriptors of a process that are open on the mapping's file. `found` ends the walk by returning true. */
static bool walk_descriptors(pid_t pid, const struct rf_mapping *m, bool (*found)(void *arg, pid_t pid, int fd),
			     void *arg)
{
	char folder[32];
	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(folder);
	if (!d)
		return false;
	bool done = false;
	struct dirent *entry;
	while (!done && (entry = readdir(d))) {
		struct stat st;
		if (isdigit((unsigned char)entry->d_name[0]) && fstatat(dirfd(d), entry->d_name, &st, 0) == 0 &&
		    st.st_dev == m->device && st.st_ino == m->inode)
			done = found(arg, pid, atoi(entry->d_name));
	}
	closedir(d);
	return done;
}

/* How that descriptor was opened: O_RDONLY, O_WRONLY, O_RDWR; -1 if it cannot be told. */
static int access_mode(pid_t pid, int fd)
{
	char name[64], line[128];
	unsigned flags;
	int mode = -1;
	snprintf(name, sizeof(name), "/proc/%d/fdinfo/%d", (int)pid, fd);
	FILE *f = fopen(name, "re");
	if (!f)
		return -1;
	while (mode < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "flags: %o", &flags) == 1)
			mode = flags & O_ACCMODE;
	fclose(f);
	return mode;
}

struct opening {
	const struct rf_process *process;
	const struct rf_mapping *mapping;
	bool writable;
	int fd;
	int error; /* the last reason why one did not do */
};

static bool same_file(int fd, const struct rf_mapping *m)
{
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_dev == m->device && st.st_ino == m->inode;
}

/* A descriptor of our own is best. Where the file's mode forbids that, QEMU's own is shared (ptrace rights). */
static bool try_open(void *arg, pid_t pid, int their_fd)
{
	struct opening *o = arg;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, their_fd);
	o->fd = open(path, (o->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (o->fd < 0)
		o->error = errno;
	if (o->fd < 0 && access_mode(pid, their_fd) == O_RDWR)
		o->fd = syscall(SYS_pidfd_getfd, o->process->pidfd, their_fd, 0);
	if (o->fd >= 0 && !same_file(o->fd, o->mapping)) {
		close(o->fd); /* it was closed and used again meanwhile */
		o->fd = -1;
	}
	return o->fd >= 0;
}

int rf_mapping_open(const struct rf_process *p, const struct rf_mapping *m, bool writable, int *fd, struct rf_error *e)
{
	struct opening o = {p, m, writable, -1, 0};
	if (walk_descriptors(p->pid, m, try_open, &o)) {
		*fd = o.fd;
		return 0;
	}
	if (o.error)
		return rf_fail_errno(e, RF_E_REFUSED, o.error, "cannot open %s, which QEMU (process %d) uses as RAM",
				     m->path, (int)p->pid);
	return rf_fail(e, RF_E_REFUSED, "no open file of QEMU (process %d) is %s, or they cannot be looked at",
		       (int)p->pid, m->path);
}

struct search {
	pid_t writer;
};

static bool is_writer(void *arg, pid_t pid, int fd)
{
	int mode = access_mode(pid, fd);
	if (mode != O_RDWR && mode != O_WRONLY)
		return false;
	((struct search *)arg)->writer = pid;
	return true;
}

static void read_name(pid_t pid, char name[32])
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(name, 32, f))
		strcpy(name, "?");
	name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
}

int rf_mapping_check_alone(const struct rf_process *p, const struct rf_mapping *m, struct rf_error *e)
{
	DIR *d = opendir("/proc");
	if (!d)
		return rf_fail_errno(e, RF_E_REFUSED, errno, "cannot read /proc");
	struct search s = {0};
	struct dirent *entry;
	while (!s.writer && (entry = readdir(d))) {
		pid_t pid = atoi(entry->d_name);
		if (pid > 0 && pid != p->pid && pid != getpid())
			walk_descriptors(pid, m, is_writer, &s);
	}
	closedir(d);
	if (!s.writer)
		return 0;
	char name[32];
	read_name(s.writer, name);
	return rf_fail(e, RF_E_REFUSED,
		       "the RAM file %s is also open for writing in process %d (%s): a guest's RAM must be "
		       "its own",
		       m->path, (int)s.writer, name);
}
