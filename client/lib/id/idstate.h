/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* An id: what is known of it, and its QP. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "client/lib/wire/message.h"
#include "client/rdmabroker.h"

struct device;
struct join;

/* The members are written by the thread that calls on the id or takes its events, unless the comment names the lock. */
struct rdmabroker_id {
	struct rdmabroker *session;
	uint32_t handle;
	bool is_new; /* not created in the broker yet: the next request does it; wire.lock */
	enum rdmabroker_port_space ps;
	void *context;
	struct sockaddr_storage local, peer;
	char device_name[64]; /* empty: not bound to a device */
	struct device *device; /* opened for this id, or NULL */
	bool listening;
	/* OPTIONS, BOUND and SRC are needed to create the id again, see connect/retry.c. */
	int options[4]; /* by enum rdmabroker_option; -1: not set */
	bool bound; /* by the program, with bind_addr */
	struct sockaddr_storage src; /* of resolve_addr; ss_family 0: none */

	struct ibv_qp *qp;
	bool own_qp; /* created by the library */
	struct qp_attr in_init; /* with which the QP was last moved to INIT; mask 0: never */
	struct qp_attr init, rtr, rts; /* from the last event that had them; mask 0: not known */
	uint8_t request_responder_resources, request_initiator_depth;
	struct caps caps;
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	LIST_HEAD(, join) joins;

	/* Of event/ */
	bool disconnected; /* DISCONNECTED was taken: nothing more to send; wire.lock */
	unsigned n_digesting; /* threads that work on events of it; wire.lock */
	unsigned
		retries; /* enum retry as bits: rejects after which connect is retried with the QP as it is */

	/* Of connect/ */
	struct rdmabroker_event *reject; /* that ended connect_wait */
	struct rdmabroker_event *response; /* with which connect_wait succeeded */
	struct rdmabroker_event *request; /* the CONNECT_REQUEST, from get_request or import */
};

static inline bool idstate_is_datagram(const struct rdmabroker_id *id)
{
	return id->ps == RDMABROKER_PS_UDP || id->ps == RDMABROKER_PS_IPOIB;
}

/* An id with the broker's number HANDLE, of a connection request or imported. Lock held. */
int idstate_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
			struct rdmabroker_id **ret);
void idstate_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info);
