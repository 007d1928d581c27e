/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fabric: the host's RDMA connection manager and its devices, as the layers above see them.
 *
 *   fabric ── device, device, ...       the RDMA devices that udev reports, with the leases on their nodes
 *      └───── id, id, ...               the ids of all sessions, on one event channel (one open rdma_cm); restored
 *                                       ids have a file of their own
 *
 * The fabric makes no policy decisions and never waits for a peer. A call that can fail returns a negative
 * errno. Slow calls report their outcome by an event of the id or by a callback. The event loop delivers
 * both; the comments below name the exceptions. Events are copied and acked before they are delivered, so an
 * event callback can free its id.
 *
 * Threads destroy ids, open devices, look up the owners of QPs and change ACLs, because these calls can
 * block. While new devices are being opened, but not for longer than a second, the event channel is not read,
 * and calls that would bind an id to a device return -EINPROGRESS.
 *
 * This header has two implementations: the files beside it, over librdmacm and libibverbs, and tests/fake/,
 * which produces scripted states and faults.
 */

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "proto/path.h"
#include "proto/pkey.h"
#include "proto/maker.h"
#include "util/list.h"
#include "util/owner.h"

struct fabric;
struct fabric_id;
struct fabric_device;
struct fabric_lease;
struct fabric_lookup;
struct fabric_join;

#define FABRIC_HOLDERS_MAX 64 /* processes listed for one device */

/* How a client gets access to a device's node. */
enum fabric_access {
	FABRIC_ACCESS_DEFAULT, /* of a lease: that of fabric_new() */
	FABRIC_ACCESS_ACL, /* the client's uid has an entry in the node's ACL */
	FABRIC_ACCESS_OPEN, /* the client can open the node anyway; leases are only counted */
};

/* Another process that holds connection manager ids on a device, or a module of the kernel. */
struct fabric_holder {
	pid_t pid; /* 0: a module */
	uid_t uid; /* effective uid; -1: not known, or a module */
	/* the module, or comm of one of the process's threads, made printable; "": not known */
	char name[MAKER_NAME_MAX];
	unsigned n_ids;
	/* State and addresses of one of the ids: preferably a listening one, else a connecting or connected one. */
	const char *state; /* as `rdma resource show cm_id` prints it; "?": not known */
	struct sockaddr_storage local, peer; /* ss_family 0: none */
};

/* The result of a device's latest complete scan. */
struct fabric_holders {
	uint64_t seen_ms; /* time of the scan, from clock_ms() */
	/* ids of those that are not listed because of FABRIC_HOLDERS_MAX */
	unsigned n_more_ids;
	/* ids made by threads that have ended; the kernel does not report their processes */
	unsigned n_nameless_ids;
	size_t n_holders;
	struct fabric_holder holders[];
};

struct fabric_ops {
	/* DEVICE can be used. It stays valid until device_removed returns. */
	void (*device_added)(void *userdata, struct fabric_device *device);
	/* The device is gone, or was renamed and will be announced again by its new name. Its leases are void. */
	void (*device_removed)(void *userdata, struct fabric_device *device);
	/*
	 * Calls that returned -EINPROGRESS can be tried again. PORT (network order): the port of a freed id
	 * that has just been destroyed, or whose driver has answered to a listen; 0: fabric_is_opening() has perhaps become false.
	 */
	void (*can_go_on)(void *userdata, in_port_t port);
	/*
	 * The connection manager is open; FILE is *RET_CM of fabric_get_files(). fabric_id_new() and
	 * fabric_get_files() can call this. NULL: not needed.
	 */
	void (*opened)(void *userdata, int file);
	/*
	 * The same for restored ids: FILE is *RET_RESTORED. Called from within fabric_takeover(), before the first id is
	 * moved to FILE. NULL: not needed.
	 */
	void (*restores)(void *userdata, int file);
};

