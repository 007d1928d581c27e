/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the fabric's files know of each other. */

#include <netinet/in.h>
#include <stdbool.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "fabric/nldev.h"
#include "fabric/opener.h"
#include "util/account.h"
#include "util/list.h"
#include "util/log.h"
#include "util/offload.h"

#define DYING_LISTS 256
/* So many requests that nobody has taken wait to be destroyed at most: then no event is read for a while. */
#define DYING_UNWANTED_MAX 16384

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	struct list devices; /* fabric_device.link */
	struct list farewells; /* fabric_id.leaving, see farewell.c */
	struct account kept; /* of these, by user */
	struct list dying[DYING_LISTS]; /* fabric_id.dying, by port, see cmid.c */
	unsigned n_dying_unwanted;
	struct account ending; /* of these, by user */
	struct offload *undertaker; /* destroys them */
	struct offload
		*entries; /* changes the ACLs of nodes, see lease.c: a thread, and one lane */
	struct offload_job keep_entries; /* never submitted: there is always a lane */
	struct opener *opener;

	struct rdma_event_channel *cm; /* NULL until it is needed, see channel.c */
	sd_event_source *io; /* of its events */
	sd_event_source *io_retry; /* after a failure */
	uint64_t turn; /* of the loop, in which it had something */
	struct ratelimit log_limit;

	sd_device_monitor *monitor;
	struct offload *lookups; /* see lookup.c */
	struct nldev *nldev; /* of the last look-up; NULL: one has it, or there was none */
	struct look *look; /* NULL until it is needed, see look.c */
	bool cm_node_told; /* see node.c */
	struct routes *routes; /* NULL: nobody wants to know, or nobody can */
};

struct fabric_device {
	struct list link; /* fabric.devices; alone once the device is gone */
	struct fabric *fabric;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced;
	bool is_going; /* its ids are told that it is removed */
	bool gone;
	struct nldev_device nldev; /* see lookup.c */
	struct list grants; /* grant.link, see lease.c */
	struct offload_job clearing; /* of its node */
	int clear_r;
	bool look_wanted, look_untold; /* see look.c */
	struct fabric_holders *holders; /* of the latest look; NULL: none is over yet */
	bool node_told; /* see node.c */
	unsigned n_leases;
	unsigned
		n_refs; /* leases, what a thread does, a look, and the fabric while the device is there */
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);
const char *fabric_device_sysname(const struct fabric_device *device); /* "uverbs0" */

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/* lease.c: take away the entries of all users, before there is a lease; put back those of the leases */
void fabric_clear_entries(struct fabric_device *device);
void fabric_renew_entries(struct fabric_device *device);

/* look.c: DEVICE is new; and what was found, for the journal */
void fabric_look_at(struct fabric_device *device);
struct look *look_free(struct look *look);

/* node.c: warns where others can open NODE. TOLD: it was warned of, and nothing has changed since. */
void fabric_check_node(const char *node, enum fabric_access access, bool *told);

/* channel.c */
int fabric_open_channel(
	struct fabric *fabric); /* 0, also where it is open already, or a negative errno */
void fabric_close_channel(struct fabric *fabric);
/* Devices have come or gone. */
void fabric_look_for_devices(struct fabric *fabric);
/* To be called when what decides whether events are read has changed. */
void fabric_update_io(struct fabric *fabric);

/* cmid.c */
enum stage {
	STAGE_NONE, /* to destroy the id says all there is to say; or it is one for datagrams */
	STAGE_ASKED, /* the request is under way */
	STAGE_ANSWERED, /* the peer has accepted it */
	STAGE_ACCEPTED, /* a request was accepted here, the peer has not confirmed */
	STAGE_ESTABLISHED,
};

struct fabric_id {
	struct fabric *fabric;
	struct rdma_cm_id *cm; /* while it is dying, the thread's that destroys it */
	uid_t uid;
	fabric_event_fn on_event; /* NULL: nobody wants to hear of it */
	void *userdata;
	char device[64]; /* its name; "": not bound to one */
	enum stage stage;
	struct list leaving; /* fabric.farewells */
	sd_event_source *farewell; /* runs until it goes; NULL: it has a user */
	struct charge kept;

	struct offload_job job; /* of the undertaker */
	struct list dying; /* one of fabric.dying, while it is being destroyed */
	bool disconnects; /* first */
	bool is_request; /* came from a listener: its port is the listener's */
	bool is_unwanted; /* such a request, and nobody has taken it */
	enum rdma_port_space ps; /* this and the next: what it had */
	in_port_t port; /* 0: none of its own */
	struct charge ending;
};

static inline bool fabric_id_is_dying(const struct fabric_id *id)
{
	return !list_is_empty(&id->dying);
}

void fabric_init_ids(struct fabric *fabric);
/* CM, a connect request, gets a fabric_id of its own. On failure it stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		    struct rdma_cm_id *cm);
/* To be called wherever librdmacm may have bound the id to a device. */
void fabric_id_note_device(struct fabric_id *id);

/* farewell.c: ids whose user is gone. An event of one may free it. */
void fabric_init_farewells(struct fabric *fabric);
void fabric_farewell_on_event(struct fabric_id *id, enum rdma_cm_event_type type);
void fabric_end_farewells(struct fabric *fabric);
