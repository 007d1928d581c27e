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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ucm_addresses {
	struct sockaddr_storage local, peer; /* ss_family 0: none */
	uint8_t port_num; /* port number of the device; 0: not bound to a device */
};

struct ucm_event {
	uint32_t id; /* of a connection request: the new id */
	int type; /* enum rdma_cm_event_type */
	int status;
};

/* Opens the connection manager. Reading events does not block. Returns the descriptor or a negative errno. */
int ucm_open(void);
/* Moves ID with its waiting events from the file FROM to the file FD. -ENOENT, -EINVAL: FROM has no such id. */
int ucm_move(int fd, int from, uint32_t id);
int ucm_query_addresses(int fd, uint32_t id, struct ucm_addresses *ret);
/* -EAGAIN: there is no event. */
int ucm_get_event(int fd, struct ucm_event *ret);
/* True: the connection of ID is established, so that its QP could be moved to RTS. */
bool ucm_is_connected(int fd, uint32_t id);
/* Confirms to the peer that its response was received: the connection is established. */
int ucm_establish(int fd, uint32_t id);
int ucm_disconnect(int fd, uint32_t id);
int ucm_reject(int fd, uint32_t id, const void *data, size_t len);
/* Can block for a short time: the kernel waits for its own handlers of the id. */
int ucm_destroy(int fd, uint32_t id);
