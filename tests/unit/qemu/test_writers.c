// SPDX-License-Identifier: LGPL-2.1-or-later
/* Writers that cannot be seen, each in the words in which QEMU describes it. */
#include "fake.h"

#include "qemu/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What QEMU answers to a command, or to a line for its human monitor. */
struct words {
	const char *command, *answer;
};

static const struct words harmless[] = {
    {"info qtree", "\"bus: main-system-bus\\r\\n  type System\\r\\n  dev: i440FX-pcihost, id \\\"\\\"\\r\\n"
		   "    bus: pci.0\\r\\n      dev: virtio-gpu-pci, id \\\"video\\\"\\r\\n        blob = false\\r\\n"
		   "      dev: virtio-net-pci, id \\\"vfio-net\\\"\\r\\n      dev: vhost-vsock-pci, id \\\"\\\"\\r\\n"
		   "          dev: scsi-hd, id \\\"scsi-block\\\"\\r\\n\""},
    {"info network", "\"virtio-net-pci.0: index=0,type=nic,model=virtio-net-pci\\r\\n"
		     " \\\\ n0: index=0,type=tap,ifname=tap0,script=no,vhost=on\\r\\n\""},
    {"query-memory-devices", "[{\"type\": \"dimm\", \"data\": {\"id\": \"d\"}}]"},
    {"qom-list",
     "[{\"name\": \"m\", \"type\": \"child<memory-backend-file>\"}, {\"name\": \"type\", \"type\": \"string\"}]"},
    {"query-named-block-nodes",
     "[{\"node-name\": \"#b\", \"drv\": \"file\", \"file\": \"/a.img\", \"cache\": {\"direct\": false}},"
     "{\"node-name\": \"#c\", \"drv\": \"qcow2\"}]"},
};

static struct words special; /* takes the place of the harmless one */

static const char *answer_to(const char *command)
{
	if (special.command && strstr(command, special.command))
		return special.answer;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++)
		if (strstr(command, harmless[i].command))
			return harmless[i].answer;
	return "{}";
}

static void describes_itself(int peer)
{
	char command[1024], answer[2048];
	ssize_t n;
	fake_greet(peer);
	while ((n = recv(peer, command, sizeof(command) - 1, 0)) > 0) {
		command[n] = 0;
		const char *id = strstr(command, "\"id\":");
		snprintf(answer, sizeof(answer), "{\"return\": %s, \"id\": %d}\r\n", answer_to(command),
			 id ? atoi(id + 5) : 0);
		fake_say(peer, answer);
	}
}

static struct rf_guest guest; /* as the last check left it */

static void expect_writer(const char *command, const char *answer, const char *sentence)
{
	struct fake f;
	struct rf_qmp *q;
	struct rf_error e = {0};
	special = (struct words){command, answer};
	fake_start(&f, describes_itself);
	assert_int_equal(rf_qmp_connect(f.path, &q, &e), 0);
	assert_int_equal(rf_qmp_greet(q, &e), 0);
	int r = rf_check_writers(q, getpid(), &guest, &e);
	if (!sentence && r != 0)
		fail_msg("%s", e.text);
	if (sentence) {
		assert_int_equal(r, -1);
		assert_int_equal(e.code, RF_E_REFUSED);
		if (!strstr(e.text, sentence))
			fail_msg("\"%s\" is not in \"%s\"", sentence, e.text);
	}
	rf_qmp_close(q);
	fake_end(&f);
}

static void expect_device(const char *type, const char *sentence)
{
	char tree[256];
	snprintf(tree, sizeof(tree), "\"bus: pci.0\\r\\n  dev: %s, id \\\"x\\\"\\r\\n    addr = 03.0\\r\\n\"", type);
	expect_writer("info qtree", tree, sentence);
}

static void a_plain_guest_passes(void **state)
{
	expect_writer(NULL, NULL, NULL);
}

static void devices(void **state)
{
	expect_device("vfio-pci", "the device vfio-pci writes into the guest's RAM unseen: unplug it first");
	expect_device("vfio-pci-nohotplug", "the device vfio-pci-nohotplug");
	expect_device("vhost-vdpa-device-pci", "the device vhost-vdpa-device-pci writes");
	expect_device("vhost-scsi-pci", "the device vhost-scsi-pci writes");
	expect_device("vhost-user-fs-pci",
		      "the device vhost-user-fs-pci lets another process write into the guest's RAM unseen");
	expect_device("vhost-user-blk-pci", "the device vhost-user-blk-pci");
	expect_device("virtio-blk-vhost-user", "the device virtio-blk-vhost-user");
	expect_device("ivshmem-plain", "the device ivshmem-plain");
	expect_device("vhost-user-scsi-pci", "the device vhost-user-scsi-pci");
	expect_device("vfio-user-pci", "the device vfio-user-pci");
	expect_device("pvrdma", "the device pvrdma writes into the guest's RAM unseen");
	expect_device("virtio-pmem-pci", "the device virtio-pmem-pci holds data that outlives the guest");
	expect_device("virtio-blk-pci", NULL);
}

