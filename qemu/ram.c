// SPDX-License-Identifier: LGPL-2.1-or-later
/* RAM of a machine is its memory backends: also plain -m makes one, a private one. Where a backend is mapped,
 * x-query-ramblock tells from QEMU 8.1 on. Before, the flat view of the memory tree gives a guest address of the backend
 * and the monitor's gpa2hva turns it into an address of the process. Both are texts for people, so whatever they say is
 * checked: against the size, and against the shared mappings that the kernel shows for that process. */
#include "qemu/ram.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QEMU_8_1 = 80100 };

static int refuse_private(const char *id, uint64_t size, const char *what, struct rf_error *e)
{
	uint64_t mib = size >> 20;
	return rf_fail(e, RF_E_REFUSED,
		       "the RAM \"%s\" %s and cannot be moved: start QEMU with -object memory-backend-file,id=%s,"
		       "mem-path=/dev/shm/%s,share=on,size=%" PRIu64 "M and -machine memory-backend=%s",
		       id, what, id, id, mib, id);
}

static int qom_get(struct rf_qmp *q, const char *path, const char *property, json_t **value, struct rf_error *e)
{
	return rf_qmp_call(q, "qom-get", json_pack("{s:s,s:s}", "path", path, "property", property), value, e);
}

/* Is it a backend that x-ignore-shared leaves to us? */
static int check_backend(struct rf_qmp *q, const char *id, uint64_t size, bool share, struct rf_error *e)
{
	char path[300], type[64] = "";
	snprintf(path, sizeof(path), "/objects/%s", id);
	json_t *value;
	if (qom_get(q, path, "type", &value, e) != 0)
		return rf_wrap(e, "the RAM \"%s\"", id);
	if (json_is_string(value))
		snprintf(type, sizeof(type), "%s", json_string_value(value));
	json_decref(value);

	if (!share)
		return refuse_private(id, size, "is private to QEMU", e);
	if (strcmp(type, "memory-backend-memfd") == 0 && rf_qmp_version(q) < QEMU_8_1)
		return 0;
	if (strcmp(type, "memory-backend-file") != 0)
		return refuse_private(id, size, "is not in a file", e);
	if (qom_get(q, path, "readonly", &value, NULL) != 0)
		return 0; /* so old that it has no such property */
	bool read_only = json_is_true(value);
	json_decref(value);
	return read_only ? rf_fail(e, RF_E_REFUSED, "the RAM \"%s\" is read-only (readonly=on)", id) : 0;
}

static int take_backend(struct rf_qmp *q, const json_t *dev, struct rf_ram *ram, struct rf_error *e)
{
	const char *id = NULL;
	json_int_t size = 0;
	int share = 0;
	if (json_unpack((json_t *)dev, "{s?s,s:I,s?b}", "id", &id, "size", &size, "share", &share) != 0 || size <= 0)
		return rf_fail(e, RF_E_REFUSED, "QEMU describes its memory in a way that is not understood");
	if (!id || strlen(id) >= sizeof(ram->id))
		return rf_fail(e, RF_E_REFUSED, "a memory backend of this QEMU has no id, or a very long one");
	strcpy(ram->id, id);
	ram->size = size;
	return check_backend(q, id, ram->size, share, e);
}

/* ---- Addresses -------------------------------------------------------------------------------------------------------- */

/* A line of x-query-ramblock: NAME, page size in two words, offset, used, total, address, protection. */
static bool address_from_blocks(const char *text, struct rf_ram *ram)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
		char name[300];
		uint64_t used, total, address;
		if (sscanf(line, " %299s %*s %*s 0x%*x 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64, name, &used, &total,
			   &address) != 4)
			continue;
		const char *id = strncmp(name, "/objects/", 9) == 0 ? name + 9 : name;
		if (strcmp(id, ram->id) == 0 && total == ram->size) {
			ram->address = address;
			return true;
		}
	}
	return false;
}

/* A line of `info mtree -f`: START-END (prio N, ram): NAME [@OFFSET]. */
static bool guest_address(const char *tree, const char *id, uint64_t *address, uint64_t *offset)
{
	const char *line = strstr(tree, "AS \"memory\"");
	for (; line && *line && strncmp(line, "FlatView", 8) != 0; line = strchr(line, '\n'), line += line != NULL) {
		char name[300];
		*offset = 0;
		if (sscanf(line, " %" SCNx64 "-%*x (prio %*d, ram): %299s @%" SCNx64, address, name, offset) >= 2 &&
		    strcmp(name, id) == 0)
			return true;
	}
	return false;
}

