// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest that only plays its part and remembers what was asked of it: two blocks of real memory, no bytes of state that
 * mean anything. One serves many migrations, one after the other. */
#ifndef RAMFERRY_TESTS_PLAYER_H
#define RAMFERRY_TESTS_PLAYER_H

#include "memory/guest.h"

#include <stdbool.h>
#include <stdint.h>

enum player_op {
	PLAYER_PREPARE,
	PLAYER_PAUSE,
	PLAYER_SAVE,
	PLAYER_LOAD,
	PLAYER_RESUME,
	PLAYER_UNDO,
	PLAYER_DISCARD,
	PLAYER_FINISH,
	PLAYER_OPS,
};

enum { PLAYER_BLOCKS = 2, PLAYER_PAGES = 512, PLAYER_STATE_BYTES = 100000 };

struct player {
	struct rf_guest *guest;
	bool paused_by_operator;
	bool fails[PLAYER_OPS];
	unsigned calls[PLAYER_OPS];
	unsigned collects;
	uint64_t state_bytes;
	bool busy; /* an operation is under way */
	char *memory[PLAYER_BLOCKS];
};

void player_open(struct player *p);
void player_close(struct player *p);
void player_rewind(struct player *p); /* as new, its memory apart */

#endif
