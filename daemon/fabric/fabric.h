/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fabric: the host's RDMA connection manager and its devices, as the layers above see them.
 *
 *   fabric ── device, device, ...       the RDMA devices that udev reports, with the leases on their nodes
 *      └───── id, id, ...               the ids of all sessions, on one event channel (one open rdma_cm)
 *
 * The fabric makes no policy decisions and never waits for a peer. A call that can fail returns a negative errno.
 * The outcome of a call that takes time arrives as an event of the id, or through a callback. The event loop delivers
 * events and callbacks, never a call into the fabric. An event is copied and acked before it is delivered, so an
 * id can be freed at any time, also from within its event callback.
 *
 * Threads destroy ids, open devices, look up the owners of QPs and change ACLs, because that can wait for the kernel
 * or for firmware. While devices are being opened, which here includes the release of devices that are gone, no
 * events are delivered, and calls that would bind an id to a device return -EINPROGRESS, because librdmacm would
 * make them wait for the mutex that it holds meanwhile.
 *
 * This header has two implementations: the files beside it, over librdmacm and libibverbs, and tests/fake/,
 * which produces scripted states and faults that real hardware cannot produce at will.
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

#define FABRIC_HOLDERS_MAX 64 /* maximum number of processes that are listed for one device */
#define FABRIC_HOLDER_NAME_MAX 32

/* How a client gets access to a device's node. */
enum fabric_access {
	FABRIC_ACCESS_ACL, /* an entry for the uid in the node's ACL */
	FABRIC_ACCESS_OPEN, /* every user can open the node without an entry; leases are only counted */
};

/* A process other than this one that holds ids of the connection manager on a device. */
struct fabric_holder {
	pid_t pid;
	uid_t uid; /* its effective uid; -1: not known */
	/* comm of the first of its threads that was found, made printable; "": not known */
	char name[FABRIC_HOLDER_NAME_MAX];
	unsigned n_ids;
	/*
	 * State and addresses of one of these ids: of a listening one if there is any, else of one that
	 * connects or is connected, else of any.
	 */
	const char *state; /* as `rdma resource show cm_id` prints it; "?": not known */
	struct sockaddr_storage local, peer; /* ss_family 0: none */
};

/* The result of the latest complete scan of a device. The kernel's own ids are not counted. */
struct fabric_holders {
	uint64_t seen_ms; /* time of the scan, from clock_ms() */
	/* ids of the processes beyond FABRIC_HOLDERS_MAX, which are not listed */
	unsigned n_more_ids;
	/* ids made by threads that have ended; the kernel does not report their process */
	unsigned n_nameless_ids;
	size_t n_holders;
	struct fabric_holder holders[];
};

struct fabric_ops {
	/* DEVICE can be used from now on; it stays valid until device_removed returns. */
	void (*device_added)(void *userdata, struct fabric_device *device);
	/*
	 * The device's node is gone, or the device was renamed and will be announced again by its new name. Its
	 * leases are void (see fabric_lease_new()).
	 */
	void (*device_removed)(void *userdata, struct fabric_device *device);
	/*
	 * A call that returned -EINPROGRESS can be tried again. If PORT (network order) is not 0, a freed id that
	 * held PORT is destroyed now. If PORT is 0, no devices are being opened any more.
	 */
	void (*can_go_on)(void *userdata, in_port_t port);
	/*
	 * The connection manager is open. FILE is where the ids that this process makes live, see fabric_inherit(). Can be
	 * called from within fabric_id_new() and fabric_get_files(). NULL: not needed.
	 */
	void (*opened)(void *userdata, int file);
};

/* A copy of a struct rdma_cm_event. It needs no ack. */
struct fabric_event {
	enum rdma_cm_event_type type;
	int status; /* a negative errno, or the transport's reason */
	/* of a CONNECT_REQUEST: the new id, which the callback owns; else NULL */
	struct fabric_id *request;
	struct rdma_conn_param conn; /* private_data points into the field below, or is NULL */
	/*
	 * Set for MULTICAST_JOIN, MULTICAST_ERROR and all events of datagram ids. For these events CONN has only
	 * qp_num and private_data.
	 */
	struct rdma_ud_param ud;
	uint8_t private_data[256];
	struct ibv_ece remote_ece; /* of a CONNECT_REQUEST or CONNECT_RESPONSE; vendor_id 0: none */
	/* of a MULTICAST_JOIN or MULTICAST_ERROR: the join that it is about; else NULL */
	struct fabric_join *join;
};