static void devices_that_give_memory_back(void **state)
{
	expect_device("virtio-blk-pci", NULL);
	assert_false(guest.may_discard);
	assert_string_equal(guest.discarder, "");
	expect_device("virtio-balloon-pci-transitional", NULL);
	assert_true(guest.may_discard);
	assert_string_equal(guest.discarder, "the device virtio-balloon-pci-transitional");
	expect_device("hv-balloon", NULL);
	assert_true(guest.may_discard);
	expect_device("virtio-mem-pci", NULL);
	assert_string_equal(guest.discarder, "the device virtio-mem-pci");
	expect_writer("query-memory-devices", "[{\"type\": \"dimm\", \"data\": {}}]", NULL);
	assert_false(guest.may_discard);
}

static void graphics_of_the_host(void **state)
{
	expect_writer("info qtree",
		      "\"dev: virtio-vga-gl, id \\\"\\\"\\r\\n   dev: virtio-gpu-gl-device, id \\\"\\\"\\r\\n"
		      "     blob = true\\r\\n\"",
		      "the device virtio-gpu-gl-device has blob=on");
}

static void networks(void **state)
{
	expect_writer("info network",
		      "\"virtio-net-pci.0: index=0,type=nic\\r\\n \\\\ fast: index=0,type=vhost-user,x=y\\r\\n\"",
		      "the network fast is of type vhost-user, which lets another process write");
	expect_writer("info network", "\"lonely: index=0,type=vhost-vdpa,vhost_scsi\\r\\n\"",
		      "the network lonely is of type vhost-vdpa, which writes");
}

static void memory_devices(void **state)
{
	expect_writer("query-memory-devices", "[{\"type\": \"nvdimm\", \"data\": {}}]", "the device nvdimm holds data");
	expect_writer("query-memory-devices", "[{\"type\": \"virtio-mem\", \"data\": {}}]", "needs QEMU 8.1");
}

static void objects(void **state)
{
	expect_writer("qom-list", "[{\"name\": \"c0\", \"type\": \"child<cryptodev-vhost-user>\"}]", "the object c0");
	expect_writer("qom-list", "[{\"name\": \"v0\", \"type\": \"child<x-vfio-user-server>\"}]", "the object v0");
}

static void disks(void **state)
{
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"nvme\"}]",
		      "the disk n has the driver nvme, which writes");
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"nvme-io_uring\"}]",
		      "the driver nvme-io_uring");
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"io_uring\"}]",
		      "the driver io_uring"); /* of libblkio, which pins all memory; not aio=io_uring of a file */
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"virtio-blk-vfio-pci\"}]",
		      "the driver virtio-blk-vfio-pci");
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"virtio-blk-vhost-user\"}]",
		      "the driver virtio-blk-vhost-user");
	expect_writer("query-named-block-nodes", "[{\"node-name\": \"n\", \"drv\": \"virtio-blk-vhost-vdpa\"}]",
		      "the driver virtio-blk-vhost-vdpa");
}

static void expect_direct(const char *command, const char *answer, const char *writer)
{
	expect_writer(command, answer, NULL);
	assert_int_equal(guest.needs_drain, *writer != 0);
	assert_string_equal(guest.direct_writer, writer);
}

static void direct_io_needs_drain_points(void **state)
{
	expect_direct(NULL, NULL, "");
	expect_direct("query-named-block-nodes",
		      "[{\"node-name\": \"m\", \"drv\": \"qcow2\", \"cache\": {\"direct\": false}},"
		      "{\"node-name\": \"n\", \"file\": \"/d.img\", \"drv\": \"file\", \"cache\": {\"direct\": true}},"
		      "{\"node-name\": \"o\", \"file\": \"/e.img\", \"drv\": \"file\", \"cache\": {\"direct\": true}}]",
		      "the disk /d.img");
	expect_direct("query-named-block-nodes",
		      "[{\"node-name\": \"n\", \"file\": \"\", \"cache\": {\"direct\": true}}]", "the disk n");
	expect_direct(NULL, NULL, ""); /* what another check has found is forgotten */
	expect_direct("info qtree", "\"  dev: scsi-block, id \\\"\\\"\\r\\n\"", "the device scsi-block");
	expect_direct("info qtree", "\"  dev: scsi-generic, id \\\"\\\"\\r\\n\"", "the device scsi-generic");
	expect_direct("info qtree", "\"  dev: scsi-hd, id \\\"\\\"\\r\\n\"", "");
}

/* Words of another shape than expected must not crash us. */
static void nonsense(void **state)
{
	static const char *const shapes[] = {
	    "7", "{}", "[]", "null", "\"dev: \\n dev:,\\n: index=\\n = \"", "[[1], \"x\", {}]"};
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (size_t j = 0; j < sizeof(harmless) / sizeof(*harmless); j++)
			expect_writer(harmless[j].command, shapes[i], NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_plain_guest_passes),
	    cmocka_unit_test(devices),
	    cmocka_unit_test(devices_that_give_memory_back),
	    cmocka_unit_test(graphics_of_the_host),
	    cmocka_unit_test(networks),
	    cmocka_unit_test(memory_devices),
	    cmocka_unit_test(objects),
	    cmocka_unit_test(disks),
	    cmocka_unit_test(direct_io_needs_drain_points),
	    cmocka_unit_test(nonsense),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
