/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "fabric/cm/cmscan.h"
#include "tests/unit/nldev.h"
#include "tests/unit/unit.h"

/* The ids that have got a QP number, as netlink reports them. The kernel gives each address the port 7471. */

#define PS 0x106 /* RDMA_PS_TCP, which the kernel reports for each id */

static struct nldev *nl;
static struct nldev_device device;
static struct cmscan *scan;

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	strcpy(kernel.name, "rxe0");
	kernel.n_ports = 1;
	ck_assert_int_eq(nldev_new(&nl), 0);
	ck_assert_int_eq(nldev_find_device(nl, "rxe0", &device), 0);
	ck_assert_int_eq(cmscan_new(&scan), 0);
}

static void tear_down(void)
{
	cmscan_free(scan);
	nldev_free(nl);
}

static void add_id(const char *local, const char *peer, uint32_t qpn)
{
	unsigned last;

	if (kernel.n_pieces == 0 || kernel.n_ids[kernel.n_pieces - 1] == IDS_MAX)
		kernel.n_pieces++;
	last = kernel.n_pieces - 1;
	kernel.ids[last][kernel.n_ids[last]++] = (struct id){
		.tid = 1,
		.state = CONNECT,
		.local = local,
		.peer = peer,
		.qpn = qpn,
	};
}

static struct sockaddr_storage address(const char *text, uint16_t port)
{
	struct sockaddr_storage ret = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&ret;

	in->sin_port = htons(port);
	ck_assert_int_eq(inet_pton(AF_INET, text, &in->sin_addr), 1);
	return ret;
}

static bool has(enum rdma_port_space ps, const char *local, const char *peer, uint16_t peer_port)
{
	struct sockaddr_storage a = address(local, 7471), b = address(peer, peer_port);

	return cmscan_has(scan, ps, &a, &b);
}

START_TEST(tells_who_has_a_number)
{
	add_id("10.9.0.1", "10.9.0.2", 17);
	add_id("10.9.0.1", "10.9.0.3", 0);
	add_id("10.9.0.1", NULL, 0);
	ck_assert_int_eq(cmscan_add(scan, nl, &device), 0);
	ck_assert(has(PS, "10.9.0.1", "10.9.0.2", 7471));
	ck_assert(has(0, "10.9.0.1", "10.9.0.2", 7471));
	ck_assert(!has(PS, "10.9.0.1", "10.9.0.3", 7471));
	ck_assert(!has(RDMA_PS_IB, "10.9.0.1", "10.9.0.2", 7471));
	ck_assert(!has(PS, "10.9.0.1", "10.9.0.2", 7472));
	ck_assert(!has(PS, "10.9.0.2", "10.9.0.1", 7471));
}
END_TEST

START_TEST(reads_all_datagrams)
{
	for (unsigned i = 0; i < 3 * IDS_MAX; i++)
		add_id("10.9.0.1", "10.9.0.2", 100 + i);
	add_id("10.9.0.1", "10.9.0.9", 99);
	ck_assert_int_eq(cmscan_add(scan, nl, &device), 0);
	ck_assert(has(PS, "10.9.0.1", "10.9.0.9", 7471));
	ck_assert_uint_eq(kernel.n_dumps, 1);
}
END_TEST

START_TEST(adds_devices)
{
	add_id("10.9.0.1", "10.9.0.2", 17);
	ck_assert_int_eq(cmscan_add(scan, nl, &device), 0);
	kernel.ids[0][0].local = "10.9.0.5";
	ck_assert_int_eq(cmscan_add(scan, nl, &device), 0);
	ck_assert(has(PS, "10.9.0.1", "10.9.0.2", 7471));
	ck_assert(has(PS, "10.9.0.5", "10.9.0.2", 7471));
}
END_TEST

START_TEST(fails_as_the_kernel)
{
	add_id("10.9.0.1", "10.9.0.2", 17);
	kernel.error = -EINVAL;
	ck_assert_int_eq(cmscan_add(scan, nl, &device), -EINVAL);
}
END_TEST

UNIT_MAIN("cmscan", set_up, tear_down, tells_who_has_a_number, reads_all_datagrams, adds_devices,
	  fails_as_the_kernel)
