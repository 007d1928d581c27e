/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/no_rdma.h"
#include "tests/unit/tree.h"
#include "tests/unit/unit.h"

/* Explanations of why RDMA cannot be used, from a /sys and a /dev that this test creates. */

static char root[] = "/tmp/check_no_rdma.XXXXXX";

/* Creates the file or folder PATH below ROOT, and its parent folders. */
static void make(const char *path, bool is_folder)
{
	char full[256], *slash;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	if (is_folder) {
		ck_assert_int_eq(mkdir(full, 0755), 0);
		return;
	}
	f = fopen(full, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
}

static void set_up(void)
{
	strcpy(root, "/tmp/check_no_rdma.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void tear_down(void)
{
	remove_tree(root);
}

static void assert_says(const char *what, const char *remedy)
{
	char text[512] = "";

	ck_assert(no_rdma_explain(root, text, sizeof(text)));
	ck_assert_msg(strstr(text, what), "no '%s' in '%s'", what, text);
	ck_assert_msg(strstr(text, remedy), "no '%s' in '%s'", remedy, text);
}

static void assert_says_nothing(void)
{
	char text[512] = "";

	ck_assert_msg(!no_rdma_explain(root, text, sizeof(text)), "%s", text);
}

START_TEST(each_missing_part_is_explained)
{
	assert_says("module rdma_ucm is not loaded", "modprobe rdma_ucm");
	make("/sys/class/misc/rdma_cm", /* is_folder= */ true);
	assert_says("/dev/infiniband/rdma_cm is missing (No such file or directory)",
		    "udevadm trigger --settle --sysname-match=rdma_cm");
	make("/dev/infiniband/rdma_cm", /* is_folder= */ false);
	assert_says("no RDMA device", "rdma link add rxe0 type rxe netdev NAME");
	make("/sys/class/infiniband", /* is_folder= */ true);
	assert_says("no RDMA device", "load the driver");
	make("/sys/class/infiniband/rxe0", /* is_folder= */ true);
	assert_says("module ib_uverbs is not loaded", "modprobe ib_uverbs");
	/* Only entries of infiniband_verbs that are named uverbsN are devices. */
	make("/sys/class/infiniband_verbs/abi_version", /* is_folder= */ false);
	assert_says("module ib_uverbs is not loaded", "modprobe ib_uverbs");
	make("/sys/class/infiniband_verbs/uverbs0", /* is_folder= */ true);
	assert_says("/dev/infiniband/uverbs0 is missing", "--sysname-match=uverbs0");
	make("/dev/infiniband/uverbs0", /* is_folder= */ false);
	assert_says_nothing();
	make("/sys/class/infiniband_verbs/uverbs1", /* is_folder= */ true);
	assert_says("/dev/infiniband/uverbs1 is missing", "--sysname-match=uverbs1");
}
END_TEST

START_TEST(a_node_that_cannot_be_opened)
{
	char full[256];

	make("/sys/class/misc/rdma_cm", /* is_folder= */ true);
	make("/dev/infiniband/rdma_cm", /* is_folder= */ false);
	make("/sys/class/infiniband/rxe0", /* is_folder= */ true);
	make("/sys/class/infiniband_verbs/uverbs0", /* is_folder= */ true);
	make("/dev/infiniband/uverbs0", /* is_folder= */ false);
	ck_assert_int_eq(chmod(root, 0755), 0);
	snprintf(full, sizeof(full), "%s/dev/infiniband/uverbs0", root);
	ck_assert_int_eq(chmod(full, 0400), 0);
	/*
	 * Root can open every node. Check runs each test in a process of its own, so this test can become another
	 * user.
	 */
	if (geteuid() == 0) {
		assert_says_nothing();
		ck_assert_int_eq(setuid(65534), 0);
		assert_says("cannot open /dev/infiniband/rdma_cm, which has owner 0 and mode",
			    "90-rdmabroker.rules");
	} else {
		assert_says("cannot open /dev/infiniband/uverbs0, which has owner",
			    "90-rdmabroker.rules");
	}
}
END_TEST

/* A soft device has no driver. */
START_TEST(an_adapter_without_the_port_mapper)
{
	make("/sys/class/infiniband/siw0/ports", true);
	make("/sys/class/infiniband/cxgb4_0/device/driver", true);
	ck_assert(!no_rdma_lacks_port_mapper(root, "siw0"));
	ck_assert(no_rdma_lacks_port_mapper(root, "cxgb4_0"));
	make("/sys/fs/cgroup/system.slice/iwpmd.service", true);
	ck_assert(!no_rdma_lacks_port_mapper(root, "cxgb4_0"));
}
END_TEST

UNIT_MAIN("no_rdma", set_up, tear_down, each_missing_part_is_explained,
	  a_node_that_cannot_be_opened, an_adapter_without_the_port_mapper)
