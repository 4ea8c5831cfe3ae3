// SPDX-License-Identifier: LGPL-2.1-or-later
/* Cuts a stream of bytes into JSON objects. QEMU ends each with a newline, but a monitor with pretty=on breaks them
 * into lines as well, so braces are counted. */
#ifndef RAMFERRY_QEMU_FRAME_H
#define RAMFERRY_QEMU_FRAME_H

#include <stdbool.h>
#include <stddef.h>

struct rf_frame {
	char *bytes;
	size_t used, capacity;
	size_t scanned; /* bytes[0 .. scanned) were looked at */
	int depth;
	bool in_string, escaped;
};

/* QEMU's own limit for one message. */
enum { RF_FRAME_MAX_BYTES = 64 << 20 };

enum rf_frame_state { RF_FRAME_PARTIAL, RF_FRAME_COMPLETE, RF_FRAME_GARBAGE };

/* Room for at least one more byte at bytes + used: how much, 0 when the limit is reached or memory is short. */
size_t rf_frame_room(struct rf_frame *f);

/* COMPLETE: bytes[0 .. *length) hold one object with white space around it; call rf_frame_drop() when done with it.
 * GARBAGE: bytes[0] is the first byte that cannot begin an object. */
enum rf_frame_state rf_frame_next(struct rf_frame *f, size_t *length);

void rf_frame_drop(struct rf_frame *f, size_t length);
void rf_frame_free(struct rf_frame *f);

#endif
