// SPDX-License-Identifier: LGPL-2.1-or-later
#include "qemu/frame.h"

#include <stdlib.h>
#include <string.h>

size_t rf_frame_room(struct rf_frame *f)
{
	if (f->used == f->capacity) {
		size_t capacity = f->capacity ? f->capacity * 2 : 16384;
		if (capacity > RF_FRAME_MAX_BYTES)
			return 0;
		char *bytes = realloc(f->bytes, capacity);
		if (!bytes)
			return 0;
		f->bytes = bytes;
		f->capacity = capacity;
	}
	return f->capacity - f->used;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

enum rf_frame_state rf_frame_next(struct rf_frame *f, size_t *length)
{
	while (f->scanned < f->used) {
		char c = f->bytes[f->scanned++];
		if (f->in_string) {
			if (f->escaped)
				f->escaped = false;
			else if (c == '\\')
				f->escaped = true;
			else if (c == '"')
				f->in_string = false;
		} else if (c == '"' && f->depth) {
			f->in_string = true;
		} else if (c == '{') {
			f->depth++;
		} else if (c == '}' && f->depth) {
			if (--f->depth == 0) {
				*length = f->scanned;
				return RF_FRAME_COMPLETE;
			}
		} else if (!f->depth && !is_space(c)) {
			rf_frame_drop(f, f->scanned - 1);
			return RF_FRAME_GARBAGE;
		}
	}
	if (!f->depth) /* nothing but white space: do not let it pile up */
		rf_frame_drop(f, f->used);
	return RF_FRAME_PARTIAL;
}

void rf_frame_drop(struct rf_frame *f, size_t length)
{
	if (length)
		memmove(f->bytes, f->bytes + length, f->used - length);
	f->used -= length;
	f->scanned = 0;
	f->depth = 0;
	f->in_string = f->escaped = false;
}

void rf_frame_free(struct rf_frame *f)
{
	free(f->bytes);
	*f = (struct rf_frame){0};
}
