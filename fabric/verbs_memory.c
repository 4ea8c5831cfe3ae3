// SPDX-License-Identifier: LGPL-2.1-or-later
/* Registrations, and the engine's blocking work: both on the workers, for pinning a gigabyte takes a good part of a second. */
#include "fabric/verbs.h"

#include "common/checked.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>

struct work {
	struct rf_verbs *verbs;
	struct rf_event_node *node; /* posted at the end */
	void (*fn)(void *);         /* run() */
	void *arg;
	void *address; /* reg() */
	uint64_t length;
	unsigned access;
	struct ibv_mr *mr; /* dereg() */
};

static struct work *new_work(struct rf_verbs *v, enum rf_event_kind kind, uint64_t cookie)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->verbs = v;
	w->node = rf_event_node_new(kind, cookie, 0);
	if (w->node)
		return w;
	free(w);
	return NULL;
}

static int submit(struct work *w, void (*run)(void *))
{
	if (rf_workers_submit(w->verbs->workers, &(struct rf_job){.run = run, .arg = w}) == 0)
		return 0;
	rf_event_node_free(w->node);
	free(w);
	return -1;
}

static void finish(struct work *w)
{
	rf_events_post(w->verbs->events, w->node);
	free(w);
}

/* ---- registering ---- */

/* What is a matter of speed only is left out once the card has refused it. */
static struct ibv_mr *register_as(struct rf_verbs *v, void *address, uint64_t length, unsigned access)
{
	bool relaxed = atomic_load(&v->relaxed_ordering);
	struct ibv_mr *mr = ibv_reg_mr(v->pd, address, length, access | (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0));

	if (mr || !relaxed || (errno != EINVAL && errno != EOPNOTSUPP))
		return mr;
	mr = ibv_reg_mr(v->pd, address, length, access);
	if (mr)
		atomic_store(&v->relaxed_ordering, false);
	return mr;
}

/* A card that follows page tables does it in steps of 4 KiB, unless it is told that these are huge ones. (What is pinned
 * needs no telling: the kernel sees how large the pieces are.) */
void rf_verbs_file(struct rf_fabric *f, const void *address, uint64_t length, int fd, uint64_t offset)
{
	struct rf_verbs *v = rf_verbs_of(f);
	unsigned n = atomic_load(&v->huge_count);
	struct statfs fs;

	if (n == RF_VERBS_HUGE || fstatfs(fd, &fs) || fs.f_type != HUGETLBFS_MAGIC)
		return;
	v->huge[n].address = (uintptr_t)address;
	v->huge[n].length = length;
	atomic_store(&v->huge_count, n + 1);
}

static bool is_huge(const struct rf_verbs *v, const void *address, uint64_t length)
{
	for (unsigned i = 0, n = atomic_load(&v->huge_count); i < n; i++)
		if ((uintptr_t)address >= v->huge[i].address &&
		    rf_range_within((uintptr_t)address - v->huge[i].address, length, v->huge[i].length))
			return true;
	return false;
}

static bool is_read_only(const void *address)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t first, end;
	char line[400], rights[5] = "";
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &first, &end, rights) == 3 &&
			(uintptr_t)address >= first && (uintptr_t)address < end;
	if (maps)
		fclose(maps);
	return found && strncmp(rights, "r-", 2) == 0;
}

/* Before Linux 6.2 the kernel pins as for writing, even what the card shall only read, and our mapping of the source's guest
 * cannot be written, so that no bug of ours ever changes the guest. It is made writable while it is being registered: the
 * pages stay pinned when it is not any more. */
static struct ibv_mr *register_read_only(struct rf_verbs *v, void *address, uint64_t length, unsigned access)
{
	if (!is_read_only(address) || mprotect(address, length, PROT_READ | PROT_WRITE)) {
		errno = EFAULT;
		return NULL;
	}
	struct ibv_mr *mr = register_as(v, address, length, access);
	int err = errno;

	mprotect(address, length, PROT_READ);
	errno = err;
	return mr;
}

/* Pages that are not there yet are made now and many at a time, not one by one under the peer's writes. A hint. */
static void prefetch(struct rf_verbs *v, const struct ibv_mr *mr, bool write)
{
	enum { AT_ONCE = 1 << 30 };

	for (uint64_t at = 0; at < mr->length; at += AT_ONCE) {
		uint64_t left = mr->length - at;
		struct ibv_sge piece = {
		    .addr = (uintptr_t)mr->addr + at,
		    .length = (uint32_t)(left < AT_ONCE ? left : AT_ONCE),
		    .lkey = mr->lkey,
		};

		if (ibv_advise_mr(v->pd, write ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE : IBV_ADVISE_MR_ADVICE_PREFETCH, 0,
				  &piece, 1))
			return;
	}
}

