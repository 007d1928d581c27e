/* SPDX-License-Identifier: BSD-2-Clause */

/* Prints specifications as `rdmabrokerctl cdi` writes them on a host with two RDMA devices, one in each line. */

#include "client/ctl/cdispec.h"

int main(void)
{
	static const struct cdispec_device devices[] = {
		{ "mlx5_0", "/dev/infiniband/uverbs0" },
		{ "rxe0", "/dev/infiniband/uverbs1" },
	};
	static const struct cdispec_library library = { "lib.so", "/usr/lib/lib.so" };

	cdispec_print_rdma(stdout, devices, 2, "/run/rdmabroker/rdmabroker.sock");
	cdispec_print_dropin(stdout, &library, 1);
	return 0;
}
