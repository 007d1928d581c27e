/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What the files of this folder share: the structs behind fabric.h, and the functions by which the files call each
 * other. Nobody outside of fabric/ includes it, except the fake fabric of the tests.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "proto/nldev.h"
#include "fabric/opener.h"
#include "fabric/qpscan.h"
#include "util/account.h"
#include "util/hot.h"
#include "util/list.h"
#include "util/log.h"
#include "util/offload.h"

#define DYING_LISTS 256
/* Limit of fabric.n_dying_unwanted. At the limit the event channel is not read. */
#define DYING_UNWANTED_MAX 16384

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	struct list devices; /* fabric_device.link */
	struct list leaving; /* fabric_id.leaving, see leaving.c */
	struct account kept; /* counts the ids in LEAVING, by user */
	struct list dying[DYING_LISTS]; /* fabric_id.dying, by port */
	unsigned n_dying_unwanted; /* ids in DYING with is_unwanted */
	struct account ending; /* counts the ids in DYING, by user */
	struct offload *undertaker; /* threads that destroy the ids in DYING */
	struct offload *callers; /* threads that connect, see iwarp.h */
	/* changes the ACLs of nodes, with one thread and one lane; see lease.c */
	struct offload *entries;
	bool has_lender; /* the entries are a lender's, see fabric_set_lender() */
	const struct fabric_lender *lender;
	void *lender_userdata;
	sd_event_source *nodes; /* watches the directory of the nodes, if there is a lender */
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep_entries;
	struct opener *opener;

	struct rdma_event_channel *cm; /* NULL: not open yet, see channel.c */
	uint32_t *reading; /* see fabric_note_reading() */
	uint32_t no_reading; /* READING, if nobody needs it */
	struct leftovers
		*leftovers; /* ids that a previous process has left; NULL: there were none */
	/* Their QP numbers, while they are taken over, see restored.c; NULL: not scanned, or the scan has failed. */
	struct cmscan *scanned;
	bool is_scanned;
	/* fabric_takeover_rest() was not called yet. Until then no ACL entries are cleared and no scans begin. */
	bool takes_over;
	struct hot *hot;
	struct hot_io io; /* reads events from CM's descriptor */
	sd_event_source *io_retry; /* resumes reading after a failure */
	uint64_t turn; /* of HOT, in which events were last read */
	struct ratelimit log_limit;

	sd_device_monitor *monitor;
	struct offload *lookups; /* threads that look up the owners of QPs, see qplookup.c */
	/* a socket that is kept for the next look-up; NULL: none */
	struct nldev *nldev;
	struct qpscan *qpscan;
	struct holderscan *holderscan; /* NULL until the first scan */
	bool cm_node_told; /* TOLD of fabric_check_node() for the node of rdma_cm */
};

struct fabric_device {
	struct list link; /* fabric.devices; on no list once the device is gone */
	struct fabric *fabric;
	char *name; /* "rxe0" */
	char *node; /* "/dev/infiniband/uverbs0" */
	bool announced;
	bool is_going; /* an id of the device got DEVICE_REMOVAL */
	bool gone;
	struct nldev_device nldev;
	struct list grants; /* grant.link, see lease.c */
	/* removes the ACL entries of previous processes */
	struct offload_job clearing;
	int clear_r;
	/* LOOK_WANTED: a scan is still to begin. LOOK_UNTOLD: the next result is to be written to the journal. */
	bool look_wanted, look_untold;
	struct fabric_holders *holders; /* NULL: no scan is complete yet */
	bool node_told; /* TOLD of fabric_check_node() */
	unsigned n_leases;
	/* held by grants (lease.c), by CLEARING, by a scan, and by the fabric while the device exists */
	unsigned n_refs;
};

struct fabric_device *fabric_device_unref(struct fabric_device *device);
const char *fabric_device_sysname(const struct fabric_device *device); /* "uverbs0" */

/* hotplug.c */
int fabric_start_hotplug(struct fabric *fabric);

/*
 * lease.c. fabric_clear_entries() removes the ACL entries of all users; call it before the first lease.
 * fabric_renew_entries() sets the entries of the leases again; call it when udev may have changed the node.
 * Both return before the thread has done its work.
 */
void fabric_clear_entries(struct fabric_device *device);
void fabric_renew_entries(struct fabric_device *device);

/* look.c: starts a scan of DEVICE, whose result will be written to the journal */
void fabric_scan_holders_of(struct fabric_device *device);
struct holderscan *holderscan_free(struct holderscan *holderscan);

/*
 * node.c. Warns if NODE does not belong to the daemon's user, or if every user can open it. With
 * FABRIC_ACCESS_OPEN nothing is checked. *TOLD: the warning was written, and is not repeated while the node
 * is wrong.
 */