/* A copy of a struct rdma_cm_event. It needs no ack. */
struct fabric_event {
	enum rdma_cm_event_type type;
	int status; /* a negative errno, or the transport's reason */
	/* the new id of a CONNECT_REQUEST, owned by the callback; else NULL */
	struct fabric_id *request;
	struct rdma_conn_param conn; /* its private_data: PRIVATE_DATA below, or NULL */
	/*
	 * Set for multicast events and all events of datagram ids. For these events CONN has only qp_num and
	 * private_data.
	 */
	struct rdma_ud_param ud;
	uint8_t private_data[256];
	struct ibv_ece remote_ece; /* of a CONNECT_REQUEST or CONNECT_RESPONSE; vendor_id 0: none */
	/* the join of a MULTICAST_JOIN or MULTICAST_ERROR; else NULL */
	struct fabric_join *join;
};

/* Receives the events of an id. A CONNECT_REQUEST goes to the listening id's callback. */
typedef void (*fabric_event_fn)(void *userdata, struct fabric_event *event);

struct fabric_id_info {
	struct sockaddr_storage local; /* ss_family 0: not bound */
	struct sockaddr_storage peer; /* ss_family 0: none */
	const char *device; /* e.g. "rxe0"; NULL: not bound to a device; valid while the id lives */
	uint8_t port_num; /* port number of the device, from 1; 0: none */
	/*
	 * The GIDs of the local end and of the peer, if they do not follow from the addresses, as on InfiniBand with IP
	 * addresses. All zero: not known, or they follow from them.
	 */
	union ibv_gid gids[2];
	/*
	 * The partition (proto/pkey.h) of a connection request, as its path says; else that of the id's network device or, with
	 * addresses of AF_IB, of its own address; without InfiniBand the default one. 0: not bound to a device, or none.
	 */
	uint16_t pkey;
};

/*
 * If rdma_cm, devices or udev are missing, they are used once they appear. Devices that are present are
 * announced later, from the event loop.
 */
int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata);
struct fabric *fabric_free(struct fabric *fabric); /* all ids and leases must be gone */

/*
 * While an event is being read and handled, *READING is not 0. READING has to stay valid until the fabric is freed.
 * To be called at the start.
 */
void fabric_note_reading(struct fabric *fabric, uint32_t *reading);

/*
 * Ids that a previous process of the daemon has left. fabric_takeover_rest() has to be called in any case: until then
 * the ACL entries of the previous process stay, and the holders of the devices are not looked at.
 *
 *   fabric_takeover()          moves the ids to this process. FILES are its files of the connection manager (the
 *                              descriptors of fabric_get_files()); they stay the caller's and can be closed afterwards.
 *                              N_EXPECTED: the number of ids that are known.
 *   fabric_id_restore()        gives the caller an id that it knows
 *   fabric_takeover_was_accepted()
 *                              whether a previous process has accepted the connection request that has the addresses of
 *                              INFO. To be called before fabric_id_restore(). A request must not be accepted twice: the
 *                              kernel rejects it the second time, but goes on sending the response, and does not let
 *                              the id be destroyed for a minute.
 *   fabric_takeover_listener() ends the listener at LOCAL, so that the caller can listen there anew. To be called just
 *                              before, because there is no listener in the meantime.
 *   fabric_takeover_requests() calls ON_REQUEST for each connection request that has waited. EVENT.request is then
 *                              the callee's. False: nobody wants it. Then it is rejected with the private data BUSY.
 *   fabric_takeover_rest()     ends all other ids, and delivers the events of the restored ones. A connection request
 *                              that was not answered is rejected with the private data BUSY.
 *
 * They return 0 or a negative errno: ids that were not found end when FILES are closed.
 */
typedef bool (*fabric_request_fn)(void *userdata, enum rdma_port_space ps,
				  struct fabric_event *event);
int fabric_takeover(struct fabric *fabric, const int *files, size_t n_files, size_t n_expected);
bool fabric_takeover_was_accepted(struct fabric *fabric, enum rdma_port_space ps,
				  const struct fabric_id_info *info);
void fabric_takeover_listener(struct fabric *fabric, enum rdma_port_space ps,
			      const struct sockaddr_storage *local);
