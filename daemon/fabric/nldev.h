/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A netlink socket on which the kernel is asked about RDMA devices and their resources: what the tool
 * `rdma` prints. It knows nothing of the fabric, and so a helper thread can have one of its own; one
 * object is used by one thread at a time.
 */

#include <libmnl/libmnl.h>
#include <stdint.h>

struct nldev;

/* The kernel's number of a device, which it never uses twice, and how many ports the device has. */
struct nldev_device {
	uint32_t index;
	uint32_t n_ports; /* 0: neither is known yet */
};

int nldev_new(struct nldev **ret);
struct nldev *nldev_free(struct nldev *nl);

/* A request in BUF, to which attributes can be added. COMMAND: RDMA_NLDEV_CMD_ */
struct nlmsghdr *nldev_request(void *buf, int command, uint16_t flags);
/*
 * Send the request, and have ON_ANSWER called for each message of the answer. The kernel answers within
 * the send, so nothing is waited for.
 */
int nldev_exchange(struct nldev *nl, struct nlmsghdr *header, mnl_cb_t on_answer, void *data);

/*
 * A dump in pieces: after the send the kernel makes the next piece whenever one is received, and so a long
 * answer need not be read in one go. Until its end nothing else can be asked; to give it up, free the object.
 * nldev_receive(): 1: there is more; 0: that was all; -EAGAIN: nothing is there yet; other negative errno:
 * the dump has failed.
 */
int nldev_get_fd(const struct nldev *nl);
int nldev_send(struct nldev *nl, struct nlmsghdr *header);
int nldev_receive(struct nldev *nl, void *buf, size_t size, mnl_cb_t on_answer, void *data);

/* -ENODEV: there is no device NAME. */
int nldev_find_device(struct nldev *nl, const char *name, struct nldev_device *ret);