static int address_from_tree(struct rf_qmp *q, const char *tree, struct rf_ram *ram, struct rf_error *e)
{
	uint64_t guest, offset, host;
	char line[64], name[300], *answer;
	if (!guest_address(tree, ram->id, &guest, &offset))
		return rf_fail(e, RF_E_REFUSED, "the RAM \"%s\" is not part of the guest's memory", ram->id);
	snprintf(line, sizeof(line), "gpa2hva 0x%" PRIx64, guest);
	if (rf_qmp_human(q, line, &answer, e) != 0)
		return -1;
	bool found = sscanf(answer, "Host virtual address for 0x%*x (%299[^)]) is 0x%" SCNx64, name, &host) == 2 &&
		     strcmp(name, ram->id) == 0;
	free(answer);
	if (!found)
		return rf_fail(e, RF_E_REFUSED, "QEMU does not tell where the RAM \"%s\" is mapped", ram->id);
	ram->address = host - offset;
	return 0;
}

static int find_addresses(struct rf_qmp *q, struct rf_ram *list, unsigned count, struct rf_error *e)
{
	char *text = NULL;
	json_t *answer = NULL;
	int r = 0;
	if (rf_qmp_version(q) >= QEMU_8_1) {
		if (rf_qmp_call(q, "x-query-ramblock", NULL, &answer, e) != 0)
			return -1;
		const char *blocks = json_string_value(json_object_get(answer, "human-readable-text"));
		for (unsigned i = 0; i < count && r == 0; i++)
			if (!blocks || !address_from_blocks(blocks, &list[i]))
				r = rf_fail(e, RF_E_REFUSED, "QEMU does not tell where the RAM \"%s\" is mapped",
					    list[i].id);
		json_decref(answer);
		return r;
	}
	if (rf_qmp_human(q, "info mtree -f", &text, e) != 0)
		return -1;
	for (unsigned i = 0; i < count && r == 0; i++)
		r = address_from_tree(q, text, &list[i], e);
	free(text);
	return r;
}

/* ---- All ---------------------------------------------------------------------------------------------------------------- */

static int find_mappings(const struct rf_process *p, struct rf_ram *list, unsigned count, struct rf_error *e)
{
	for (unsigned i = 0; i < count; i++) {
		struct rf_mapping *m = &list[i].mapping;
		if (rf_mapping_find(p, list[i].address, list[i].size, m, e) != 0)
			return rf_wrap(e, "the RAM \"%s\"", list[i].id);
		for (unsigned j = 0; j < i; j++) {
			const struct rf_mapping *o = &list[j].mapping;
			if (o->device == m->device && o->inode == m->inode &&
			    o->file_offset < m->file_offset + m->length && m->file_offset < o->file_offset + o->length)
				return rf_fail(e, RF_E_REFUSED, "the RAMs \"%s\" and \"%s\" share one file", list[j].id,
					       list[i].id);
		}
	}
	return 0;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct rf_ram *)a)->id, ((const struct rf_ram *)b)->id);
}

/* Nothing of the machine's memory may be missing from the list. */
static int check_total(struct rf_qmp *q, const struct rf_ram *list, unsigned count, struct rf_error *e)
{
	json_t *answer;
	json_int_t base = 0, plugged = 0;
	if (rf_qmp_call(q, "query-memory-size-summary", NULL, &answer, e) != 0)
		return -1;
	json_unpack(answer, "{s:I,s?I}", "base-memory", &base, "plugged-memory", &plugged);
	json_decref(answer);
	uint64_t sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += list[i].size;
	if (!count || base <= 0 || sum < (uint64_t)base + (uint64_t)plugged)
		return refuse_private("ram", base, "is not in a memory backend", e);
	return 0;
}

int rf_ram_list(struct rf_qmp *q, const struct rf_process *p, struct rf_ram **list, unsigned *count, struct rf_error *e)
{
	json_t *devices;
	if (rf_qmp_call(q, "query-memdev", NULL, &devices, e) != 0)
		return -1;
	unsigned n = json_array_size(devices);
	struct rf_ram *ram = calloc(n + 1, sizeof(*ram));
	int r = ram ? 0 : rf_fail(e, RF_E_FAILED, "out of memory");
	for (unsigned i = 0; i < n && r == 0; i++)
		r = take_backend(q, json_array_get(devices, i), &ram[i], e);
	json_decref(devices);
	if (r == 0 && ram)
		qsort(ram, n, sizeof(*ram), by_id);
	if (r != 0 || check_total(q, ram, n, e) != 0 || find_addresses(q, ram, n, e) != 0 ||
	    find_mappings(p, ram, n, e) != 0) {
		free(ram);
		return -1;
	}
	*list = ram;
	*count = n;
	return 0;
}
