/* SPDX-License-Identifier: BSD-2-Clause */
#include <rdma/rdma_cma.h>

#include "proto/portspace.h"

const char *const portspace_names[] = { "tcp", "udp", "ib", "ipoib", NULL };

static const int numbers[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };

int portspace_number(size_t i)
{
	return numbers[i];
}

const char *portspace_name(int number)
{
	for (size_t i = 0; portspace_names[i]; i++)
		if (numbers[i] == number)
			return portspace_names[i];
	return NULL;
}
