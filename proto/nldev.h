/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A netlink socket for queries about RDMA devices and their resources, which return the data that `rdma`
 * (iproute2) prints. Two threads must not use the same object at the same
 * time.
 */

#include <libmnl/libmnl.h>
#include <stdint.h>

#define NLDEV_DATAGRAM_MAX 32768 /* size of the largest datagram that the kernel makes */
#define NLDEV_DATAGRAMS_MAX 8192 /* limit for a dump: some 700,000 resources */

struct nldev;

/* The kernel never reuses an index. */
struct nldev_device {
	uint32_t index;
	uint32_t n_ports; /* 0: INDEX and N_PORTS are not known yet */
};

int nldev_new(struct nldev **ret);
struct nldev *nldev_free(struct nldev *nl);

/* Begins a request in BUF; attributes can be added. COMMAND: RDMA_NLDEV_CMD_*. */
struct nlmsghdr *nldev_request(void *buf, int command, uint16_t flags);
/*
 * Sends the request and calls ON_ANSWER for each message of the reply. Does not block, because the kernel
 * makes the reply while it handles the send. Returns 0 or a negative errno, which can be the kernel's. NL
 * stays usable after a failure.
 */
int nldev_exchange(struct nldev *nl, struct nlmsghdr *header, mnl_cb_t on_answer, void *data);

/*
 * nldev_send() starts a dump, and nldev_receive() reads one piece of it. Until the dump ends, no other
 * request can be sent; to abort it, free the object. nldev_receive() returns 1: there is more; 0: the dump is
 * complete; -EAGAIN: nothing to read yet; -EINTR: call it again; another negative errno: the dump has failed.
 */
int nldev_get_fd(const struct nldev *nl);
int nldev_send(struct nldev *nl, struct nlmsghdr *header);
int nldev_receive(struct nldev *nl, void *buf, size_t size, mnl_cb_t on_answer, void *data);

/*
 * Sends the request of a dump, and reads all of it. Returns the number of datagrams before the last one, or a negative
 * errno: -EOVERFLOW: there are more than NLDEV_DATAGRAMS_MAX. After a failure NL has to be freed.
 */
int nldev_dump(struct nldev *nl, struct nlmsghdr *header, mnl_cb_t on_answer, void *data);

/* Calls ON_FOUND for each device. It returns 0, or a negative errno, with which the listing ends. */
int nldev_list_devices(struct nldev *nl,
		       int (*on_found)(void *userdata, const char *name,
				       const struct nldev_device *device),
		       void *userdata);
/* -ENODEV: there is no device NAME. */
int nldev_find_device(struct nldev *nl, const char *name, struct nldev_device *ret);