static void explain(struct work *w, int err)
{
	enum { ROOM = 400 };
	const char *device = ibv_get_device_name(w->verbs->context->device);
	struct rf_event_node *node = w->node;
	char reason[100];

	node->event.status = -1;
	node->event.error_number = w->length > w->verbs->device.max_mr_size ? ENOMEM : err; /* less goes */
	node->text = malloc(ROOM);
	node->event.text = node->text ? node->text : "out of memory";
	if (!node->text)
		return;
	int n = snprintf(node->text, ROOM, "%s cannot register %" PRIu64 " bytes: ", device, w->length);
	char *text = node->text + n;
	size_t room = (size_t)(ROOM - n);

	if (w->length > w->verbs->device.max_mr_size)
		snprintf(text, room, "it takes %" PRIu64 " at once (use a smaller --chunk-size)",
			 w->verbs->device.max_mr_size);
	else if (err == ENOMEM)
		snprintf(text, room,
			 "the limit of locked memory is reached (ulimit -l, or LimitMEMLOCK= of a service), "
			 "or the memory of the host or the device is used up");
	else if (err == EFAULT)
		snprintf(text, room,
			 "some of that memory cannot be made present: the file system that holds it is "
			 "full, no huge pages are left, or the kernel (before 6.2) pins no read-only memory");
	else if (err == EOPNOTSUPP)
		snprintf(text, room, "its memory is of a kind that it cannot pin (a file on dax?)");
	else
		snprintf(text, room, "%s", strerror_r(err, reason, sizeof(reason)));
}

static void register_region(void *arg)
{
	struct work *w = arg;
	struct rf_verbs *v = w->verbs;
	bool write = w->access & RF_ACCESS_REMOTE_WRITE, on_demand = w->access & RF_ACCESS_ON_DEMAND;
	unsigned access =
	    (write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0u) | (on_demand ? IBV_ACCESS_ON_DEMAND : 0u);
	int64_t start = rf_monotonic_ns();
	bool fits = w->length <= v->device.max_mr_size;
	struct ibv_mr *mr = NULL;

	errno = EINVAL;
	if (fits && on_demand && is_huge(v, w->address, w->length))
		mr = register_as(v, w->address, w->length, access | IBV_ACCESS_HUGETLB);
	if (!mr && fits)
		mr = register_as(v, w->address, w->length, access);
	if (!mr && errno == EFAULT && !write)
		mr = register_read_only(v, w->address, w->length, access);
	if (!mr) {
		explain(w, errno);
	} else if (rf_verbs_add_region(v, mr, &w->node->event.key) < 0) {
		ibv_dereg_mr(mr);
		explain(w, ENOMEM);
	} else {
		atomic_fetch_add(&v->registrations, 1);
		atomic_fetch_add(&v->registration_ns, (uint64_t)(rf_monotonic_ns() - start));
		if (on_demand)
			prefetch(v, mr, write);
	}
	finish(w);
}

int rf_verbs_reg(struct rf_fabric *f, void *address, uint64_t length, unsigned access, uint64_t cookie)
{
	struct rf_verbs *v = rf_verbs_of(f);
	struct work *w = new_work(v, RF_EV_REGISTERED, cookie);

	assert(length && v->pd);
	assert(!(access & RF_ACCESS_ON_DEMAND) || f->limits.on_demand);
	if (!w)
		return -1;
	w->address = address;
	w->length = length;
	w->access = access;
	return submit(w, register_region);
}

static void release_region(void *arg)
{
	struct work *w = arg;
	int err = ibv_dereg_mr(w->mr);

	if (err)
		rf_log(w->verbs->config.log, RF_LOG_WARNING, "the RDMA device does not release memory: %s",
		       strerror(err));
	finish(w);
}

/* Once the key is taken it must be released, come what may: without a worker that happens here. */
int rf_verbs_dereg(struct rf_fabric *f, struct rf_key key, uint64_t cookie)
{
	struct rf_verbs *v = rf_verbs_of(f);
	struct work *w = new_work(v, RF_EV_RELEASED, cookie);

	if (!w)
		return -1;
	w->mr = rf_verbs_take_region(v, key);
	if (!w->mr) {
		rf_event_node_free(w->node);
		free(w);
		return -1;
	}
	if (rf_workers_submit(v->workers, &(struct rf_job){.run = release_region, .arg = w}) < 0)
		release_region(w);
	return 0;
}

static void run_work(void *arg)
{
	struct work *w = arg;

	w->fn(w->arg);
	finish(w);
}

int rf_verbs_run(struct rf_fabric *f, void (*fn)(void *), void *arg, uint64_t cookie)
{
	struct work *w = new_work(rf_verbs_of(f), RF_EV_DONE, cookie);

	if (!w)
		return -1;
	w->fn = fn;
	w->arg = arg;
	return submit(w, run_work);
}
