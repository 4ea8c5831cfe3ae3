// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writers of guest RAM that a tracker on QEMU's page tables does not see. Devices are taken from the device tree (`info qtree`),
 * where every device on any bus has one line, disks from the block nodes.
 *
 * What QEMU's block layer reads by direct I/O has an end that QEMU can wait for: its guests are moved with drain points
 * (drain.c). Devices that write by DMA whenever they like and other processes that map the RAM have none. Their guests are
 * refused; a silent loss would be the alternative. */
#include "qemu/check.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum writer_kind { DMA, PROCESS, PERSISTENT };

static const struct writer {
	const char *prefix; /* of the device's type */
	enum writer_kind kind;
} writers[] = {
    {"vfio-", DMA},           {"x-vfio-", PROCESS},           {"vhost-vdpa-", DMA},        {"vhost-scsi", DMA},
    {"vhost-user-", PROCESS}, {"virtio-blk-vhost-", PROCESS}, {"ivshmem", PROCESS},        {"x-pci-proxy-dev", PROCESS},
    {"pvrdma", DMA},          {"nvdimm", PERSISTENT},         {"virtio-pmem", PERSISTENT},
};

/* Devices that pass SCSI commands through to a disk, whose data then lands in the guest's RAM directly. */
static const char *const passers[] = {"scsi-block", "scsi-generic"};

/* Block drivers of libblkio, but for the first: they have the guest's RAM mapped to a device or pinned once and for all. */
static const char *const dma_drivers[] = {
    "nvme", "io_uring", "nvme-io_uring", "virtio-blk-vfio-pci", "virtio-blk-vhost-user", "virtio-blk-vhost-vdpa"};

/* Devices that give pages of the guest's RAM back to the host, by punching its file. */
static const char *const discarders[] = {"virtio-balloon", "virtio-mem", "hv-balloon"};

static const char *const reasons[] = {
    [DMA] = "writes into the guest's RAM unseen",
    [PROCESS] = "lets another process write into the guest's RAM unseen",
    [PERSISTENT] = "holds data that outlives the guest",
};

static void note_discarder(const char *type, struct rf_guest *g)
{
	for (size_t i = 0; i < sizeof(discarders) / sizeof(*discarders); i++) {
		if (strncmp(type, discarders[i], strlen(discarders[i])) != 0)
			continue;
		g->may_discard = true;
		if (!g->discarder[0])
			snprintf(g->discarder, sizeof(g->discarder), "the device %.80s", type);
	}
}

static void note_direct_writer(struct rf_guest *g, const char *what, const char *name)
{
	g->needs_drain = true;
	if (!g->direct_writer[0])
		snprintf(g->direct_writer, sizeof(g->direct_writer), "the %s %.80s", what, name);
}

static int check_device(const char *type, struct rf_guest *g, struct rf_error *e)
{
	note_discarder(type, g);
	for (size_t i = 0; i < sizeof(passers) / sizeof(*passers); i++)
		if (strncmp(type, passers[i], strlen(passers[i])) == 0)
			note_direct_writer(g, "device", type);
	for (size_t i = 0; i < sizeof(writers) / sizeof(*writers); i++)
		if (strncmp(type, writers[i].prefix, strlen(writers[i].prefix)) == 0)
			return rf_fail(e, RF_E_REFUSED, "the device %s %s: unplug it first", type,
				       reasons[writers[i].kind]);
	return 0;
}

