/* SPDX-License-Identifier: BSD-2-Clause */
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <string.h>

#include "proto/names.h"

const char *const operation_names[] = {
	"session", "device", "listen", "connect", "accept", "join", "observe", "admin", NULL,
};

const char *const notice_kind_names[] = { "decision", "cm", "session", "lost", "question", NULL };

const char *const outcome_names[] = { "allowed", "rejected", "busy", "warned", NULL };

const char *const event_names[] = {
	"addr-resolved",
	"addr-error",
	"route-resolved",
	"route-error",
	"connect-request",
	"connect-response",
	"connect-error",
	"unreachable",
	"rejected",
	"established",
	"disconnected",
	"device-removal",
	"multicast-join",
	"multicast-error",
	"addr-change",
	"timewait-exit",
	NULL,
};

const char *const portspace_names[] = { "tcp", "udp", "ib", "ipoib", NULL };

static const int portspaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };

int portspace_number(size_t i)
{
	return portspaces[i];
}

const char *portspace_name(int number)
{
	for (size_t i = 0; portspace_names[i]; i++)
		if (portspaces[i] == number)
			return portspace_names[i];
	return NULL;
}

int names_find(const char *const *names, const char *word)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], word) == 0)
			return i;
	return -1;
}
