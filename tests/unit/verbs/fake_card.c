// SPDX-License-Identifier: LGPL-2.1-or-later
/* The card at work: queue pairs and completion queues. One lock for all of it. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the libraries' own names are not ours
#include "tests/unit/verbs/fake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEALTHY                                                                                       \
	{                                                                                             \
		.max_qp_wr = 1024, .max_cqe = 1 << 16, .max_mr_size = 1 << 30, .max_msg_sz = 1 << 30, \
		.knows_optional = true, .receive_opcode = IBV_WC_RECV                                 \
	}

struct fake_card fake = HEALTHY;
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

struct completion {
	struct ibv_wc wc;
	struct fake_qp *q;
	uint32_t frees; /* places of the send queue */
};

struct fake_cq {
	struct ibv_cq cq; /* first */
	struct completion *ring;
	uint32_t head, count;
	bool armed;
};

static struct fake_qp *all_queue_pairs;
static struct fake_qp *by_number[1024];
static unsigned queue_pair_count;

void fake_reset(void)
{
	assert(!fake.things && !fake.registered);
	fake = (struct fake_card)HEALTHY;
	queue_pair_count = 0;
	fake_answer(0, 0, NULL, 0);
}

struct fake_qp *fake_queue_pair(unsigned nth)
{
	assert(nth < queue_pair_count && by_number[nth]);
	return by_number[nth];
}

unsigned fake_queue_pairs(void)
{
	return queue_pair_count;
}

void fake_ring(int fd)
{
	uint64_t one = 1;
	ssize_t r = write(fd, &one, sizeof(one));

	assert(r == sizeof(one));
}

/* ---- completions ---- */

static void complete(struct fake_qp *q, uint64_t wr_id, enum ibv_wc_status status, uint32_t bytes, uint32_t frees)
{
	struct fake_cq *cq = (struct fake_cq *)q->qp.send_cq;

	assert(cq->count < (uint32_t)cq->cq.cqe); /* a queue that overflows is lost on a real card */
	cq->ring[(cq->head + cq->count++) % (uint32_t)cq->cq.cqe] =
	    (struct completion){.wc = {.wr_id = wr_id,
				       .status = status,
				       .opcode = wr_id >> 63 ? fake.receive_opcode : IBV_WC_SEND,
				       .byte_len = bytes,
				       .qp_num = q->qp.qp_num},
				.q = q,
				.frees = frees};
	if (cq->armed)
		fake_ring(cq->cq.channel->fd);
	cq->armed = false;
}

static int fake_poll_cq(struct ibv_cq *c, int n, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)c;
	int i;

	pthread_mutex_lock(&fake_lock);
	for (i = 0; i < n && cq->count; i++) {
		struct completion *done = &cq->ring[cq->head];

		wc[i] = done->wc;
		if (done->q) {
			assert(done->q->occupied >= done->frees);
			done->q->occupied -= done->frees;
		}
		cq->head = (cq->head + 1) % (uint32_t)cq->cq.cqe;
		cq->count--;
	}
	pthread_mutex_unlock(&fake_lock);
	return i;
}