/* Lines are "dev: TYPE, id …" and, deeper, "PROPERTY = VALUE". */
static int check_tree(char *tree, struct rf_guest *g, struct rf_error *e)
{
	char device[128] = "", *rest = NULL;
	for (char *line = strtok_r(tree, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
		line += strspn(line, " ");
		if (sscanf(line, "dev: %127[^,]", device) == 1 && check_device(device, g, e) != 0)
			return -1;
		if (strcmp(line, "blob = true") == 0 || strcmp(line, "blob = on") == 0)
			return rf_fail(e, RF_E_REFUSED,
				       "the device %s has blob=on, so that the host's graphics write into the "
				       "guest's RAM unseen",
				       device);
	}
	return 0;
}

/* Lines are " \ NAME: index=N,type=TYPE,…", without the backslash for those that no device uses. */
static int check_networks(char *list, struct rf_guest *g, struct rf_error *e)
{
	char *rest = NULL;
	for (char *line = strtok_r(list, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
		char name[128], type[64];
		line += strspn(line, " \\");
		if (sscanf(line, "%127[^:]: index=%*d,type=%63[^,]", name, type) != 2)
			continue;
		if (strcmp(type, "vhost-user") == 0 || strcmp(type, "vhost-vdpa") == 0)
			return rf_fail(e, RF_E_REFUSED, "the network %s is of type %s, which %s", name, type,
				       reasons[type[6] == 'u' ? PROCESS : DMA]);
	}
	return 0;
}

static int check_human(struct rf_qmp *q, const char *command, struct rf_guest *g,
		       int (*check)(char *, struct rf_guest *, struct rf_error *), struct rf_error *e)
{
	char *text;
	if (rf_qmp_human(q, command, &text, e) != 0)
		return -1;
	int r = check(text, g, e);
	free(text);
	return r;
}

static int check_block_node(const json_t *node, struct rf_guest *g, struct rf_error *e)
{
	const char *name = json_string_value(json_object_get(node, "node-name"));
	const char *file = json_string_value(json_object_get(node, "file"));
	const char *driver = json_string_value(json_object_get(node, "drv"));
	if (!name)
		name = "?";
	if (!file || !*file || strncmp(file, "json:", 5) == 0)
		file = name;
	for (size_t i = 0; driver && i < sizeof(dma_drivers) / sizeof(*dma_drivers); i++)
		if (strcmp(driver, dma_drivers[i]) == 0)
			return rf_fail(e, RF_E_REFUSED, "the disk %s has the driver %s, which %s", name, driver,
				       reasons[DMA]);
	if (json_is_true(json_object_get(json_object_get(node, "cache"), "direct")))
		note_direct_writer(g, "disk", file);
	return 0;
}

static int check_block_nodes(struct rf_qmp *q, struct rf_guest *g, struct rf_error *e)
{
	json_t *nodes;
	if (rf_qmp_call(q, "query-named-block-nodes", json_pack("{s:b}", "flat", 1), &nodes, e) != 0)
		return -1;
	int r = 0;
	size_t i;
	json_t *node;
	json_array_foreach(nodes, i, node)
	{
		if (r == 0)
			r = check_block_node(node, g, e);
	}
	json_decref(nodes);
	return r;
}

/* Memory devices sit on no bus, so the tree does not show them. */
static int check_memory_devices(struct rf_qmp *q, struct rf_guest *g, struct rf_error *e)
{
	json_t *devices, *device;
	size_t i;
	if (rf_qmp_call(q, "query-memory-devices", NULL, &devices, e) != 0)
		return -1;
	int r = 0;
	json_array_foreach(devices, i, device)
	{
		const char *type = json_string_value(json_object_get(device, "type"));
		if (r == 0 && type)
			r = check_device(type, g, e);
		if (r == 0 && type && strcmp(type, "virtio-mem") == 0 && rf_qmp_version(q) < 80100)
			r = rf_fail(e, RF_E_REFUSED, "a virtio-mem device needs QEMU 8.1 to be moved");
	}
	json_decref(devices);
	return r;
}

/* Objects of -object that hand the guest's RAM to another process. */
static int check_objects(struct rf_qmp *q, struct rf_error *e)
{
	json_t *objects, *object;
	size_t i;
	if (rf_qmp_call(q, "qom-list", json_pack("{s:s}", "path", "/objects"), &objects, e) != 0)
		return -1;
	int r = 0;
	json_array_foreach(objects, i, object)
	{
		const char *type = json_string_value(json_object_get(object, "type"));
		const char *name = json_string_value(json_object_get(object, "name"));
		if (r == 0 && type &&
		    (strstr(type, "<cryptodev-vhost-user>") || strstr(type, "<x-vfio-user-server>") ||
		     strstr(type, "<x-remote-object>")))
			r = rf_fail(e, RF_E_REFUSED, "the object %s (%s) %s", name ? name : "?", type,
				    reasons[PROCESS]);
	}
	json_decref(objects);
	return r;
}

/* KVM keeps control pages of an inner guest mapped, and the CPU writes them unseen. Its count of entries into inner guests
 * is in debugfs, where that is mounted and readable. */
static int check_nested(pid_t pid, struct rf_error *e)
{
	char pattern[64];
	glob_t g;
	snprintf(pattern, sizeof(pattern), "/sys/kernel/debug/kvm/%d-*/nested_run", (int)pid);
	if (glob(pattern, 0, NULL, &g) != 0)
		return 0;
	unsigned long long entries = 0;
	for (size_t i = 0; i < g.gl_pathc && !entries; i++) {
		FILE *f = fopen(g.gl_pathv[i], "re");
		if (f && fscanf(f, "%llu", &entries) != 1)
			entries = 0;
		if (f)
			fclose(f);
	}
	globfree(&g);
	if (entries)
		return rf_fail(e, RF_E_REFUSED,
			       "the guest runs guests of its own under KVM, whose control pages are written "
			       "unseen");
	return 0;
}

int rf_check_writers(struct rf_qmp *q, pid_t pid, struct rf_guest *g, struct rf_error *e)
{
	g->may_discard = false;
	g->discarder[0] = 0;
	g->needs_drain = false;
	g->direct_writer[0] = 0;
	if (check_human(q, "info qtree", g, check_tree, e) != 0 ||
	    check_human(q, "info network", g, check_networks, e) != 0 || check_memory_devices(q, g, e) != 0 ||
	    check_objects(q, e) != 0 || check_block_nodes(q, g, e) != 0 || check_nested(pid, e) != 0)
		return -1;
	return 0;
}
