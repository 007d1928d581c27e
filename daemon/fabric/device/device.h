/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Devices and their nodes. */

#include <stdbool.h>

#include "fabric/fabric.h"
#include "proto/nldev.h"
#include "util/list.h"
#include "util/offload.h"

struct holderscan;

struct fabric_device {
	struct list link; /* fabric.devices; on no list once the device is gone */
	struct fabric *fabric;
	uint64_t number;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced; /* it was opened, and device_added was called */
	bool failure_told; /* the journal has that it cannot be opened */
	bool is_going; /* an id of the device got DEVICE_REMOVAL */
	bool gone;
	struct nldev_device nldev;
	struct list grants; /* grant.link, see nodelease.c */
	/* removes the ACL entries of previous processes */
	struct offload_job clearing;
	int clear_r;
	/* LOOK_WANTED: a scan is still to begin. LOOK_UNTOLD: the next result is to be written to the journal. */
	bool look_wanted, look_untold;
	struct fabric_holders *holders; /* NULL: no scan is complete yet */
	bool node_told; /* TOLD of fabric_check_node() */
	unsigned n_leases;
	/* held by grants (nodelease.c), by CLEARING, by a scan, and by the fabric while the device exists */
	unsigned n_refs;
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);
const char *fabric_device_sysname(const struct fabric_device *device); /* "uverbs0" */

/*
 * devices.c. fabric_announce_devices() announces the devices that the opener has opened, and tells of those that it cannot
 * open.
 */
/* The LMC of the port PORT_NUM, from 1; 0 if it is not known. */
unsigned fabric_device_get_lmc(const struct fabric_device *device, uint8_t port_num);
void fabric_announce_devices(struct fabric *fabric);

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/*
 * nodelease.c. fabric_clear_entries() removes the ACL entries of all users; call it before the first lease.
 * fabric_renew_entries() sets the entries of the leases again; call it when udev may have changed the node.
 * Both return before the thread has done its work.
 */
void fabric_clear_entries(struct fabric_device *device);
void fabric_renew_entries(struct fabric_device *device);

/* holderscan.c: starts a scan of DEVICE, whose result will be written to the journal */
void fabric_scan_holders_of(struct fabric_device *device);
struct holderscan *holderscan_free(struct holderscan *holderscan);

/*
 * node.c. Warns if NODE does not belong to the daemon's user, or if every user can open it. With
 * FABRIC_ACCESS_OPEN nothing is checked. *TOLD: the warning was written, and is not repeated while the node
 * is wrong.
 */
void fabric_check_node(const char *node, enum fabric_access how, bool *told);
