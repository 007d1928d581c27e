/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * librdmacm's calls, implemented with librdmabroker. In this list each file calls only functions of earlier files:
 *
 *   report.c, real.c, broker.c: error messages; librdmacm itself; the decision whether librdmacm or the broker
 *     handles the calls of this process.
 *   device.c, channel.c: the devices, which the whole process shares, and the event channels, with their calls.
 *   join.c, route.c, idlife.c: ids and what belongs to them: multicast groups, and the addresses and the path.
 *   qp.c: the QPs, with their calls.
 *   event.c: takes events, applies them to their ids, and has the calls on events.
 *   idcalls.c, conncalls.c, groupcalls.c, ep.c: the calls on ids, on connections, on groups and on endpoints.
 *   addrinfo.c, rsocket.c: name look-ups, and rsockets, which librdmacm itself handles.
 *
 * Each public struct is the first member of one of ours. An event channel is a session of the broker, and its fd is
 * the session's descriptor.
 *
 * librdmabroker does not know the QPs: the program or this code creates them, and moves them through their states. So
 * a QP can be of any kind that librdmacm accepts, and stays with its id when the id is migrated to another channel.
 *
 * Locking: channel.lock is held while an event is taken, and while an id is added, removed (except by
 * channel_free()), or loses its QP, so that no thread works on an event whose id was destroyed. It also guards the
 * channel's list. id.lock, which is taken after it, guards the counts of events. While a thread waits for an event or
 * for acks, neither is held; channel.lock can be held while a call waits for a reply of the broker.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "real.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * Disables cancellation during CALL, which is usually a call of librdmabroker. Programs cancel threads that are
 * inside librdmacm (rping does). A thread that is cancelled inside librdmabroker would leave the session locked.
 */
#define BROKER(call)                                                            \
	({                                                                      \
		int cancel_state_;                                              \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_); \
		__auto_type result_ = (call);                                   \
		pthread_setcancelstate(cancel_state_, NULL);                    \
		result_;                                                        \
	})

/* What is known about a port of an Ethernet device, where it does not change. */
struct port {
	uint8_t number; /* from 1; 0: this struct is not used yet */
	bool is_ethernet; /* false: the other members are not known */
	uint8_t active_mtu; /* enum ibv_mtu */
	bool has_pkey; /* PKEY is known, it is the one at index PKEY_INDEX */
	uint16_t pkey_index;
	__be16 pkey;
};

#define PORTS_MAX 4 /* the ports beyond are queried each time */

struct device {
	LIST_ENTRY(device) link; /* devices, in device.c */
	pid_t pid; /* of the process that opened it */
	struct ibv_context *verbs;
	struct rdmabroker *session; /* the session that opened it */
	struct ibv_pd *pd; /* NULL: no id has used the device since N_USERS was 0 */
	struct ibv_xrcd *xrcd; /* NULL: not needed yet */
	unsigned n_users; /* ids, and lists of rdma_get_devices() */
	uint8_t max_responder_resources, max_initiator_depth;
	struct port ports[PORTS_MAX];
};

struct channel {
	struct rdma_event_channel public;
	struct rdmabroker *session;
	pthread_mutex_t lock;
	LIST_HEAD(, id) ids;
	bool lost; /* the broker is gone */
	bool closed;
	unsigned
		n_inside; /* threads that take or await an event; once closed the last one frees it */
};

/* A multicast group that an id has joined, or is joining. */
struct join {
	LIST_ENTRY(join) link; /* id.joins */
	struct sockaddr_storage addr;
	void *context;
	uint32_t flags; /* of enum rdma_cm_mc_join_flags */
	bool attached; /* the QP is attached to MGID and MLID */
	union ibv_gid mgid;
	uint16_t mlid;
	unsigned n_reported, n_acked;
};

struct id {
	struct rdma_cm_id public;
	LIST_ENTRY(id) link; /* channel.ids */
	struct rdmabroker_id *handle; /* NULL: its channel is gone */
	struct device *device; /* NULL: not bound to one */
	bool sync; /* has a channel of its own, and each call waits for its outcome */
	bool connected; /* ESTABLISHED was reported, DISCONNECTED was not */
	/*
	 * The connection could not be confirmed: CONNECT_ERROR was reported, REJECTED and DISCONNECTED will not be.
	 */
	bool connect_error;
	bool told_lost; /* the event that reports the loss of the broker was taken */
	uint8_t responder_resources, initiator_depth;
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	void *connect_data; /* of rdma_addrinfo: precedes the program's private data */
	size_t connect_len;
	struct ibv_qp_init_attr *request_qp; /* of rdma_get_request's new QPs; NULL: creates none */

	pthread_mutex_t lock;
	pthread_cond_t acked;
	unsigned n_reported, n_acked; /* events; destroy waits until the counts are equal */
	LIST_HEAD(, join) joins;
};

struct cm_event {
	struct rdma_cm_event public;
	struct rdmabroker_event *event; /* has the private data that PUBLIC points to; NULL: none */
	struct id *id; /* the id that counts the event; for a CONNECT_REQUEST the listener */
	struct join *join; /* the join that counts the event too; NULL: none */
};

static inline int fail(int error)
{
	errno = error;
	return -1;
}

