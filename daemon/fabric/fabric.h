/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fabric: the host's RDMA connection manager and its devices, as the floors above see them.
 *
 *   fabric ── device, device, ...       what /sys and udev show, with the leases on their nodes
 *      └───── id, id, ...               of one event channel, an open rdma_cm, for all sessions
 *
 * Nothing here decides, nothing blocks on a peer. Every call returns 0 or a negative errno. Outcomes of
 * the calls that take time arrive as events of their id, from the event loop and never from
 * within a call into the fabric. An event is complete in itself: it was copied and acked before it is
 * handed up, so ids can be freed at any time, from within the event callback too.
 *
 * What can wait in the kernel or in firmware is done by threads: ids are destroyed and devices are opened so. While
 * devices are opened no event is handed up, and calls that would bind an id to one return -EINPROGRESS: librdmacm
 * has one mutex for all of that.
 *
 * This header has two implementations: the files beside it, over librdmacm and libibverbs, and
 * tests/fake/, which scripts states and faults that real hardware cannot produce at will.
 */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct fabric;
struct fabric_id;
struct fabric_device;
struct fabric_lease;
struct fabric_lookup;
struct fabric_join;

#define FABRIC_HOLDERS_MAX 64 /* processes that are remembered of a device */
#define FABRIC_HOLDER_NAME_MAX 32

/* What a device's clients can be given of it. */
enum fabric_access {
	FABRIC_ACCESS_ACL, /* an entry for the uid in the node's ACL */
	FABRIC_ACCESS_OPEN, /* the node is accessible anyway: a lease only counts */
};

/* A process that is not this one, and holds ids of the connection manager on a device. */
struct fabric_holder {
	pid_t pid;
	uid_t uid; /* its effective one; -1: not known */
	char name
		[FABRIC_HOLDER_NAME_MAX]; /* as it likes to call itself, printable; "": not known */
	unsigned n_ids;
	/* One of these ids: one that listens, if there is such, else one that connects or is connected. */
	const char *state; /* the word of `rdma resource show cm_id` */
	struct sockaddr_storage local, peer; /* ss_family 0: none */
};

/* What the latest look at a device has found. Ids that the kernel uses itself are in none of the numbers. */
struct fabric_holders {
	uint64_t seen_ms; /* when: clock_ms() */
	unsigned n_more_ids; /* of processes past FABRIC_HOLDERS_MAX */
	unsigned
		n_nameless_ids; /* of threads that have ended: whose they are the kernel does not tell */
	size_t n_holders;
	struct fabric_holder holders[];
};

struct fabric_ops {
	/* A device can be used from now on; DEVICE lives until device_removed returns. */
	void (*device_added)(void *userdata, struct fabric_device *device);
	/* The device's node is gone; its leases are dead (see fabric_lease_free()). */
	void (*device_removed)(void *userdata, struct fabric_device *device);
	/*
	 * Addresses, routes or neighbours of the host changed: what was resolved before may lead elsewhere
	 * now. May be NULL. See fabric_knows_routes().
	 */
	void (*routes_changed)(void *userdata);
	/*
	 * What failed with -EINPROGRESS can be tried again: an id that was freed is destroyed now and does not have
	 * PORT any more (network order); PORT 0: the devices are open.
	 */
	void (*can_go_on)(void *userdata, in_port_t port);
};

/* A copy of a struct rdma_cm_event that nobody needs to ack. */
struct fabric_event {
	enum rdma_cm_event_type type;
	int status; /* as the kernel gave it: negative errno, or the transport's reason */
	struct fabric_id *request; /* CONNECT_REQUEST: the new id, now the callee's; else NULL */
	struct rdma_conn_param conn; /* private_data points into the field below, or is NULL */
	/* Of a datagram id, whose conn has only qp_num and private_data, and of MULTICAST_JOIN. */
	struct rdma_ud_param ud;
	uint8_t private_data[256];
	struct ibv_ece remote_ece; /* CONNECT_REQUEST, CONNECT_RESPONSE; vendor_id 0: none */
	struct fabric_join *join; /* MULTICAST_JOIN, MULTICAST_ERROR: which one; else NULL */
};

/* Of the id whose USERDATA it is; a CONNECT_REQUEST is the listening id's. */
typedef void (*fabric_event_fn)(void *userdata, struct fabric_event *event);

struct fabric_id_info {
	struct sockaddr_storage local; /* ss_family 0: not bound */
	struct sockaddr_storage peer; /* ss_family 0: none */
	const char *device; /* e.g. "rxe0"; NULL: not bound to a device; valid while the id lives */
	uint8_t port_num; /* of the device, from 1; 0: none */
};

/*
 * Starts with no rdma_cm, no device and no udev: what is missing is picked up when it appears. Devices
 * present already are announced from the event loop, by device_added. ACL entries that a previous
 * process left on the nodes are removed, as far as this process owns the nodes.
 */