void fabric_takeover_requests(struct fabric *fabric, const void *busy, size_t busy_len,
			      fabric_request_fn on_request, void *userdata);
int fabric_takeover_rest(struct fabric *fabric, const void *busy, size_t busy_len);
/* Delivers the events of restored ids that wait. */
void fabric_takeover_poll(struct fabric *fabric);
/*
 * Opens the connection manager if it is not open yet. *RET_CM has the ids that this process makes,
 * *RET_RESTORED (-1: none) those of previous processes. The ids live while any process has the descriptor open.
 * Returns 0 or a negative errno. -EINPROGRESS: not open yet, and devices are being opened.
 */
int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_restored);

/* Devices in the order in which they appeared. PREV is NULL for the first one. Returns NULL at the end. */
struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev);
struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name);
/* Greater than the numbers of all devices that appeared before. */
uint64_t fabric_device_number(const struct fabric_device *device);
const char *fabric_device_name(const struct fabric_device *device); /* "rxe0" */
const char *fabric_device_node(const struct fabric_device *device); /* "/dev/infiniband/uverbs0" */
unsigned fabric_device_n_leases(const struct fabric_device *device);
bool fabric_device_is_iwarp(const struct fabric_device *device);
/*
 * Why the daemon cannot use DEVICE, as a positive errno, and since when, from clock_ms(). It is tried again. 0: it can, or
 * it is being opened for the first time.
 */
int fabric_device_error(const struct fabric_device *device, uint64_t *ret_since_ms);
/* The number of devices that the daemon cannot use. */
unsigned fabric_count_unusable(struct fabric *fabric);

/*
 * Other processes that hold connection manager ids on the devices. Each device is scanned when it appears,
 * and the result is written to the journal. fabric_scan_holders() scans all devices again, unless a scan is running
 * or has just ended. If the result is small, the scan is complete when fabric_scan_holders() returns.
 * fabric_device_holders() returns NULL until the first scan of the device is complete.
 */
void fabric_scan_holders(struct fabric *fabric);
const struct fabric_holders *fabric_device_holders(const struct fabric_device *device);

/* A request to a lender. LINK, SERIAL and UNTIL_MS are the lender's. */
struct fabric_loan {
	struct list link;
	const char *device;
	uid_t uid;
	bool allow; /* UID may open the device's node, or no longer */
	uint32_t serial;
	uint64_t until_ms;
};

/*
 * Gives users access to the nodes in place of the fabric, for an instance of the daemon that must not change the ACLs
 * itself, because another one does.
 */
struct fabric_lender {
	/* fabric_lent() has to be called once for LOAN, but not from within this call. Until then LOAN is the lender's. */
	void (*lend)(void *userdata, struct fabric_loan *loan);
};
/*
 * To be called before the loop runs. LENDER NULL: nobody lends any more, and fabric_lent() is called for all loans
 * before the fabric is freed. Then no lease can be made.
 */
void fabric_set_lender(struct fabric *fabric, const struct fabric_lender *lender, void *userdata);
void fabric_lent(struct fabric_loan *loan, int r); /* R: 0 or a negative errno */
/* The lender has lost all that it had lent. */
void fabric_lend_again(struct fabric *fabric);

/* Receives the result of a thread's work. */
typedef void (*fabric_answer_fn)(void *userdata, int answer);

/*
 * Lets UID open the device's node until the lease is freed. The leases of a uid on a device share one ACL
 * entry. Returns 0: UID has access already; -EINPROGRESS: a thread adds the entry, and DONE will be called
 * with 0, or with a negative errno if the lease gives no access. In both cases *RET is the lease. On another
 * negative errno *RET is not set.
 *
 * When the device is removed, its leases become void, but must still be freed. For a lease that waits then,
 * DONE is called with -ENODEV, or not at all.
 */
int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid,
		     enum fabric_access access, fabric_answer_fn done, void *userdata);
/* DONE is not called after this. */
struct fabric_lease *fabric_lease_free(struct fabric_lease *lease);