void fabric_check_node(const char *node, enum fabric_access how, bool *told);

/* channel.c */
/* Returns 0, also if the channel is open already; or a negative errno. */
int fabric_open_channel(struct fabric *fabric);
void fabric_close_channel(struct fabric *fabric);
/* Starts the opener. Call when devices were added or removed. */
void fabric_look_for_devices(struct fabric *fabric);
/* Starts or stops reading events. Call when a condition in may_read() has changed. */
void fabric_update_io(struct fabric *fabric);

/* What a call of librdmacm has returned: 0 or, from errno, a negative errno. */
static inline int cm_result(int r)
{
	return r < 0 ? -(errno ?: EIO) : 0;
}

/* cmid.c */
#define FABRIC_OPTIONS (RDMA_OPTION_ID_ACK_TIMEOUT + 1)

struct fabric_id {
	struct fabric *fabric;
	/*
	 * While the id is dying, the thread that destroys it uses CM. Meanwhile the loop reads CM only to
	 * take an event that is not acked yet.
	 */
	struct rdma_cm_id *cm; /* NULL: the id is INHERITED */
	struct restored *restored; /* NULL: this process made the id */
	uid_t uid;
	fabric_event_fn on_event; /* NULL: the id's events are dropped */
	void *userdata;
	char device[64]; /* name of its device; "": not bound to one */
	enum fabric_stage stage;
	enum ibv_qp_type qp_type; /* 0: that of the port space */
	int16_t set[FABRIC_OPTIONS]; /* by the option's number: its value, or -1: not set */
	struct list leaving; /* fabric.leaving */
	/* timeout; NULL: the id is not in fabric.leaving */
	sd_event_source *leaving_timer;
	struct charge kept;

	struct offload_job job; /* for fabric.undertaker */
	struct list dying; /* a list of fabric.dying, while the id is being destroyed */
	struct iwarp_call *call; /* a thread connects; NULL: none */
	bool disconnect_is_put_off; /* until ESTABLISHED, see iwarp.h */
	bool disconnects; /* destroy() disconnects the id first */
	bool is_request; /* the id began as a connection request: its port is the listener's */
	bool is_unwanted; /* a connection request that no session has taken over */
	/* PS and PORT are set when the id is freed, PS earlier if the id is INHERITED. */
	enum rdma_port_space ps;
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
/* EVENT needs no ack. */
void fabric_id_on_event(struct fabric_id *id, struct fabric_event *event);
/* Makes a fabric_id for CM, a connection request. On failure CM stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		    struct rdma_cm_id *cm);
/* Copies the name of the id's device. Call wherever librdmacm may have bound the id to a device. */
void fabric_id_note_device(struct fabric_id *id);

/* restored.c: calls of fabric.h, for an id without an rdma_cm_id */
void restored_get_info(const struct fabric_id *id, struct fabric_id_info *ret);
in_port_t restored_get_port(const struct fabric_id *id); /* in network order; 0: none of its own */
int restored_accept(struct fabric_id *id, const struct rdma_conn_param *param);
int restored_establish(const struct fabric_id *id);
int restored_reject(const struct fabric_id *id, const void *data, size_t len, bool ece);
int restored_disconnect(const struct fabric_id *id);
int restored_notify(const struct fabric_id *id, enum ibv_event_type event);
int restored_set_local_ece(const struct fabric_id *id, const struct ibv_ece *ece);
int restored_set_option(const struct fabric_id *id, int option, const void *value, size_t len);
int restored_qp_attr(const struct fabric_id *id, enum ibv_qp_state state,
		     struct ibv_qp_attr *ret_attr, int *ret_mask);
int restored_join(struct fabric_join *join, uint32_t join_flags);
/* JOIN was joined by a previous process. */
void restored_add_join(struct fabric_join *join);
void restored_leave(struct fabric_join *join);
void restored_destroy(const struct fabric_id *id); /* runs in a thread */
/* The number of ids on DEVICE that were taken over. The kernel reports no process for them. */
unsigned restored_count(const struct fabric_device *device);
void restored_free(struct fabric_id *id); /* called by the loop when the id is destroyed */

/* join.c */
struct fabric_join {
	struct fabric_id *id;
	struct sockaddr_storage addr;
	void *userdata;
	/* for an id that was taken over: */
	struct list link; /* its list of joins */
	bool is_old; /* a previous process has joined the group, so NUMBER is not known */
	uint32_t number; /* the kernel's number of the join */
};

/* leaving.c: ids whose client is gone. fabric_leaving_on_event() can free the id. */
void fabric_init_leaving(struct fabric *fabric);
void fabric_leaving_on_event(struct fabric_id *id, enum rdma_cm_event_type type);
void fabric_end_leaving(struct fabric *fabric);