static int fake_req_notify(struct ibv_cq *c, int solicited_only)
{
	pthread_mutex_lock(&fake_lock);
	((struct fake_cq *)c)->armed = true;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

/* ---- carrying out ---- */

void fake_break_locked(struct fake_qp *q)
{
	if (q->broken)
		return;
	q->broken = true;
	for (; q->send_count; q->send_count--) {
		complete(q, q->sends[q->send_head].wr_id, IBV_WC_WR_FLUSH_ERR, 0, 1 + q->untold);
		q->untold = 0;
		q->send_head = (q->send_head + 1) % q->send_room;
	}
	for (; q->recv_count; q->recv_count--) {
		complete(q, q->recvs[q->recv_head].wr_id, IBV_WC_WR_FLUSH_ERR, 0, 0);
		q->recv_head = (q->recv_head + 1) % q->recv_room;
	}
}

static bool receive(struct fake_qp *q, const void *bytes, uint32_t length)
{
	if (!q->recv_count)
		return false;
	struct fake_recv *r = &q->recvs[q->recv_head];

	assert(length <= r->piece.length);
	memcpy((void *)(uintptr_t)r->piece.addr, bytes, length);
	complete(q, r->wr_id, IBV_WC_SUCCESS, length, 0);
	q->recv_head = (q->recv_head + 1) % q->recv_room;
	q->recv_count--;
	return true;
}

static enum ibv_wc_status carry_out(struct fake_qp *q, const struct fake_send *s)
{
	const void *bytes = (const void *)(uintptr_t)s->piece.addr;

	if (!fake_may_read(s->piece.lkey, s->piece.addr, s->piece.length))
		return IBV_WC_LOC_PROT_ERR;
	if (!q->peer || q->peer->broken)
		return IBV_WC_RETRY_EXC_ERR;
	if (s->opcode == IBV_WR_SEND) {
		bool posted = receive(q->peer, bytes, s->piece.length);

		assert(posted); /* RNR */
		return IBV_WC_SUCCESS;
	}
	assert(s->opcode == IBV_WR_RDMA_WRITE);
	if (!fake_may_write(s->rkey, s->remote, s->piece.length))
		return IBV_WC_REM_ACCESS_ERR;
	memcpy((void *)(uintptr_t)s->remote, bytes, s->piece.length);
	return IBV_WC_SUCCESS;
}

static void end_request(struct fake_qp *q, enum ibv_wc_status status)
{
	struct fake_send s = q->sends[q->send_head];

	q->send_head = (q->send_head + 1) % q->send_room;
	q->send_count--;
	q->untold++;
	if (s.signaled || status != IBV_WC_SUCCESS) {
		complete(q, s.wr_id, status, 0, q->untold);
		q->untold = 0;
	}
	if (status == IBV_WC_SUCCESS)
		return;
	fake_break_locked(q);
	/* The side that was asked for what it may not give ends as well, and has no completion that says why. */
	if (status == IBV_WC_REM_ACCESS_ERR && q->peer)
		fake_break_locked(q->peer);
}

static void run_one(struct fake_qp *q)
{
	end_request(q, carry_out(q, &q->sends[q->send_head]));
}

void fake_run_locked(void)
{
	for (struct fake_qp *q = all_queue_pairs; q && !fake.holds; q = q->next)
		while (q->send_count)
			run_one(q);
}

bool fake_step(uint64_t random)
{
	struct fake_qp *busy[64];
	unsigned n = 0;

	pthread_mutex_lock(&fake_lock);
	for (struct fake_qp *q = all_queue_pairs; q && n < 64; q = q->next)
		if (q->send_count)
			busy[n++] = q;
	if (n)
		run_one(busy[random % n]);
	pthread_mutex_unlock(&fake_lock);
	return n > 0;
}

void fake_fail(struct fake_qp *q, enum ibv_wc_status status)
{
	pthread_mutex_lock(&fake_lock);
	assert(q->send_count);
	end_request(q, status);
	pthread_mutex_unlock(&fake_lock);
}

void fake_break(struct fake_qp *q)
{
	pthread_mutex_lock(&fake_lock);
	fake_break_locked(q);
	pthread_mutex_unlock(&fake_lock);
}

bool fake_deliver(struct fake_qp *q, const void *bytes, uint32_t length)
{
	pthread_mutex_lock(&fake_lock);
	bool posted = receive(q, bytes, length);

	pthread_mutex_unlock(&fake_lock);
	return posted;
}

/* ---- posting ---- */

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	pthread_mutex_lock(&fake_lock);
	fake.chains++;
	for (; wr && !fake.post_error; wr = wr->next) {
		assert(q->occupied < q->send_room && wr->num_sge == 1);
		q->occupied++;
		bool signaled = wr->send_flags & IBV_SEND_SIGNALED;

		*(signaled ? &fake.signaled : &fake.unsignaled) += 1;
		q->sends[(q->send_head + q->send_count++) % q->send_room] = (struct fake_send){
		    .wr_id = wr->wr_id,
		    .opcode = wr->opcode,
		    .signaled = signaled,
		    .piece = *wr->sg_list,
		    .remote = wr->wr.rdma.remote_addr,
		    .rkey = wr->wr.rdma.rkey,
		};
	}
	*bad = wr;
	if (q->broken) {
		q->broken = false;
		fake_break_locked(q); /* flushes what was just posted */
	}
	fake_run_locked();
	int err = fake.post_error;

	pthread_mutex_unlock(&fake_lock);
	return err;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	pthread_mutex_lock(&fake_lock);
	assert(!wr->next && wr->num_sge == 1 && q->recv_count < q->recv_room);
	q->recvs[(q->recv_head + q->recv_count++) % q->recv_room] =
	    (struct fake_recv){.wr_id = wr->wr_id, .piece = *wr->sg_list};
	if (q->broken) {
		q->broken = false;
		fake_break_locked(q);
	}
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

const struct ibv_context_ops fake_ops = {
    .poll_cq = fake_poll_cq,
    .req_notify_cq = fake_req_notify,
    .post_send = fake_post_send,
    .post_recv = fake_post_recv,
};

/* ---- librdmacm makes queue pairs ---- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	if (fake.pair_error) {
		errno = fake.pair_error;
		return -1;
	}
	struct fake_qp *q = calloc(1, sizeof(*q));

	assert(q && !id->qp && (int)a->cap.max_send_wr <= fake.max_qp_wr && (int)a->cap.max_recv_wr <= fake.max_qp_wr);
	pthread_mutex_lock(&fake_lock);
	q->qp = (struct ibv_qp){.context = id->verbs, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .pd = pd};
	q->owner = (struct fake_id *)id;
	q->send_room = a->cap.max_send_wr;
	q->recv_room = a->cap.max_recv_wr;
	q->sends = calloc(q->send_room, sizeof(*q->sends));
	q->recvs = calloc(q->recv_room, sizeof(*q->recvs));
	assert(q->sends && q->recvs && queue_pair_count < 1024);
	by_number[queue_pair_count++] = q;
	q->next = all_queue_pairs;
	all_queue_pairs = q;
	id->qp = &q->qp;
	fake.things++;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct fake_qp *q = (struct fake_qp *)id->qp, **at = &all_queue_pairs;
	struct fake_cq *cq = (struct fake_cq *)q->qp.send_cq;

	pthread_mutex_lock(&fake_lock);
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	for (struct fake_qp *other = all_queue_pairs; other; other = other->next)
		if (other->peer == q)
			other->peer = NULL;
	for (uint32_t i = 0; i < cq->count; i++) {
		struct completion *c = &cq->ring[(cq->head + i) % (uint32_t)cq->cq.cqe];

		if (c->q == q)
			c->q = NULL;
	}
	for (unsigned i = 0; i < queue_pair_count; i++)
		if (by_number[i] == q)
			by_number[i] = NULL;
	id->qp = NULL;
	free(q->sends);
	free(q->recvs);
	free(q);
	fake.things--;
	pthread_mutex_unlock(&fake_lock);
}

/* ---- their making ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *c = calloc(1, sizeof(*c));

	assert(c);
	c->fd = eventfd(0, EFD_CLOEXEC);
	return c;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	assert(c->refcnt == 0);
	close(c->fd);
	free(c);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *owner, struct ibv_comp_channel *channel, int v)
{
	if (fake.queue_error) {
		errno = fake.queue_error;
		return NULL;
	}
	struct fake_cq *cq = calloc(1, sizeof(*cq));

	assert(cq && cqe <= fake.max_cqe);
	cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cqe = cqe};
	cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
	assert(cq->ring);
	channel->refcnt++;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *c)
{
	c->channel->refcnt--;
	free(((struct fake_cq *)c)->ring);
	free(c);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	uint64_t count;

	*cq = NULL;
	return read(channel->fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)