/* results of fabric_qp_belongs() */
enum fabric_qp {
	/* the QP is not known to be PID's: it is another process's, the kernel's, or gone */
	FABRIC_QP_FOREIGN,
	FABRIC_QP_OWN, /* a QP of the process PID */
	/*
	 * The kernel reports no QP of this number. The number can be free, or reserved, or of a QP that the
	 * driver does not report (mlx5's DEVX).
	 */
	FABRIC_QP_UNKNOWN,
	/* A target QP of XRC, which belongs to a domain: the kernel does not tell which process has made it. */
	FABRIC_QP_XRC_TARGET,
};

/*
 * Finds out whether process PID created QP number QPN of DEVICE. A thread does it, because the driver can
 * query its firmware. The look-up counts for OWNER. Returns -EINPROGRESS and sets *RET if DONE will be
 * called. A result that is known at once is returned, and *RET is NULL.
 *
 * Results: an enum fabric_qp; -ENODEV: no such device; -EDQUOT: OWNER has too many look-ups pending; another
 * negative errno: the look-up failed.
 */
int fabric_qp_belongs(struct fabric_lookup **ret, struct fabric *fabric, const char *device,
		      uint32_t qpn, pid_t pid, struct owner owner, fabric_answer_fn done,
		      void *userdata);
/* DONE is not called after this. Takes NULL; returns NULL. */
struct fabric_lookup *fabric_lookup_cancel(struct fabric_lookup *lookup);

/*
 * Creates an id. OWNER is charged for the id from fabric_id_free() until the kernel has destroyed it. -ENODEV:
 * rdma_cm or an RDMA device is missing; -EDQUOT: too many ids of OWNER are being destroyed; -EINPROGRESS:
 * rdma_cm is not open yet, and devices are being opened.
 */
int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		  enum rdma_port_space ps, fabric_event_fn on_event, void *userdata);
/* How far a connection is. What has to be done at its end depends on that. */
enum fabric_stage {
	/* there is no connection to end when the id is destroyed; datagram ids are always in this stage */
	STAGE_NONE,
	STAGE_ASKED, /* connect was called: the REQ is sent */
	STAGE_ANSWERED, /* the peer has accepted (CONNECT_RESPONSE) */
	STAGE_ACCEPTED, /* accept was called, the peer has not confirmed yet */
	STAGE_ESTABLISHED,
};

/*
 * Claims the leftover id that has the addresses of INFO. If there is none, *RET is an id without a connection.
 * A restored id cannot be bound, listen, resolve or connect: these calls fail with -EINVAL. STAGE is how
 * far its connection is, PASSIVE: it began as a connection request. Returns 0 or a negative errno.
 */
int fabric_id_restore(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      enum fabric_stage stage, bool passive, fabric_event_fn on_event,
		      void *userdata);
/* The id is bound to a device of iWARP, whose connection manager is another one, see iwarp.h. */
bool fabric_id_is_iwarp(const struct fabric_id *id);
/* Of a restored id. False: the kernel does not have it. */
bool fabric_id_exists(const struct fabric_id *id);
/* Of a restored id. True: its connection is established, or only has to be confirmed. */
bool fabric_id_is_connected(const struct fabric_id *id);
/* Of a restored id. True: its connect was sent, and the peer has not answered. */
bool fabric_id_is_asking(const struct fabric_id *id);
/* EVENT is a restored connection request, whose contents the caller knows. Needed for fabric_id_accept(). */
void fabric_id_set_request(struct fabric_id *id, const struct fabric_event *event);
/*
 * Frees an id in any state. A connection is disconnected; an unanswered connection request is rejected. No
 * further events are delivered. The id keeps its port until a thread has destroyed it.
 */
struct fabric_id *fabric_id_free(struct fabric_id *id);
/*
 * As fabric_id_free(), for an id whose client is gone. If the peer must be notified first, the id and its
 * port are kept for some seconds at most. Beyond a limit for each user and a limit for all users, the id is
 * freed at once.
 */
void fabric_id_abandon(struct fabric_id *id);
/*
 * Sets who gets the id's events, and who is charged for it. The id of a connection request has no callback at first. Without a callback,
 * events are dropped.
 */