/* 0: ADDR is NULL, or its family is not known. */
static inline size_t addr_size(const struct sockaddr *addr)
{
	if (!addr)
		return 0;
	switch (addr->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

static inline struct id *to_id(struct rdma_cm_id *id)
{
	return container_of(id, struct id, public);
}

static inline struct channel *to_channel(struct rdma_event_channel *channel)
{
	return container_of(channel, struct channel, public);
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->public.qp_type == IBV_QPT_UD;
}

/* report.c */

/* Returns -1 with errno for a negative errno, else 0, like librdmacm's calls. WHAT is for RDMABROKER_DEBUG. */
int report_result(const char *what, int r);
/* The text of the library's last failure, with the rule that decided. Valid until the thread calls this again. */
const char *report_failure(void);
/* Prints a line to stderr, if the environment variable RDMABROKER_DEBUG is set. */
__attribute__((format(printf, 1, 2))) void report_debug(const char *fmt, ...);
/*
 * Prints a line to stderr, unless the environment variable RDMABROKER_QUIET is set. Prints only once in a process, so
 * that a program that retries does not fill a log.
 */
__attribute__((format(printf, 1, 2))) void report_once(const char *fmt, ...);

/* broker.c */

/*
 * The first step of API calls that have no object yet: decides between the broker and librdmacm. 0, or -1 with errno.
 */
int broker_start(void);
/* Opens a session. 0, or -1 with the errno that librdmacm sets if it cannot open /dev/infiniband/rdma_cm. */
int broker_open(struct rdmabroker **ret);
/*
 * The process's own session, for devices, which belong to no channel. Opens the session if necessary. LOST: a session
 * whose broker is gone, to be replaced by a new one; or NULL. Returns NULL with errno on failure.
 */
struct rdmabroker *broker_get_session(const struct rdmabroker *lost);
/*
 * The process's own session, like broker_get_session(), but this prints no error, and does not choose librdmacm
 * instead. NULL: the session cannot be opened.
 */
struct rdmabroker *broker_try(void);

/* device.c: 0, or a negative errno */
int device_get(const char *name, struct device **ret);
void device_put(struct device *device);
/*
 * Close removed devices that have no users, because the kernel waits until they are closed. Called when the program
 * creates an id or a channel, not when the last user is gone: the program can then still have to destroy its objects
 * on the device.
 */
void devices_sweep(void);
/* 0, or a negative errno. RET->is_ethernet false: RET has only the number. */
int device_get_port(struct device *device, uint8_t number, struct port *ret);
/* The P_Key at INDEX of port NUMBER. 0, or a negative errno. */
int device_get_pkey(struct device *device, uint8_t number, uint16_t index, __be16 *ret);
struct ibv_xrcd *device_get_xrcd(struct device *device); /* NULL with errno */

/* channel.c */
struct channel *channel_new(void); /* NULL with errno */
void channel_free(struct channel *channel);
/*
 * Called before and after all work on events. In between the channel is not freed, and is locked except in
 * channel_wait(). channel_enter() does not return if the channel is closed.
 */
void channel_enter(struct channel *channel);
void channel_leave(struct channel *channel);
/*
 * Wait, with the channel unlocked, until there may be an event. 0, or a negative errno. A thread that is cancelled
 * here leaves the channel first. If the channel is closed meanwhile, this does not return.
 */
int channel_wait(struct channel *channel);

/* join.c */
/* FLAGS: of enum rdma_cm_mc_join_flags. NULL: no memory. */
struct join *join_new(const struct sockaddr *addr, uint32_t flags, void *context);
void joins_free(struct id *id); /* all joins of the id */
struct join *join_find(struct id *id, const struct sockaddr *addr); /* NULL: there is none */
/*
 * The group was joined: attach the id's QP, unless there is none or the join is send only. 0, or a negative errno:
 * the QP could not be attached.
 */
int join_attach(struct join *join, struct id *id, const struct rdmabroker_ud_param *ud);
void join_detach(struct join *join, struct id *id); /* does nothing if no QP is attached */
/*
 * Wait until the program has acked the join's events. JOIN is not in the id's list any more, so no new events come.
 */
void join_await_acks(const struct join *join, struct id *id);

/* idlife.c */
int id_new(struct channel *channel, struct id **ret, void *context, enum rdma_port_space ps,
	   enum ibv_qp_type qp_type); /* CHANNEL NULL: sync. 0, or -1 with errno */
/* Create an id for a connection request. The channel is locked. NULL with errno: the caller still owns HANDLE. */
struct id *id_new_request(struct id *listener, struct rdmabroker_id *handle);
/* Destroy an id that the program has not got yet. The channel is locked. */
void id_discard(struct id *id);
/* Destroy an id that the program has got. Waits until the program has acked the id's events. */
void id_destroy(struct id *id);
/* Copy the addresses and the device from the handle to the public id. 0, or a negative errno. */
int id_learn(struct id *id);
/*
 * Migrate ID to channel TO, and wait until the program has acked the id's earlier events. TO NULL: to a channel of
 * its own, which makes ID sync. 0, or -1 with errno.
 */
int id_migrate(struct id *id, struct channel *to);
/* Count an event that the program is about to get. */
void id_count_event(struct cm_event *event);
/* Free the library's event, and count the event as acked. */
void id_settle_event(struct cm_event *event);
/* Settle the event, and free it. */
void id_ack_event(struct rdma_cm_event *event);
/* Ack the event that a sync id keeps, if there is one. */
void id_ack_own_event(struct id *id);

/* route.c */
void route_learn_gids(struct id *id);
void route_learn_path(struct id *id);

/* qp.c: 0, or a negative errno. These functions do nothing if the id has no QP. */
/* RESPONDER_RESOURCES or INITIATOR_DEPTH negative: the connection manager's value is used. */
int qp_to_rts(struct id *id, int responder_resources, int initiator_depth);
int qp_to_error(struct id *id);
/* The peer accepted: move the QP, which the id must have, and confirm. Negative: the QP is in ERR then. */
int qp_on_response(struct id *id, const struct ibv_ece *ece);

/* event.c */
/* If ID is sync: wait for the outcome, and keep it in public.event. 0, or -1 with errno. */
int event_await_outcome(struct id *id);
