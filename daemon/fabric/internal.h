/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Private to the files of the fabric. */

#include <netinet/in.h>
#include <stdbool.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "fabric/nldev.h"
#include "fabric/opener.h"
#include "fabric/qpscan.h"
#include "util/account.h"
#include "util/list.h"
#include "util/log.h"
#include "util/offload.h"

#define DYING_LISTS 256
/*
 * If this many connection requests that no session took over wait to be destroyed, no events are read until there are
 * fewer.
 */
#define DYING_UNWANTED_MAX 16384

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	struct list devices; /* fabric_device.link */
	struct list farewells; /* fabric_id.leaving, see farewell.c */
	struct account kept; /* counts the ids in FAREWELLS, by user */
	struct list dying[DYING_LISTS]; /* fabric_id.dying, by port, see cmid.c */
	unsigned n_dying_unwanted; /* ids in DYING with is_unwanted */
	struct account ending; /* counts the ids in DYING, by user */
	struct offload *undertaker; /* threads that destroy the ids in DYING */
	/* changes the ACLs of nodes, see lease.c; has one thread and one lane */
	struct offload *entries;
	/* prepared and never submitted: it keeps the lane allocated, so that preparing other jobs cannot fail */
	struct offload_job keep_entries;
	struct opener *opener;

	struct rdma_event_channel *cm; /* NULL: not open yet, see channel.c */
	struct heirs *heirs; /* ids that a previous process has left; NULL: there were none */
	/*
	 * fabric_inherit_rest() was not called yet. Until then the ACL entries of a previous process stay, and the ids on
	 * the devices are not looked at, because some of them will be this process's.
	 */
	bool inherits;
	sd_event_source *io; /* reads events from CM's descriptor */
	sd_event_source *io_retry; /* timer that resumes reading after a failure */
	uint64_t turn; /* iteration of the loop in which events were last read */
	struct ratelimit log_limit;

	sd_device_monitor *monitor;
	struct offload *lookups; /* threads that look up the owners of QPs, see lookup.c */
	/* a socket that is kept for the next look-up; NULL: a look-up uses it, or there was no look-up yet */
	struct nldev *nldev;
	struct qpscan *qpscan;
	struct look *look; /* NULL until the first scan, see look.c */
	bool cm_node_told; /* a warning about the node of rdma_cm was written, see node.c */
};

struct fabric_device {
	struct list link; /* fabric.devices; on no list once the device is gone */
	struct fabric *fabric;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced;
	bool is_going; /* the device is being removed: its ids get DEVICE_REMOVAL events */
	bool gone;
	struct nldev_device nldev; /* its index and ports in netlink, see lookup.c */
	struct list grants; /* grant.link, see lease.c */
	/* removes the ACL entries that an earlier process of the daemon left on the node */
	struct offload_job clearing;
	int clear_r;
	/* a scan has yet to begin; the result of the next complete one is to be written to the journal; see look.c */
	bool look_wanted, look_untold;
	struct fabric_holders *holders; /* result of the latest scan; NULL: none is complete yet */
	bool node_told; /* a warning about its node was written, see node.c */
	unsigned n_leases;
	/* held by grants (lease.c), by a thread's work, by a scan, and by the fabric while the device exists */
	unsigned n_refs;
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);
const char *fabric_device_sysname(const struct fabric_device *device); /* "uverbs0" */

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/*
 * lease.c. Both only start a thread's work. The first removes the ACL entries of all users; call it before there is a
 * lease. The second restores the entries of the leases; call it when udev may have changed the node.
 */
void fabric_clear_entries(struct fabric_device *device);
void fabric_renew_entries(struct fabric_device *device);

/* look.c: starts a scan of the new DEVICE, whose result will be written to the journal */
void fabric_look_at(struct fabric_device *device);
struct look *look_free(struct look *look);

/*
 * node.c: warns if NODE does not belong to the daemon's user, or if every user can open it. ACCESS is the access that
 * clients should have; FABRIC_ACCESS_OPEN: nothing is checked. *TOLD: a warning was written, and the node is still
 * wrong.
 */