void fabric_id_set_owner(struct fabric_id *id, struct owner owner, fabric_event_fn on_event,
			 void *userdata);
void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret);
/* Whether paths are the subnet manager's, as far as INFO tells. */
static inline bool fabric_info_has_paths(const struct fabric_id_info *info)
{
	static const union ibv_gid none[2];

	return info->local.ss_family == AF_IB || memcmp(info->gids, none, sizeof(none)) != 0;
}
/* The partition of PKEY, in host order, as the kernel tells it of an id with a device: of Ethernet it tells 0. */
static inline uint16_t fabric_info_partition(const struct fabric_id_info *info, uint16_t pkey)
{
	return pkey == 0 && !fabric_info_has_paths(info) ? PKEY_DEFAULT : pkey_partition(pkey);
}
/*
 * Returns the number of the id's paths, which are known when its route is resolved, or if it is a connection request.
 * 0: it has none, as on iWARP, or is restored.
 */
size_t fabric_id_get_paths(const struct fabric_id *id, struct ibv_sa_path_rec ret[PATHS_MAX]);
/*
 * The LID mask control of the id's port: the port has 2^LMC LIDs, which differ in their low bits. 0: one LID, or it is not
 * known.
 */
unsigned fabric_id_get_lmc(const struct fabric_id *id);

/*
 * True while new devices are being found and opened, but not for longer than a second; and while a driver of iWARP has not
 * answered to the listen of an id without a device, for which the kernel makes the calls below wait.
 */
bool fabric_is_opening(const struct fabric *fabric);
/* True while new devices are being found and opened. */
bool fabric_has_unopened(const struct fabric *fabric);
/*
 * Bind, listen and resolve_addr return -EINPROGRESS while devices are being opened. Bind and
 * listen also return -EINPROGRESS while a freed id that is not destroyed yet holds the port. See fabric_ops.can_go_on.
 */
int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr);
int fabric_id_listen(struct fabric_id *id, int backlog);
/* The same during a take-over. Never returns -EINPROGRESS: a failure that comes later is reported by DEVICE_REMOVAL. */
int fabric_id_listen_anew(struct fabric_id *id, int backlog);
int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms); /* SRC can be NULL */
int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms);
/*
 * Sets the path, in place of fabric_id_resolve_route(); ROUTE_RESOLVED follows. Whether PATH leads to the id's peer is the
 * caller's to check.
 */
int fabric_id_set_path(struct fabric_id *id, const struct ibv_path_record *path);
/* PARAM->qp_num is the client's QP; the id has no QP of its own. -EOPNOTSUPP: a datagram id on iWARP. */
int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param);
int fabric_id_establish(struct fabric_id *id);
int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece);
int fabric_id_disconnect(struct fabric_id *id);
int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event);
/* The next connect or accept offers ECE. */
int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece);

/* A join is an id's membership in a multicast group. Free all joins of an id before the id. */
int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata);
/*
 * ID is restored, and a previous process has joined the group at ADDR. The membership lasts until ID is freed, also
 * if the join is freed before.
 */
int fabric_join_restore(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
			void *userdata);
struct fabric_join *fabric_join_free(struct fabric_join *join);
void *fabric_join_get_userdata(const struct fabric_join *join);

/* OPTION: RDMA_OPTION_ID_TOS, _REUSEADDR, _AFONLY or _ACK_TIMEOUT. */
int fabric_id_set_option(struct fabric_id *id, int option, int value);
/*
 * Connections will be those of QPs of TYPE: RC, XRC_SEND, XRC_RECV or, in RDMA_PS_IB, UC, or UD: then it is a datagram id. To
 * be called before the id is bound, or when it was restored. Returns 0, or -EINVAL: another type, or a port space of datagrams.
 */
int fabric_id_set_qp_type(struct fabric_id *id, enum ibv_qp_type type);
/*
 * Gets the attributes that move the client's QP to STATE. Those for INIT have the port number on iWARP, too, where it is
 * not in the mask.
 */
int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask);
