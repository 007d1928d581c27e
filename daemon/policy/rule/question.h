/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Policy requests, see policy.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "proto/names.h"

/* In the order of operation_names in proto/names.h. */
enum policy_operation {
	POLICY_SESSION, /* may use the broker at all */
	POLICY_DEVICE, /* may use an RDMA device */
	POLICY_LISTEN, /* may bind and listen */
	POLICY_CONNECT, /* an outgoing connection or, for datagrams, look-up (SIDR) */
	/* a connection request at a listener; uid, groups and workload are those of the listener's owner */
	POLICY_ACCEPT,
	POLICY_JOIN, /* joining a multicast group: PEER is the group */
	POLICY_OBSERVE, /* rdmabrokerctl's verbs that show the state of other users */
	/* rdmabrokerctl's verbs that change the state of other users, and those that show it */
	POLICY_ADMIN,
	_POLICY_OPERATION_MAX,
};

/* Who the peer is: the process at the other end of a connection, as the broker of its host says. */
struct policy_peer {
	uid_t uid;
	const gid_t *
		gids; /* the primary group and the supplementary ones, sorted by policy_sort_gids() */
	size_t n_gids;
	/* as in struct policy_question */
	const char *workload[_WORKLOAD_MAX];
};

struct policy_question {
	enum policy_operation operation;
	bool early; /* return POLICY_DEFER if the decision depends on unknown facts */
	bool can_ask; /* return POLICY_ASK if the decision depends on WHO, which is not known yet */
	/* if WHO is not known, an allow rule that depends only on WHO matches, and such a reject rule does not */
	bool assume_who;

	uid_t uid;
	const gid_t *
		gids; /* the primary group and the supplementary ones, sorted by policy_sort_gids() */
	size_t n_gids;
	bool too_many_gids; /* the groups are not known; GIDS and N_GIDS are not used */

	const struct sockaddr *local; /* NULL, a wildcard or no IP address: not known */
	const struct sockaddr *peer; /* NULL, a wildcard or no IP address: not known */
	int port; /* port of the service, host order; 0: any free port; -1: not known */
	const char *device; /* e.g. "mlx5_0"; NULL: not known */
	int port_space; /* enum rdma_port_space's value; 0: not known */
	uint16_t
		pkey; /* the partition (proto/pkey.h); 0: not known; set by policy_set_partition(), as NAMES_PKEY */
	bool names_pkey; /* the partition was named: the client's address alone would not lead to it */
	/* what the client belongs to, by enum workload_name; "": to none, and no pattern matches; NULL: not known */
	const char *workload[_WORKLOAD_MAX];
	const struct policy_peer *who; /* NULL: not known */
	bool knows_data; /* the private data is known (it may be empty) */
	const void *data; /* private data of a connection request; may be NULL if DATA_LEN is 0 */
	size_t data_len; /* in bytes; may include the transport's padding */
	bool may_bind_low; /* the client is root, and the kernel would let it bind ports below 1024; false: no, or not known */
};

void policy_sort_gids(gid_t *gids, size_t n); /* linear if they are sorted already */

/*
 * Sets the partition that QUESTION is about, whose operation and addresses are known. PKEY is the partition of the device,
 * network device or connection request; 0: not known yet, so that only an address of AF_IB says it. PATH_PKEY is that of a
 * path which the client has set itself; 0: there is none.
 *
 * An IP address belongs to a network device, and so to that device's partition. An address of AF_IB belongs to none, so
 * there the default partition is implied, and every other one was named by the client or, on accept, by its peer.
 */
void policy_set_partition(struct policy_question *question, uint16_t pkey, uint16_t path_pkey);