/* Receives the events of the id that USERDATA was set for. A CONNECT_REQUEST goes to the listening id's callback. */
typedef void (*fabric_event_fn)(void *userdata, struct fabric_event *event);

struct fabric_id_info {
	struct sockaddr_storage local; /* ss_family 0: not bound */
	struct sockaddr_storage peer; /* ss_family 0: none */
	const char *device; /* e.g. "rxe0"; NULL: not bound to a device; valid while the id lives */
	uint8_t port_num; /* port number of the device, from 1; 0: none */
};

/*
 * rdma_cm, devices and udev can be missing at the start: they are used once they appear. Devices that are
 * already present are announced from the event loop, by device_added. With FABRIC_ACCESS_ACL, the ACL entries that a
 * previous process left on the nodes are removed, as far as this process owns the nodes.
 */
int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata);
struct fabric *fabric_free(struct fabric *fabric); /* all ids and leases must be gone */

/*
 * Ids that a previous process of the daemon has left. fabric_inherit_rest() has to be called in any case: until then the
 * ACL entries of the previous process stay, and the holders of the devices are not looked at.
 *
 * fabric_inherit() moves the ids to this process. FILES are its files of the connection manager (the descriptors of
 * fabric_get_files()); they stay the caller's and can be closed afterwards. N_EXPECTED: the number of ids that are
 * known. Connection requests that wait are rejected with the private data BUSY. Then the caller takes over the ids
 * that it knows, by fabric_id_inherit(). fabric_inherit_rest() rejects or disconnects the others; no event of an id that
 * was taken over is delivered before. Returns 0 or a negative errno: ids that were not found end when FILES are closed.
 */
int fabric_inherit(struct fabric *fabric, const int *files, size_t n_files, size_t n_expected,
		   const void *busy, size_t busy_len);
int fabric_inherit_rest(struct fabric *fabric, const void *busy, size_t busy_len);
/*
 * Opens the connection manager, if that was not done before. The ids that this process makes live in *RET_CM, those that
 * it has taken over in *RET_INHERITED (-1: none). They live on while a process has the descriptors open. Returns 0; or
 * -EINPROGRESS while devices are being opened; or another negative errno.
 */
int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_inherited);

/* Devices, in the order in which they appeared. PREV NULL: the first device; NULL returned: no more. */
struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev);
struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name);
const char *fabric_device_name(const struct fabric_device *device); /* "rxe0" */
const char *fabric_device_node(const struct fabric_device *device); /* "/dev/infiniband/uverbs0" */
unsigned fabric_device_n_leases(const struct fabric_device *device);

/*
 * The other processes that hold connection manager ids on the devices. Each device is scanned when it
 * appears, and the result is written to the journal. fabric_look() starts a new scan of all devices, unless a scan is
 * running or has ended a short time ago. If the result is small, the scan is complete when fabric_look() returns.
 * fabric_device_holders() returns NULL until the first scan of the device is complete.
 */
void fabric_look(struct fabric *fabric);
const struct fabric_holders *fabric_device_holders(const struct fabric_device *device);

/* Receives the result of work done by a thread. Called from the event loop. */
typedef void (*fabric_answer_fn)(void *userdata, int answer);

/*
 * Lets UID open the device's node until the lease is freed. Leases of one uid on one device are counted;
 * after the last one the ACL entry is removed. A thread changes the ACL. Returns 0 if the entry exists
 * already or none is needed. Returns -EINPROGRESS if DONE will be called with the result: 0, or a negative
 * errno if the lease gives no access. If fabric_lease_new() returns 0 or -EINPROGRESS, *RET is the lease; on
 * any other negative errno *RET is not set.
 *
 * When the device is removed, its leases become void. For a lease that waits then, DONE is called with -ENODEV, or
 * not at all. The caller must still free the leases, which has no further effect.
 */
int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid,
		     fabric_answer_fn done, void *userdata);
/* DONE is not called after this. */
struct fabric_lease *fabric_lease_free(struct fabric_lease *lease);

/* The results of fabric_qp_belongs(): the owner of the QP with a given number. */
enum fabric_qp {
	FABRIC_QP_FOREIGN, /* a QP of another process, or the kernel's, or a QP that is gone or was not found again */
	FABRIC_QP_OWN, /* a QP of the process PID */
	/*
	 * The kernel reports no QP of this number. The number can be free, be reserved by any process, or be that of
	 * a QP which the driver does not report, for example one that a process made with mlx5's DEVX.
	 */
	FABRIC_QP_UNKNOWN,
};

