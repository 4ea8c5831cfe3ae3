// SPDX-License-Identifier: LGPL-2.1-or-later
/* An RDMA card of software inside the test's own process, behind the names of libibverbs and librdmacm. The verbs fabric
 * is linked with it in their place and cannot tell.
 *
 * It is stricter than a real one: a message that finds no receive posted, a queue that is filled beyond what it was made for,
 * anything destroyed while it is in use ends the test. And it can be made to fail as no software card of the kernel's does. */
#ifndef RAMFERRY_TESTS_UNIT_VERBS_FAKE_H
#define RAMFERRY_TESTS_UNIT_VERBS_FAKE_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_REGISTRATIONS = 4096, FAKE_PRIVATE_BYTES = 56 };

/* What a test may set before it opens a fabric, or look at. All under the card's lock while fabrics are open. */
struct fake_card {
	bool absent; /* no device at all */
	bool port_is_down;
	bool sees_no_manager; /* no event channel can be made */
	int max_qp_wr, max_cqe;
	uint64_t max_mr_size;
	uint32_t max_msg_sz;

	bool holds;                /* what is posted stays in the queues until fake_step() or fake_finish() */
	int register_error;        /* every registration fails with this errno */
	unsigned optional_refused; /* registrations that asked for what is optional, which the card does not know */
	bool knows_optional, knows_huge;
	bool follows_page_tables;
	bool is_iwarp;
	bool has_no_gids;                  /* as on iWARP: those there are say nothing of addresses */
	int post_error;                    /* posting fails with this errno */
	int connect_error;                 /* connecting fails at once with this errno */
	int queue_error;                   /* no completion queue can be made, for this errno */
	int pair_error;                    /* no queue pair can be made, for this errno */
	enum ibv_wc_opcode receive_opcode; /* what completed receives are said to be */
	int resolve_status;                /* of an address: 0, or a negative errno */
	bool answers_nothing;              /* connection requests are lost */

	/* counted since fake_reset() */
	unsigned signaled, unsignaled, chains;
	unsigned on_demand_registrations, huge_registrations, prefetches;
	unsigned registered; /* and not yet released */
	unsigned things;     /* of any other kind that were made and not yet destroyed */
};

extern struct fake_card fake;

void fake_reset(void);

struct fake_qp;

/* The queue pair that lane `lane` of the fabric that opened `nth` (0: first) uses: in the order of their making. */
struct fake_qp *fake_queue_pair(unsigned nth);
unsigned fake_queue_pairs(void); /* made so far */

/* Carry out one held request of some queue pair: `random` chooses. false: there is none. */
bool fake_step(uint64_t random);
/* The oldest held request of this one ends with `status`, and so the queue pair. */
void fake_fail(struct fake_qp *q, enum ibv_wc_status status);
/* As if the peer of `q` had broken off: everything is flushed without a reason. */
void fake_break(struct fake_qp *q);
/* As if the peer had sent these bytes; false: no receive is posted. `lies` is added to the length that is told. */
bool fake_deliver(struct fake_qp *q, const void *bytes, uint32_t length);
/* The card goes away under all that use it. */
void fake_remove(void);
/* A connection request from nowhere, with this private data. */
void fake_knock(uint16_t port, const void *data, size_t length);
/* What the last one to knock was told: 0 nothing yet, 1 accepted, 2 rejected; its answer is in *hello. */
int fake_knock_answer(void *data, size_t room);
/* Whoever connects next is answered so. NULL: by who listens. */
void fake_answer(enum rdma_cm_event_type type, int status, const void *data, size_t length);

/* ---- between fake_card.c, fake_device.c and fake_cm.c ---- */

struct fake_id {
	struct rdma_cm_id id; /* first */
	struct fake_id *peer, *next;
	bool listens, connected, knocker, gone;
	uint16_t port;
};

struct fake_recv {
	uint64_t wr_id;
	struct ibv_sge piece;
};

struct fake_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	bool signaled;
	struct ibv_sge piece;
	uint64_t remote;
	uint32_t rkey;
};

struct fake_qp {
	struct ibv_qp qp; /* first */
	struct fake_qp *next;
	struct fake_id *owner;
	struct fake_qp *peer;
	bool broken;
	struct fake_recv *recvs;
	uint32_t recv_room, recv_head, recv_count;
	struct fake_send *sends;
	uint32_t send_room, send_head, send_count; /* not carried out yet */
	uint32_t occupied;                         /* posted, and no completion taken that tells of it */
	uint32_t untold;                           /* carried out since the last completion */
};

extern pthread_mutex_t fake_lock;
struct ibv_context *fake_context(void);
extern const struct ibv_context_ops fake_ops;
/* By the registrations that there are; with the lock. */
bool fake_may_read(uint32_t lkey, uint64_t at, uint32_t length);
bool fake_may_write(uint32_t rkey, uint64_t at, uint32_t length);
void fake_break_locked(struct fake_qp *q);
void fake_run_locked(void);                        /* all that is posted and not held */
void fake_disconnected_locked(struct fake_id *id); /* tell its channel */
void fake_ring(int fd);

#endif