void fabric_check_node(const char *node, enum fabric_access access, bool *told);

/* channel.c */
/* Returns 0 (also if the channel is open already) or a negative errno. */
int fabric_open_channel(struct fabric *fabric);
void fabric_close_channel(struct fabric *fabric);
/* Starts the opener. Call when devices were added or removed. */
void fabric_look_for_devices(struct fabric *fabric);
/* Starts or stops reading events. Call when a condition in may_read() has changed. */
void fabric_update_io(struct fabric *fabric);

/* cmid.c */
enum stage {
	/* there is no connection to end when the id is destroyed; datagram ids are always in this stage */
	STAGE_NONE,
	STAGE_ASKED, /* connect was called: the REQ is sent */
	STAGE_ANSWERED, /* the peer has accepted (CONNECT_RESPONSE) */
	STAGE_ACCEPTED, /* accept was called, the peer has not confirmed yet */
	STAGE_ESTABLISHED,
};

struct fabric_id {
	struct fabric *fabric;
	/*
	 * While the id is dying, only the thread that destroys it uses CM. The loop reads CM then only for an event
	 * that is not acknowledged yet.
	 */
	struct rdma_cm_id *cm; /* NULL: the id is INHERITED */
	struct inherited *inherited; /* see inherit.c; NULL: the id was made by this process */
	uid_t uid;
	fabric_event_fn on_event; /* NULL: the id's events are dropped */
	void *userdata;
	char device[64]; /* name of its device; "": not bound to one */
	enum stage stage;
	struct list leaving; /* fabric.farewells */
	/* timeout of the farewell; NULL: the id is not in fabric.farewells */
	sd_event_source *farewell;
	struct charge kept;

	struct offload_job job; /* for fabric.undertaker */
	struct list dying; /* one of the lists in fabric.dying, while it is being destroyed */
	bool disconnects; /* destroy() disconnects the id first */
	bool is_request; /* the id began as a connection request: its port is the listener's */
	bool is_unwanted; /* a connection request that no session has taken over */
	enum rdma_port_space ps; /* PS and PORT are set when the id is freed */
	in_port_t port; /* 0: the id has no port of its own */
	struct charge ending;
};

static inline bool fabric_id_is_dying(const struct fabric_id *id)
{
	return !list_is_empty(&id->dying);
}

void fabric_init_ids(struct fabric *fabric);
/* Makes a fabric_id without an rdma_cm_id. IS_REQUEST: it is a connection request. */
int fabric_id_alloc(struct fabric_id **ret, struct fabric *fabric, uid_t uid, bool is_request);
/* Handles an event of an id: the event is acked already, and EVENT is a copy. */
void fabric_id_on_event(struct fabric_id *id, struct fabric_event *event);
/* Makes a fabric_id for CM, a connection request. On failure CM stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		    struct rdma_cm_id *cm);
/* Copies the name of the id's device. Call wherever librdmacm may have bound the id to a device. */
void fabric_id_note_device(struct fabric_id *id);

/* inherit.c: the calls of fabric.h for an id that has no rdma_cm_id */
void inherited_get_info(const struct fabric_id *id, struct fabric_id_info *ret);
int inherited_establish(const struct fabric_id *id);
int inherited_reject(const struct fabric_id *id, const void *data, size_t len);
int inherited_disconnect(const struct fabric_id *id);
void inherited_destroy(const struct fabric_id *id); /* runs in a thread */
/* The number of ids on DEVICE that were taken over and that the kernel has. It names no process for them. */
unsigned inherited_count(const struct fabric_device *device);
void inherited_free(struct fabric_id *id); /* to be called by the loop when the id is destroyed */

/* farewell.c: ids whose client is gone. fabric_farewell_on_event() can free the id. */
void fabric_init_farewells(struct fabric *fabric);
void fabric_farewell_on_event(struct fabric_id *id, enum rdma_cm_event_type type);
void fabric_end_farewells(struct fabric *fabric);