/*
 * Finds out for the user UID whether QP number QPN of DEVICE was created by the process PID (by any of its threads).
 * The kernel asks the device's firmware, so a thread makes the request. Returns -EINPROGRESS and sets *RET: DONE will
 * be called from the event loop with the result. The results are those of enum fabric_qp; -ENODEV: no such device;
 * -EDQUOT: UID has too many look-ups pending; other negative errno: the look-up failed. A result that is known at
 * once is returned, and *RET is NULL.
 */
int fabric_qp_belongs(struct fabric_lookup **ret, struct fabric *fabric, const char *device,
		      uint32_t qpn, pid_t pid, uid_t uid, fabric_answer_fn done, void *userdata);
/* DONE is not called after this. Takes NULL; returns NULL. */
struct fabric_lookup *fabric_lookup_cancel(struct fabric_lookup *lookup);

/*
 * Creates an id. UID is charged for it from fabric_id_free() until the kernel has destroyed it. -ENODEV:
 * rdma_cm does not exist (yet), or there is no RDMA device at all; -EDQUOT: too many ids of UID are being
 * destroyed; -EINPROGRESS: rdma_cm is not open yet, and cannot be opened while devices are being opened.
 */
int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, uid_t uid, enum rdma_port_space ps,
		  fabric_event_fn on_event, void *userdata);
/*
 * Takes over the id that has the addresses of INFO. If the kernel has no such id, *RET is an id without a connection. Of the calls below only establish, reject and disconnect have
 * an effect on an id that was taken over; the others fail with -EINVAL. Returns 0 or a negative errno.
 */
int fabric_id_inherit(struct fabric_id **ret, struct fabric *fabric, uid_t uid,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      fabric_event_fn on_event, void *userdata);
/* Of an id that was taken over. False: the kernel does not have it. */
bool fabric_id_exists(const struct fabric_id *id);
/* Of an id that was taken over. True: its connection is established. */
bool fabric_id_is_connected(const struct fabric_id *id);
/*
 * Frees an id in any state: a connection is disconnected, a connection request that was not answered is
 * rejected. No further events are delivered. The kernel takes a while to destroy the id, which keeps its port
 * until then.
 */
struct fabric_id *fabric_id_free(struct fabric_id *id);
/*
 * As fabric_id_free(), for an id whose client is gone. If the id's peer has to be notified that the connection ends,
 * the id is kept until that is done, for some seconds at most, and keeps its port meanwhile. The number of ids kept
 * this way is limited, for each user and for all together. Any other id, and an id beyond the limit, is freed at
 * once.
 */
void fabric_id_abandon(struct fabric_id *id);
/*
 * Sets the owner of an id, who gets its events. The id of a connection request has no owner at first, and the events
 * of an id without an owner are dropped. So set its owner before its next event can arrive.
 */
void fabric_id_set_owner(struct fabric_id *id, uid_t uid, fabric_event_fn on_event, void *userdata);
void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret);

/* True while devices are being opened. */
bool fabric_is_opening(const struct fabric *fabric);
/*
 * The next three return -EINPROGRESS while devices are being opened. A bind also returns it while an id that was
 * freed but is not destroyed yet holds the port. See fabric_ops.can_go_on.
 */
int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr);
int fabric_id_listen(struct fabric_id *id, int backlog);
int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms); /* SRC may be NULL */
int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms);
/* PARAM->qp_num is the client's QP; the id has no QP of its own. */
int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_establish(struct fabric_id *id);
int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece);
int fabric_id_disconnect(struct fabric_id *id);
int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event);
/* Sets the ECE options that the next connect or accept offers. */
int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece);

/*
 * A join is an id's membership in a multicast group. Multicast events have the join in fabric_event.join. Free
 * all joins of an id before the id.
 */
int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata);
struct fabric_join *fabric_join_free(struct fabric_join *join);
void *fabric_join_get_userdata(const struct fabric_join *join);

/* OPTION is RDMA_OPTION_ID_TOS, _REUSEADDR, _AFONLY or _ACK_TIMEOUT; VALUE is an int for each of them. */
int fabric_id_set_option(struct fabric_id *id, int option, int value);
/* Gets the attributes that move the client's QP to STATE, from rdma_init_qp_attr(). */
int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask);
