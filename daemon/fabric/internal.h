/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the fabric's files know of each other. */

#include <stdbool.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "fabric/nldev.h"
#include "util/account.h"
#include "util/list.h"

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	struct list devices; /* fabric_device.link */
	struct list contexts; /* context.link, see context.c */
	struct list farewells; /* fabric_id.leaving, see farewell.c */
	struct account kept; /* what these cost, by user: ids, and files of channels */
	unsigned n_channels;

	sd_device_monitor *monitor;
	sd_event_source *announce; /* tells of devices that are new */
	struct nldev *nldev; /* NULL until it is needed */
	struct routes *routes; /* NULL: nobody wants to know, or nobody can */
	int null_fd; /* /dev/null, see context.c */
};

struct fabric_device {
	struct list link; /* fabric.devices; alone once the device is gone */
	struct fabric *fabric;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced;
	bool gone;
	struct nldev_device nldev; /* see qpowner.c */
	struct list grants; /* grant.link, see lease.c */
	unsigned n_leases;
	unsigned n_refs; /* leases, and the fabric while the device is there */
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);
const char *fabric_device_sysname(const struct fabric_device *device); /* "uverbs0" */

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/* lease.c: take away the entries of all users, leases or not; put back those of the leases */
void fabric_clear_entries(struct fabric_device *device);
void fabric_renew_entries(struct fabric_device *device);

/* context.c: the devices that librdmacm has open */
void fabric_remember_context(struct fabric *fabric, const struct ibv_context *verbs);
void fabric_release_gone_contexts(struct fabric *fabric);
void fabric_forget_contexts(struct fabric *fabric);

/* channel.c */
struct fabric_channel {
	struct fabric *fabric;
	const struct fabric_channel_ops *ops;
	void *userdata;
	struct rdma_event_channel *cm;
	sd_event_source *io;
	uint64_t turn; /* of the loop, in which it had something */
	bool *freed; /* set when the channel is freed while it hands up an event */
	unsigned n_leaving; /* its ids that fabric_id_abandon() has kept */
	struct charge charge; /* while there are such */
	bool is_left; /* it was freed, and is there for these alone */
};

/* cmid.c */
enum stage {
	STAGE_NONE, /* to destroy the id says all there is to say; or it is one for datagrams */
	STAGE_ASKED, /* the request is under way */
	STAGE_ANSWERED, /* the peer has accepted it */
	STAGE_ACCEPTED, /* a request was accepted here, the peer has not confirmed */
	STAGE_ESTABLISHED,
};

struct fabric_id {
	struct fabric_channel *channel;
	struct rdma_cm_id *cm;
	void *userdata;
	char device[64]; /* its name; "": not bound to one */
	enum stage stage;
	struct list leaving; /* fabric.farewells */
	sd_event_source *farewell; /* runs until it goes; NULL: it has a user */
	struct charge charge; /* of who was its user */
};

/* CM, a connect request, gets a fabric_id of its own. On failure it stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric_channel *channel, struct rdma_cm_id *cm);
/* To be called wherever librdmacm may have bound the id to a device. */
void fabric_id_note_device(struct fabric_id *id);

/* farewell.c: ids whose user is gone. An event of one may free it, and its channel. */
void fabric_init_farewells(struct fabric *fabric);
void fabric_farewell_on_event(struct fabric_id *id, enum rdma_cm_event_type type);
void fabric_end_farewells(struct fabric *fabric);
