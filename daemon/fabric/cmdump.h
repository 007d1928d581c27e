/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The connection manager's ids as netlink reports them, in a dump of one device. Does not depend on the fabric. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/nldev.h"

#define CMDUMP_NO_STATE UINT8_MAX

/* An id that is bound to the device. */
struct cmdump_id {
	uint32_t tid; /* the thread that made it; 0: it has ended */
	bool kernel; /* it is the kernel's own */
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

/* Makes the request of a dump in BUF, which needs 256 bytes. */
struct nlmsghdr *cmdump_request(void *buf, const struct nldev_device *device);
/* Handles one message of the dump, as nldev_receive() and nldev_dump() need it. DATA: a struct cmdump. */
int cmdump_take(const struct nlmsghdr *header, void *data);
