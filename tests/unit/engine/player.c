// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/engine/player.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One at a time, as the engine promises. */
static int act(struct player *p, enum player_op op, struct rf_error *e)
{
	assert_false(p->busy);
	p->calls[op]++;
	return p->fails[op] ? rf_fail(e, RF_E_FAILED, "the player was told to fail") : 0;
}

static int facts(void *ctx, char *text, size_t length, struct rf_error *e)
{
	strncpy(text, "machine=stage", length);
	return 0;
}

static int prepare(void *ctx, enum rf_role role, struct rf_error *e)
{
	return act(ctx, PLAYER_PREPARE, e);
}

static int collect(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap, struct rf_error *e)
{
	struct player *p = ctx;
	/* Some pages a round, so that there is more than one. */
	if (p->collects++ < 3 * PLAYER_BLOCKS && count > 64)
		bitmap[0] |= UINT64_C(0xf0f0);
	return 0;
}

static int pause_guest(void *ctx, const struct rf_state_sink *early, enum rf_stand *stand, bool *was_running,
		       struct rf_error *e)
{
	struct player *p = ctx;
	*was_running = !p->paused_by_operator;
	*stand = RF_STAND_STILL;
	return act(ctx, PLAYER_PAUSE, e);
}

static int save(void *ctx, const struct rf_state_sink *sink, struct rf_error *e)
{
	struct player *p = ctx;
	char piece[1000];
	memset(piece, 's', sizeof(piece));
	if (act(ctx, PLAYER_SAVE, e))
		return -1;
	for (uint64_t at = 0; at < p->state_bytes; at += sizeof(piece))
		if (sink->write(sink->arg, piece, sizeof(piece)))
			return rf_fail(e, RF_E_FAILED, "nobody takes the state");
	return 0;
}

static int load(void *ctx, const void *state, size_t length, struct rf_error *e)
{
	unsigned sum = 0;
	for (size_t i = 0; i < length; i++)
		sum += ((const unsigned char *)state)[i];
	assert_true(sum || !length);
	return act(ctx, PLAYER_LOAD, e);
}

static int resume(void *ctx, bool run, struct rf_error *e)
{
	return act(ctx, PLAYER_RESUME, e);
}

static int undo(void *ctx, struct rf_error *e)
{
	return act(ctx, PLAYER_UNDO, e);
}

static int discard(void *ctx, struct rf_error *e)
{
	return act(ctx, PLAYER_DISCARD, e);
}

static int finish(void *ctx, struct rf_error *e)
{
	return act(ctx, PLAYER_FINISH, e);
}

static const struct rf_lifecycle_ops ops = {
    .facts = facts,
    .prepare = prepare,
    .collect = collect,
    .pause = pause_guest,
    .save = save,
    .load = load,
    .resume = resume,
    .undo = undo,
    .discard = discard,
    .finish = finish,
};

static void add_block(struct player *p, unsigned i)
{
	struct rf_error e = {0};
	struct rf_block *b;
	int fd = memfd_create("player", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PLAYER_PAGES << RF_PAGE_SHIFT), 0);
	p->memory[i] = mmap(NULL, PLAYER_PAGES << RF_PAGE_SHIFT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p->memory[i] != MAP_FAILED);
	/* Half of it is data, an eighth of that zeros. */
	for (unsigned page = 0; page < PLAYER_PAGES; page++)
		if (page / 64 % 2 == 0)
			memset(p->memory[i] + page * RF_PAGE_BYTES, page % 8 ? (int)page | 1 : 0, RF_PAGE_BYTES);
	if (rf_block_open(&(struct rf_block_source){.name = i ? "low" : "high",
						    .length = PLAYER_PAGES << RF_PAGE_SHIFT,
						    .memory = p->memory[i],
						    .fd = fd,
						    .writable = true},
			  &b, &e) ||
	    rf_guest_add(p->guest, b, &e))
		fail_msg("%s", e.text);
	close(fd);
}

void player_open(struct player *p)
{
	*p = (struct player){.state_bytes = PLAYER_STATE_BYTES};
	p->guest = rf_guest_create(&ops, p);
	assert_non_null(p->guest);
	for (unsigned i = 0; i < PLAYER_BLOCKS; i++)
		add_block(p, i);
}

void player_close(struct player *p)
{
	rf_guest_destroy(p->guest);
	for (unsigned i = 0; i < PLAYER_BLOCKS; i++)
		munmap(p->memory[i], PLAYER_PAGES << RF_PAGE_SHIFT);
}

void player_rewind(struct player *p)
{
	memset(p->calls, 0, sizeof(p->calls));
	memset(p->fails, 0, sizeof(p->fails));
	p->collects = 0;
	p->state_bytes = PLAYER_STATE_BYTES;
	p->paused_by_operator = false;
	p->guest->log = NULL;
}
