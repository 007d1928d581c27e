/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * librdmacm's calls, implemented with librdmabroker. In this list each file calls only functions of earlier files:
 *
 *   report.c      error messages
 *   bound.c       whether librdmacm's internal calls come to the drop-in
 *   real.c        loads librdmacm itself
 *   broker.c      decides whether librdmacm or the broker handles the calls of this process; opens sessions
 *   device.c      the devices, which the whole process shares
 *   lend.c        the devices that programs open by libibverbs
 *   channel.c     event channels
 *   join.c        multicast groups of an id
 *   route.c       addresses and path of an id
 *   idlife.c      creates, migrates and destroys ids
 *   qp.c          QPs and SRQs
 *   event.c       takes events, and applies them to their ids
 *   process.c     fork(2) and dlclose(3)
 *   idcalls.c, conncalls.c, groupcalls.c, ep.c
 *                 the calls on ids, on connections, on groups and on endpoints
 *   addrinfo.c, newer.c, rsocket.c
 *                 name look-ups; what newer versions have besides; rsockets, which are librdmacm's over our ids
 *
 * Each public struct is the first member of one of ours. An event channel is a session of the broker, by whose socket only
 * events come: replies to all calls come by the process's own session, which also has its devices (options.replies). The fd
 * of the channel is an epoll instance that is readable while there is an event (rdmabroker_set_epoll()). Like librdmacm's it
 * is never writable, and what a program writes to it by mistake does not reach the broker. A sync id has a channel of its
 * own. When the id is destroyed, or migrated to another channel, the session is kept for the next sync id: libfabric creates
 * and migrates one for each connection. The fd ends with its channel.
 *
 * librdmabroker does not know the QPs: the program or this code creates them, and this code lets the library move them
 * (rdmabroker_move_qp()). So a QP can be of any kind that librdmacm accepts, and the program can replace or clear the
 * id's pointer to it at any time.
 *
 * Locking: channel.lock guards the channel's list. It is held while an event is taken, and while an id is added, is
 * removed, or loses its QP. So no thread works on an event of a destroyed id. Only channel_free() removes ids without
 * channel.lock. id.lock is taken after channel.lock, and guards the counts of events. A thread that waits for an
 * event or for acks holds neither lock. A thread that waits for a reply of the broker can hold channel.lock.
 */

#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "proto/addr.h"
#include "real.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * Disables cancellation during CALL. Programs cancel threads that are inside librdmacm (rping does), and a thread
 * that is cancelled inside librdmabroker would leave the session locked, except in rdmabroker_await_event().
 */
#define BROKER(call)                                                            \
	({                                                                      \
		int cancel_state_;                                              \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_); \
		__auto_type result_ = (call);                                   \
		pthread_setcancelstate(cancel_state_, NULL);                    \
		result_;                                                        \
	})

/* The attributes of a port that do not change on Ethernet. */
struct port {
	uint8_t number; /* from 1; 0: this struct is not used yet */
	bool is_ethernet; /* false: ignore active_mtu */
	uint8_t active_mtu; /* enum ibv_mtu */
};

#define PORTS_MAX 4 /* further ports are queried each time */

/*
 * librdmacm's rsockets get our sync ids, and pass them to two of librdmacm's own functions that read beyond the public struct.
 * One follows the pointer that is the first private member, to the device, where it reads an int: how many work requests a QP
 * can have. The other reads an int of the id: whether it is sync. In rdma-core 24 to 64 the pointer has the same place. So
 * that nothing depends on the places of the two ints, all memory where they can be has their value. tests/unit/check_rsocket
 * runs this with the librdmacm that is installed.
 */
struct librdmacm_device {
	int32_t max_qp_wr[64];
};

struct librdmacm_private {
	const struct librdmacm_device *device; /* NULL: not bound */
	uint8_t sync[120]; /* each byte is 1 */
};

struct device {
	LIST_ENTRY(device) link; /* devices, in device.c */
	pid_t pid; /* of the process that opened it */
	struct ibv_context *verbs;
	struct rdmabroker *session; /* the session that opened it */
	struct ibv_pd *pd; /* NULL: no id needs it yet */
	struct ibv_xrcd *xrcd; /* NULL: not needed yet */
	unsigned n_users; /* ids, and lists of rdma_get_devices() */
	uint8_t max_responder_resources, max_initiator_depth;
	struct librdmacm_device for_librdmacm;
	struct port ports[PORTS_MAX];
};

