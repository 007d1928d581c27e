/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The connection manager's ids as netlink reports them, in a dump of one device. */

#include <stdint.h>
#include <sys/socket.h>

#include "proto/nldev.h"

#define CMDUMP_NO_STATE UINT8_MAX

/* Two values of the kernel's enum rdma_cm_state. */
enum {
	CMDUMP_CONNECT = 5,
	CMDUMP_LISTEN = 8,
};

/* An id that is bound to the device. */
struct cmdump_id {
	uint32_t tid; /* the thread that made it; 0: it has ended */
	const char *
		kernel; /* the kernel's module that made it; NULL: a thread. Valid until on_id returns */
	uint8_t state; /* a value of the kernel's enum rdma_cm_state; CMDUMP_NO_STATE: not reported */
	uint32_t ps; /* enum rdma_port_space */
	uint32_t qpn; /* the QP number that a connect or an accept has given it; 0: none */
	struct sockaddr_storage local, peer;
};

struct cmdump {
	/* Called for each id. Returns 0, or a negative errno, with which the dump ends. */
	int (*on_id)(void *userdata, const struct cmdump_id *id);
	void *userdata;
};

#define CMDUMP_REQUEST_SIZE 256

/* Makes the request of a dump in BUF. */
struct nlmsghdr *cmdump_request(void *buf, const struct nldev_device *device);
/* The same for QPs, as ids that have only TID, KERNEL and QPN; STATE is one of enum ibv_qp_state. */
struct nlmsghdr *cmdump_request_qps(void *buf, const struct nldev_device *device);
/* The same for contexts, each of which is a device that a process has opened: they have only TID. Since Linux 5.14. */
struct nlmsghdr *cmdump_request_contexts(void *buf, const struct nldev_device *device);
/* Handles one message of the dump, as nldev_receive() and nldev_dump() need it. DATA: a struct cmdump. */
int cmdump_take(const struct nlmsghdr *header, void *data);
