/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the fabric's files know of each other. */

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "util/list.h"

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	struct list devices; /* fabric_device.link */
	struct list contexts; /* context.link */
	unsigned n_channels;

	sd_device_monitor *monitor;
	sd_event_source *announce; /* tells of devices that are new */
	struct mnl_socket *netlink;
	uint32_t serial; /* of the last netlink request */
	int null_fd; /* /dev/null, see context.c */
};

struct fabric_device {
	struct list link; /* fabric.devices; alone once the device is gone */
	struct fabric *fabric;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced;
	bool gone;
	struct list grants; /* grant.link, see lease.c */
	unsigned n_leases;
	unsigned n_refs; /* leases, and the fabric while the device is there */
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/* lease.c: entries that an earlier process left behind */
void fabric_clear_leases(struct fabric_device *device);

/* context.c: the devices that librdmacm has open */
struct fabric_context {
	struct list link; /* fabric.contexts */
	char name[64];
	uint32_t index; /* the kernel's number of the device */
	unsigned n_ports;
	int cmd_fd, async_fd;
	dev_t dev;
	ino_t ino; /* of the node behind cmd_fd */
};

void fabric_remember_context(struct fabric *fabric, struct ibv_context *verbs);
void fabric_release_gone_contexts(struct fabric *fabric);
struct fabric_context *fabric_find_context(struct fabric *fabric, const char *name);

/* cmid.c */
struct fabric_id {
	struct fabric_channel *channel;
	struct rdma_cm_id *cm;
	void *userdata;
	bool connecting; /* the peer may know of us: it is told when the id goes */
};

struct fabric_channel {
	struct fabric *fabric;
	const struct fabric_channel_ops *ops;
	void *userdata;
	struct rdma_event_channel *cm;
	sd_event_source *io;
	bool *freed; /* set when the channel is freed while it hands up an event */
};

/* CM, a connect request, gets a fabric_id of its own. On failure it stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric_channel *channel, struct rdma_cm_id *cm);