/* A session, and who has opened it: for the broker, that process and user are its client as long as it exists. */
struct session {
	struct rdmabroker *broker;
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

struct channel {
	struct rdma_event_channel public;
	struct session session;
	bool sync; /* it was made for a sync id; requests of a sync listener are on it until they get their own */
	pthread_mutex_t lock;
	LIST_HEAD(, id) ids;
	bool lost; /* the broker is gone */
	bool closed;
	unsigned n_inside; /* threads after channel_enter(); the last one frees a closed channel */
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
	struct librdmacm_private private; /* directly after PUBLIC */
	LIST_ENTRY(id) link; /* channel.ids */
	struct rdmabroker_id *handle; /* NULL: its channel is gone */
	bool sync; /* its calls wait for their outcomes, and its channel ends with it */
	struct device *device; /* NULL: not bound */
	bool connected; /* ESTABLISHED was reported, DISCONNECTED was not */
	/* Confirming the connection failed, and CONNECT_ERROR was reported: drop REJECTED and DISCONNECTED. */
	bool connect_error;
	/*
	 * rdma_connect() or rdma_accept() has returned, and no event has reported the outcome: perhaps the broker has not yet
	 * looked for the QP
	 */
	bool offers_qp;
	bool told_lost; /* the event that reports the loss of the broker was taken */
	uint8_t responder_resources,
		initiator_depth; /* what the peer has requested; 255: it has not yet */
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	void *connect_data; /* of rdma_addrinfo: precedes the program's private data */
	size_t connect_len;
	struct ibv_qp_init_attr *request_qp; /* for the QPs of new connections; NULL: none */

