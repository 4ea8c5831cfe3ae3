// SPDX-License-Identifier: LGPL-2.1-or-later
/* The card as a thing: what it can do, and the memory that it knows. */
#include "tests/unit/verbs/fake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake_mr {
	struct ibv_mr mr; /* first */
	unsigned access;
};

static struct fake_mr *registrations[FAKE_REGISTRATIONS];
static uint32_t next_key;

static struct ibv_device device = {.name = "fake0"};
static struct ibv_device *devices[2] = {&device, NULL};

/* ---- registrations ---- */

static struct ibv_mr *add_registration(struct ibv_pd *pd, void *address, size_t length, unsigned access)
{
	struct fake_mr *m = NULL;
	unsigned i = 0;

	pthread_mutex_lock(&fake_lock);
	errno = fake.register_error;
	if (!errno && (access & IBV_ACCESS_OPTIONAL_RANGE) && !fake.knows_optional) {
		fake.optional_refused++;
		errno = EINVAL;
	}
	if (!errno && (access & IBV_ACCESS_HUGETLB) && !fake.knows_huge)
		errno = EOPNOTSUPP;
	while (i < FAKE_REGISTRATIONS && registrations[i])
		i++;
	assert(i < FAKE_REGISTRATIONS && length <= fake.max_mr_size);
	if (!errno && (m = calloc(1, sizeof(*m)))) {
		next_key += 0x101;
		m->mr = (struct ibv_mr){.context = pd->context,
					.pd = pd,
					.addr = address,
					.length = length,
					.lkey = next_key,
					.rkey = next_key};
		m->access = access;
		registrations[i] = m;
		fake.registered++;
		fake.on_demand_registrations += !!(access & IBV_ACCESS_ON_DEMAND);
		fake.huge_registrations += !!(access & IBV_ACCESS_HUGETLB);
	}
	pthread_mutex_unlock(&fake_lock);
	return m ? &m->mr : NULL;
}

struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *address, size_t length, int access)
{
	return add_registration(pd, address, length, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
	assert(iova == (uintptr_t)address);
	return add_registration(pd, address, length, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	unsigned i = 0;

	pthread_mutex_lock(&fake_lock);
	while (i < FAKE_REGISTRATIONS && (struct ibv_mr *)registrations[i] != mr)
		i++;
	assert(i < FAKE_REGISTRATIONS);
	registrations[i] = NULL;
	free(mr);
	fake.registered--;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

bool fake_may_write(uint32_t rkey, uint64_t at, uint32_t length)
{
	for (unsigned i = 0; i < FAKE_REGISTRATIONS; i++) {
		const struct fake_mr *m = registrations[i];

		if (!m || m->mr.rkey != rkey || !(m->access & IBV_ACCESS_REMOTE_WRITE))
			continue;
		uint64_t base = (uintptr_t)m->mr.addr;

		return at >= base && length <= m->mr.length && at - base <= m->mr.length - length;
	}
	return false;
}

bool fake_may_read(uint32_t lkey, uint64_t at, uint32_t length)
{
	for (unsigned i = 0; i < FAKE_REGISTRATIONS; i++) {
		const struct fake_mr *m = registrations[i];

		if (m && m->mr.lkey == lkey)
			return at >= (uintptr_t)m->mr.addr && at + length <= (uintptr_t)m->mr.addr + m->mr.length;
	}
	return false;
}

/* ---- the device ---- */

struct ibv_device **ibv_get_device_list(int *n)
{
	*n = !fake.absent;
	return fake.absent ? devices + 1 : devices;
}

void ibv_free_device_list(struct ibv_device **list)
{
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	return fake_context();
}

int ibv_close_device(struct ibv_context *context)
{
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t entry_size)
{
	static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 10, 0, 0, 1};

	memset(entries, 0, sizeof(*entries));
	memcpy(entries->gid.raw, mapped, sizeof(mapped));
	entries->gid_type = fake.has_no_gids ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
	return 1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
	    .max_qp_wr = fake.max_qp_wr, .max_cqe = fake.max_cqe, .max_mr_size = fake.max_mr_size, .max_mr = 1 << 16};
	return 0;
}

int(ibv_query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)attr;

	a->state = fake.port_is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	a->max_msg_sz = fake.max_msg_sz;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	assert(pd);
	pd->context = context;
	pthread_mutex_lock(&fake_lock);
	fake.things++;
	pthread_mutex_unlock(&fake_lock);
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&fake_lock);
	for (unsigned i = 0; i < FAKE_REGISTRATIONS; i++)
		assert(!registrations[i] || registrations[i]->mr.pd != pd);
	fake.things--;
	pthread_mutex_unlock(&fake_lock);
	free(pd);
	return 0;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return "some other error";
}

/* ---- what only newer libraries have ---- */

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	ibv_query_device(context, &attr->orig_attr);
	if (fake.follows_page_tables) {
		attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
		attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SEND;
	}
	return 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		     uint32_t n)
{
	pthread_mutex_lock(&fake_lock);
	assert(n == 1 && fake_may_read(list->lkey, list->addr, list->length));
	fake.prefetches++;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

static struct verbs_context extended = {
    .query_device_ex = query_device_ex,
    .advise_mr = advise_mr,
    .sz = sizeof(extended),
    .context = {.device = &device, .abi_compat = __VERBS_ABI_IS_EXTENDED},
};

struct ibv_context *fake_context(void)
{
	extended.context.ops = fake_ops;
	device.transport_type = fake.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	return &extended.context;
}
