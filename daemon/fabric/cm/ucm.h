/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The kernel's own interface of the connection manager (rdma/rdma_user_cm.h), as far as it is needed for ids that
 * another process has made: librdmacm can only use ids of its own. A file of the connection manager (an open
 * /dev/infiniband/rdma_cm) accepts commands only from the process that opened it, except that ids can be moved from it
 * to another file.
 *
 * The functions return 0 or a negative errno. An id is a number that is unique on the host.
 */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ucm_addresses {
	struct sockaddr_storage local, peer; /* ss_family 0: none */
	uint8_t port_num; /* port number of the device; 0: not bound to a device */
	uint32_t
		device; /* the index of the device, as in struct nldev_device, if PORT_NUM is not 0 */
	uint16_t pkey; /* the P_Key, in host order, if PORT_NUM is not 0; on Ethernet 0 */
};

/* The parameters of a connection. */
struct ucm_conn {
	uint32_t qpn, qkey;
	uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count,
		srq;
	uint8_t data_len;
	uint8_t data[256];
	struct ibv_ah_attr ah; /* of a datagram event */
};

struct ucm_event {
	uint32_t id; /* of a connection request: the new id */
	int type; /* enum rdma_cm_event_type */
	int status;
	/* What the process that made the id or the join has passed as its USERDATA, perhaps a process that is gone. */
	uint64_t userdata;
	struct ibv_ece ece;
	uint32_t param[80]; /* see ucm_event_get() */
};

/* Opens the connection manager. Reading events does not block. Returns the descriptor or a negative errno. */
int ucm_open(void);
/* Moves ID with its waiting events from the file FROM to the file FD. -ENOENT, -EINVAL: FROM has no such id. */
int ucm_move(int fd, int from, uint32_t id);
int ucm_query_addresses(int fd, uint32_t id, struct ucm_addresses *ret);
/* -EAGAIN: there is no event. */
int ucm_get_event(int fd, struct ucm_event *ret);
/* DATAGRAM: the event is about a datagram id or a multicast group. */
void ucm_event_get(const struct ucm_event *event, bool datagram, struct ucm_conn *ret);
/* As rdma_init_qp_attr(). */
int ucm_qp_attr(int fd, uint32_t id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		int *ret_mask);
/* CONN->data is sent to the peer. */
int ucm_accept(int fd, uint32_t id, const struct ucm_conn *conn, const struct ibv_ece *ece);
/* Confirms to the peer that its response was received: the connection is established. */
int ucm_establish(int fd, uint32_t id);
int ucm_disconnect(int fd, uint32_t id);
/* REASON: see rdma_reject() and rdma_reject_ece(); 0: rejected by the consumer. */
int ucm_reject(int fd, uint32_t id, const void *data, size_t len, uint8_t reason);
/* As rdma_notify(). -EISCONN: the connection is established. */
int ucm_notify(int fd, uint32_t id, enum ibv_event_type event);
/* OPTION is RDMA_OPTION_ID_*. */
int ucm_set_option(int fd, uint32_t id, int option, const void *value, size_t len);
/* *RET_JOIN is the number of the join. Its events have USERDATA. */
int ucm_join(int fd, uint32_t id, const struct sockaddr_storage *addr, uint16_t flags,
	     uint64_t userdata, uint32_t *ret_join);
int ucm_leave(int fd, uint32_t join);
/* Can block for a short time: the kernel waits for its own handlers of the id. */
int ucm_destroy(int fd, uint32_t id);