int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata);
struct fabric *fabric_free(struct fabric *fabric); /* all ids and leases must be gone */

/* Whether routes_changed is told at all. When that ends, it is told one last time. */
bool fabric_knows_routes(const struct fabric *fabric);

/* Devices, in the order they appeared. PREV NULL: the first; NULL returned: no more. */
struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev);
struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name);
const char *fabric_device_name(const struct fabric_device *device); /* "rxe0" */
const char *fabric_device_node(const struct fabric_device *device); /* "/dev/infiniband/uverbs0" */
unsigned fabric_device_n_leases(const struct fabric_device *device);

/*
 * Who else has connection manager ids on the devices. Each device is looked at when it appears, and the
 * journal says what was found; fabric_look() begins anew, unless that was done just now, and a small answer is
 * complete when it returns. NULL: the first look at this device is not over.
 */
void fabric_look(struct fabric *fabric);
const struct fabric_holders *fabric_device_holders(const struct fabric_device *device);

/* To what had to be done by a thread, from the event loop. */
typedef void (*fabric_answer_fn)(void *userdata, int answer);

/*
 * Let UID open the device's node until the lease is freed. Leases of one uid on one device are counted; after
 * the last one the ACL entry is taken away. A thread changes the ACL: returns -EINPROGRESS, and DONE is told 0, or
 * the negative errno that the lease is worth nothing for. 0: the entry is there already, or none is needed. *RET is
 * the lease in both cases, and not with another negative errno.
 *
 * A lease whose device was removed is dead, and may never be told of: freeing it is still the holder's duty and
 * touches nothing else.
 */
int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid,
		     fabric_answer_fn done, void *userdata);
struct fabric_lease *fabric_lease_free(struct fabric_lease *lease); /* DONE is not told any more */

/*
 * Whether QP number QPN of DEVICE was created by the process PID (by any thread of it), asked for UID. The kernel
 * asks the device's firmware, so a thread asks the kernel: returns -EINPROGRESS and *RET, and the answer goes to
 * DONE, from the event loop. 1: yes; 0: no, or there is no such QP; -ENODEV: no such device; -EDQUOT: very many
 * of UID's questions wait; other negative errno: could not be found out. What is known at once is returned instead,
 * and *RET is NULL.
 */
int fabric_qp_belongs(struct fabric_lookup **ret, struct fabric *fabric, const char *device,
		      uint32_t qpn, pid_t pid, uid_t uid, fabric_answer_fn done, void *userdata);
/* Nobody wants to know any more. Takes NULL; returns NULL. */
struct fabric_lookup *fabric_lookup_cancel(struct fabric_lookup *lookup);

/*
 * UID pays for what outlives the id, see fabric_id_free(). -ENODEV where rdma_cm does not exist (yet) or there is
 * no RDMA device at all; -EDQUOT where very many ids of UID are being destroyed; -EINPROGRESS for the first id while
 * devices are being opened.
 */
int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, uid_t uid, enum rdma_port_space ps,
		  fabric_event_fn on_event, void *userdata);
/*
 * Ends whatever the id is doing: a connection is disconnected, a request not answered is rejected. Nothing more
 * is heard of it. That takes the kernel a while, during which the id keeps its port.
 */
struct fabric_id *fabric_id_free(struct fabric_id *id);
/*
 * The same for an id whose user is gone: its peer is told until it has heard, for some seconds, during which
 * the id keeps its port. Each user has a share of ids that are kept so.
 */
void fabric_id_abandon(struct fabric_id *id);
/* Requests are born with none, and their events are dropped: set it before the next one can come. */
void fabric_id_set_owner(struct fabric_id *id, uid_t uid, fabric_event_fn on_event, void *userdata);
void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret);

/* Devices are being opened now. */
bool fabric_is_opening(const struct fabric *fabric);
/*
 * These three: -EINPROGRESS while devices are being opened. A bind also while an id that was freed has the port,
 * and is not destroyed yet. See fabric_ops.can_go_on.
 */
int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr);
int fabric_id_listen(struct fabric_id *id, int backlog);
int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms); /* SRC may be NULL */
int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms);
/* PARAM->qp_num is the client's QP; the id has none of its own. */
int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_establish(struct fabric_id *id);
int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece);
int fabric_id_disconnect(struct fabric_id *id);
int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event);
/* For the next connect or accept. */
int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece);

/* A group of an id. Its events name it. All must be freed before their id. */
int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata);
struct fabric_join *fabric_join_free(struct fabric_join *join);
void *fabric_join_get_userdata(const struct fabric_join *join);

/* RDMA_OPTION_ID_TOS, _REUSEADDR, _AFONLY, _ACK_TIMEOUT; VALUE in host form. */
int fabric_id_set_option(struct fabric_id *id, int option, int value);
/* What the QP needs to go to STATE: rdma_init_qp_attr(). */
int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask);
