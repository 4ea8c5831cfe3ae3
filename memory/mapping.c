// SPDX-License-Identifier: LGPL-2.1-or-later
/* Checks a mapping that the caller says he has. Believing him would be cheap and dangerous: a private mapping of the
 * right file shows old bytes after the first write, and what is sent then is a guest that never was. The kernel's list
 * of mappings tells the truth. */
#include "memory/block_real.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct mapping {
	uint64_t start, end, offset;
	unsigned long long inode;
	char rights[5]; /* "rw-s" */
};

static bool parse_line(const char *line, struct mapping *m)
{
	unsigned long long start, end, offset;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %llu", &start, &end, m->rights, &offset, &m->inode) != 5)
		return false;
	m->start = start;
	m->end = end;
	m->offset = offset;
	return true;
}

/* One of the mappings that make up the block; the part that counts begins at `at`. */
static int check_part(const struct rf_block_source *s, const struct stat *file, const struct mapping *m, uint64_t at,
		      struct rf_error *e)
{
	uint64_t wanted = s->fd_offset + (at - (uint64_t)s->memory);

	if (m->rights[0] != 'r' || (s->writable && m->rights[1] != 'w'))
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its memory at %p is not %s", s->name, s->memory,
			       s->writable ? "writable" : "readable");
	if (!file)
		return 0;
	if (m->rights[3] != 's')
		return rf_fail(e, RF_E_USAGE,
			       "block \"%s\": its memory at %p is a private mapping; it must be shared (MAP_SHARED)",
			       s->name, s->memory);
	if (m->inode != file->st_ino || m->offset + (at - m->start) != wanted)
		return rf_fail(e, RF_E_USAGE, "block \"%s\": its memory at %p is not its file at offset %llu", s->name,
			       s->memory, (unsigned long long)s->fd_offset);
	return 0;
}

int rf_mapping_check(const struct rf_block_source *s, const struct stat *file, struct rf_error *e)
{
	uint64_t at = (uint64_t)s->memory, end = at + s->length;
	char *line = NULL;
	size_t room = 0;
	int result = 0;
	FILE *maps = fopen("/proc/self/maps", "re");

	if (!maps)
		return rf_fail_errno(e, RF_E_FAILED, errno, "cannot read /proc/self/maps");
	while (!result && at < end && getline(&line, &room, maps) > 0) {
		struct mapping m;

		if (!parse_line(line, &m) || m.end <= at)
			continue;
		if (m.start > at)
			break;
		result = check_part(s, file, &m, at, e);
		at = m.end;
	}
	free(line);
	fclose(maps);
	if (!result && at < end)
		result = rf_fail(e, RF_E_USAGE, "block \"%s\": no memory is mapped at %#llx", s->name,
				 (unsigned long long)at);
	return result;
}
