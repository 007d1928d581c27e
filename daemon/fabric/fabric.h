/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fabric: the host's RDMA connection manager and its devices, as the floors above see them.
 *
 *   fabric ── device, device, ...       what /sys and udev show, with the leases on their nodes
 *      └───── channel ── id, id, ...    one event channel (an open rdma_cm) per session
 *
 * Nothing here decides, nothing blocks on a peer. Every call returns 0 or a negative errno. Outcomes of
 * the calls that take time arrive as events: channel_ops.event, from the event loop and never from
 * within a call into the fabric. An event is complete in itself: it was copied and acked before it is
 * handed up, so ids can be freed at any time, from within the event callback too.
 *
 * This header has two implementations: the files beside it, over librdmacm and libibverbs, and
 * tests/fake/, which scripts states and faults that real hardware cannot produce at will.
 */

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct fabric;
struct fabric_channel;
struct fabric_id;
struct fabric_device;
struct fabric_lease;
struct fabric_join;

/* What a device's clients can be given of it. */
enum fabric_access {
	FABRIC_ACCESS_ACL, /* an entry for the uid in the node's ACL */
	FABRIC_ACCESS_OPEN, /* the node is accessible anyway: a lease only counts */
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
};

/* A copy of a struct rdma_cm_event that nobody needs to ack. */
struct fabric_event {
	enum rdma_cm_event_type type;
	int status; /* as the kernel gave it: negative errno, or the transport's reason */
	void *id_userdata; /* of the id; on CONNECT_REQUEST of the listening id */
	struct fabric_id *request; /* CONNECT_REQUEST: the new id, now the callee's; else NULL */
	struct rdma_conn_param conn; /* private_data points into the field below, or is NULL */
	/* Of a datagram id, whose conn has only qp_num and private_data, and of MULTICAST_JOIN. */
	struct rdma_ud_param ud;
	uint8_t private_data[256];
	struct ibv_ece remote_ece; /* CONNECT_REQUEST, CONNECT_RESPONSE; vendor_id 0: none */
	struct fabric_join *join; /* MULTICAST_JOIN, MULTICAST_ERROR: which one; else NULL */
};

struct fabric_channel_ops {
	void (*event)(void *userdata, struct fabric_event *event);
};

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
struct fabric *fabric_free(struct fabric *fabric); /* all channels and leases must be gone */

/* Whether routes_changed is told at all. When that ends, it is told one last time. */
bool fabric_knows_routes(const struct fabric *fabric);

/* Devices, in the order they appeared. PREV NULL: the first; NULL returned: no more. */
struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev);
struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name);
const char *fabric_device_name(const struct fabric_device *device); /* "rxe0" */
const char *fabric_device_node(const struct fabric_device *device); /* "/dev/infiniband/uverbs0" */
unsigned fabric_device_n_leases(const struct fabric_device *device);

/*
 * Let UID open the device's node until the lease is freed. Leases of one uid on one device are counted;
 * the last one takes the ACL entry away. A lease whose device was removed is dead: freeing it is still
 * the holder's duty and touches nothing else.
 */
int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid);
struct fabric_lease *fabric_lease_free(struct fabric_lease *lease);

/*
 * Whether QP number QPN of DEVICE was created by the process PID (by any thread of it). 1: yes; 0: no, or
 * there is no such QP; -ENODEV: no such device; other negative errno: could not be found out.
 */
int fabric_qp_belongs(struct fabric *fabric, const char *device, uint32_t qpn, pid_t pid);

/*
 * An event channel with an rdma_cm file of its own. -ENODEV where rdma_cm does not exist (yet) or there
 * is no RDMA device at all. Freeing it needs all its ids to be freed or abandoned before.
 */
int fabric_channel_new(struct fabric_channel **ret, struct fabric *fabric,
		       const struct fabric_channel_ops *ops, void *userdata);
struct fabric_channel *fabric_channel_free(struct fabric_channel *channel);

int fabric_id_new(struct fabric_id **ret, struct fabric_channel *channel, enum rdma_port_space ps,
		  void *userdata);
/* Ends whatever the id is doing: a connection is disconnected, a request not answered is rejected. */
struct fabric_id *fabric_id_free(struct fabric_id *id);
/*
 * The same for an id whose user, UID, is gone: its peer is told until it has heard, for some seconds, during which
 * the id keeps its port and its channel's file open. Each user has a share of ids that are kept so. Nothing
 * more is heard of it.
 */
void fabric_id_abandon(struct fabric_id *id, uid_t uid);
/* Requests are born with no userdata; set it before the next event can come. */
void fabric_id_set_userdata(struct fabric_id *id, void *userdata);
void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret);

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

/* The id's events come to CHANNEL from now on; none of them is lost. */
int fabric_id_migrate(struct fabric_id *id, struct fabric_channel *channel);

/* RDMA_OPTION_ID_TOS, _REUSEADDR, _AFONLY, _ACK_TIMEOUT; VALUE in host form. */
int fabric_id_set_option(struct fabric_id *id, int option, int value);
/* What the QP needs to go to STATE: rdma_init_qp_attr(). */
int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask);