	pthread_mutex_t lock;
	bool looks_up; /* since rdma_resolve_addrinfo(), until the program has taken what was found */
	struct rdma_addrinfo *found; /* NULL: nothing yet */
	pthread_cond_t acked;
	unsigned n_reported, n_acked; /* events; id_destroy() waits until the counts are equal */
	LIST_HEAD(, join) joins;
};

static_assert(offsetof(struct id, private) == sizeof(struct rdma_cm_id),
	      "librdmacm has its private members directly after the public struct");

struct cm_event {
	struct rdma_cm_event public;
	struct rdmabroker_event *event; /* owns the private data of PUBLIC; NULL: none */
	struct id *id; /* counts the event; for a CONNECT_REQUEST the listener */
	struct join *join; /* counts the event too; NULL: none */
};

static inline int fail(int error)
{
	errno = error;
	return -1;
}

/* IPv4, IPv6 or AF_IB */
static inline bool is_address(const struct sockaddr *addr)
{
	return addr && addr_len(addr) > 0;
}

static inline struct id *to_id(struct rdma_cm_id *id)
{
	return container_of(id, struct id, public);
}

static inline struct channel *to_channel(struct rdma_event_channel *channel)
{
	return container_of(channel, struct channel, public);
}

/* The same as FORWARD() for a call about an id; else the id needs a handle. */
#define FORWARD_ID(call, public, ...)                 \
	do {                                          \
		FORWARD(call, public, ##__VA_ARGS__); \
		if (!to_id(public)->handle)           \
			return fail(EBADF);           \
	} while (0)

static inline bool id_is_datagram(const struct id *id)
{
	return id->public.qp_type == IBV_QPT_UD;
}

/* bound.c */
bool bound_is_own(const void *function); /* FUNCTION, which can be NULL, is one of the drop-in's */
/* Whether all calls of the rsockets in LIBRDMACM, a handle of dlopen(), come to the drop-in. */
bool bound_rsockets(void *librdmacm);

/* report.c */

/*
 * Converts R to the result of a librdmacm call: -1 with errno if R is a negative errno, else 0. WHAT is for
 * RDMABROKER_DEBUG.
 */
int report_result(const char *what, int r);
/* The text of librdmabroker's last failure, with the rule that decided. Valid until the thread calls this again. */
const char *report_failure(void);
/* Prints why EVENT reports a failure, if it does and RDMABROKER_DEBUG is set. */
void report_event(const struct rdmabroker_event *event);
/* Prints a line to stderr, if the environment variable RDMABROKER_DEBUG is set. */
__attribute__((format(printf, 1, 2))) void report_debug(const char *fmt, ...);
/*
 * Prints a line to stderr, but only once in a process, so that retries do not fill a log. RDMABROKER_QUIET in the
 * environment suppresses the line.
 */
__attribute__((format(printf, 1, 2))) void report_once(const char *fmt, ...);

/* broker.c */

/*
 * Called first in API calls that have no object yet: decides between the broker and librdmacm. 0, or -1 with errno.
 */
int broker_start(void);
/* Opens a session. 0, or -1 with the errno that librdmacm sets in a similar case. */
int broker_open(struct session *ret);
/* Like broker_open(), but takes a session of this process and user that broker_keep() has kept, if there is one. */
int broker_reuse(struct session *ret);
/* Keep SESSION, which has no ids and no device. If enough sessions are kept, it is closed. */
void broker_keep(const struct session *session);
/*
 * The process's own session, for devices, which belong to no channel; opened if necessary. LOST: a session whose
 * broker is gone, and that is replaced; or NULL. Returns NULL with errno on failure.
 */
struct rdmabroker *broker_get_session(const struct rdmabroker *lost);
/*
 * At the start of a program that perhaps does not use RDMA: opens the process's own session with leases of all devices that
 * policy allows, or leaves nothing. Gives up a broker that answers nothing for 100 ms, and prints nothing.
 */
void broker_lend_at_start(void);
/* Like broker_get_session(NULL), but prints no error, and does not fall back to librdmacm. */
struct rdmabroker *broker_try(void);
/*
 * Whether the connections of rsockets go to the broker. They do not if RDMABROKER_RSOCKETS is `direct`, or if the broker does
 * not answer and RDMABROKER_FALLBACK lets librdmacm do without. Prints no error.
 */
bool broker_has_rsockets(void);
bool broker_can_be_bypassed(void); /* the user may open rdma_cm */
void broker_begin_in_child(void);
void broker_end(void); /* the program unloads the drop-in: closes the sessions */

/* device.c: 0, or a negative errno */
int device_get(const char *name, struct device **ret);
void device_put(struct device *device);
/*
 * Close removed devices without users, because the kernel waits for this. Not called when the last user goes: the
 * program can still have objects on the device.
 */
void devices_sweep(void);
/*
 * Makes the broker lend device NAME to this process, or all devices that policy allows if NAME is NULL. The devices are not
 * opened, so that the process does not keep them from being removed. Prints no error.
 */
int device_lend(const char *name);
int device_get_port(struct device *device, uint8_t number, struct port *ret);
struct ibv_xrcd *device_get_xrcd(struct device *device); /* NULL with errno */
void devices_begin_in_child(void);
void devices_end(void); /* closes those without users */

/* channel.c */
struct channel *channel_new(bool sync); /* NULL with errno */
void channel_free(struct channel *channel);
/*
 * Called before and after all work on events. In between the channel is not freed, and is locked except in
 * channel_wait(). channel_enter() of a closed channel does not return.
 */
void channel_enter(struct channel *channel);
void channel_leave(struct channel *channel);
/*
 * Wait, with the channel unlocked, until there may be an event. 0, or a negative errno. A thread that is cancelled
 * here leaves the channel first. If the channel is closed during the wait, this function does not return.
 */
int channel_wait(struct channel *channel);
void channels_begin_in_child(void);
void channels_end(void);

/* join.c */
/* FLAGS: of enum rdma_cm_mc_join_flags. NULL: no memory. */
struct join *join_new(const struct sockaddr *addr, uint32_t flags, void *context);
void joins_free(struct id *id);
struct join *join_find(struct id *id, const struct sockaddr *addr); /* NULL: there is none */
/*
 * Attach the id's QP to the joined group, unless there is no QP or the join is send only. 0, or a negative errno: the
 * QP could not be attached.
 */
int join_attach(struct join *join, struct id *id, const struct rdmabroker_ud_param *ud);
void join_detach(struct join *join, struct id *id); /* does nothing if no QP is attached */
/* Wait until the program has acked the events of JOIN, which was removed from the id's list. */
void join_await_acks(const struct join *join, struct id *id);

/* idlife.c */
int id_new(struct channel *channel, struct id **ret, void *context, enum rdma_port_space ps,
	   enum ibv_qp_type qp_type); /* CHANNEL NULL: sync. 0, or -1 with errno */
/* Create the id of a connection request. The channel is locked. NULL with errno: the caller still owns HANDLE. */
struct id *id_new_request(struct id *listener, struct rdmabroker_id *handle);
/* Destroy an id that the program has not got yet. The channel is locked. */
void id_discard(struct id *id);
/* Destroy an id that the program has got. Waits until the program has acked the id's events. */
void id_destroy(struct id *id);
/* Copy the addresses and the device from the handle to the public id. 0, or a negative errno. */
int id_learn(struct id *id);
/*
 * Migrate ID to channel TO, and wait until the program has acked the id's earlier events. TO NULL: make ID sync, with
 * its own channel. 0, or -1 with errno.
 */
int id_migrate(struct id *id, struct channel *to);
/* Count an event that the program is about to get. */
void id_count_event(struct cm_event *event);
/* Free librdmabroker's event, and count the event as acked. */
void id_settle_event(struct cm_event *event);
/* Settle the event, and free it. */
void id_ack_event(struct rdma_cm_event *event);
/* Ack the event that a sync id keeps, if there is one. */
void id_ack_own_event(struct id *id);

/* route.c */
void route_learn_gids(struct id *id);
/* EVENT: ROUTE_RESOLVED, or the CONNECT_REQUEST of ID. */
void route_learn_paths(struct id *id, const struct rdmabroker_event *event);

/* qp.c: 0, or a negative errno. */
/* Without a QP the first two functions do nothing. The numbers are those of rdmabroker_move_qp(). */
int qp_to_rts(struct id *id, int responder_resources, int initiator_depth);
int qp_to_error(struct id *id);
/* The peer accepted: move the QP, which the id must have, and confirm. On failure the QP is moved to ERR. */
int qp_on_response(struct id *id, const struct ibv_ece *ece);

/* event.c */
/* If ID is sync: wait for the outcome, and keep it in public.event. 0, or -1 with errno. */
int event_await_outcome(struct id *id);
