/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <infiniband/ib.h>

#include "policy/rule/question.h"
#include "proto/pkey.h"

static bool is_ib(const struct sockaddr *addr)
{
	return addr && addr->sa_family == AF_IB;
}

static uint16_t partition_of(const struct sockaddr *addr)
{
	return is_ib(addr) ? pkey_partition(ntohs(((const struct sockaddr_ib *)addr)->sib_pkey)) :
			     0;
}

void policy_set_partition(struct policy_question *question, uint16_t pkey, uint16_t path_pkey)
{
	/* To an id without an address the kernel gives one in the partition of its peer. A group has none. */
	const struct sockaddr *peer = question->operation == POLICY_CONNECT ? question->peer : NULL;
	uint16_t implied = pkey;

	if (implied == 0)
		implied = partition_of(question->local) ?: partition_of(peer);
	question->pkey = path_pkey ?: implied;
	question->names_pkey = (path_pkey != 0 && path_pkey != implied) ||
			       ((is_ib(question->local) || is_ib(peer)) && question->pkey != 0 &&
				question->pkey != PKEY_DEFAULT);
}
