/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * librdmacm's calls over librdmabroker. One file a subject: broker.c decides who answers, the broker or
 * librdmacm itself, and real.c has the latter; channel.c, id.c, conn.c, qp.c, group.c, event.c and ep.c
 * are the calls by what they are about; device.c has the devices, that all of the process shares.
 *
 * Public structs are the first member of ours. An event channel is a session of the broker, and its fd
 * that session's.
 *
 * To the library every QP is the program's own, so that it can be any that librdmacm would take, and can
 * stay while its id moves to another channel.
 *
 * Locking: channel.lock is held while an event is taken, and while an id goes, comes, or loses its QP; so
 * that nobody works on an event whose id is gone. It guards the channel's list. Then comes id.lock, for the
 * count of events. Neither is held where a call waits for an outcome.
 */

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdmabroker.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "real.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/*
 * Around a call of librdmabroker. Programs cancel threads that are inside librdmacm (rping does); one that
 * ended there would leave the session's locks behind.
 */
#define BROKER(call)                                                            \
	({                                                                      \
		int cancel_state_;                                              \
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_); \
		__auto_type result_ = (call);                                   \
		pthread_setcancelstate(cancel_state_, NULL);                    \
		result_;                                                        \
	})

struct device {
	LIST_ENTRY(device) link; /* devices, in device.c */
	pid_t pid; /* whose it is */
	struct ibv_context *verbs;
	struct rdmabroker *session; /* that has it open */
	struct ibv_pd *pd; /* NULL: no id uses the device */
	struct ibv_xrcd *xrcd; /* NULL: not needed yet */
	unsigned n_users; /* ids, and lists that the program holds */
	uint8_t max_responder_resources, max_initiator_depth;
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
	bool attached; /* the QP is, to what follows */
	union ibv_gid mgid;
	uint16_t mlid;
	unsigned n_reported, n_acked;
};

struct id {
	struct rdma_cm_id public;
	LIST_ENTRY(id) link; /* channel.ids */
	struct rdmabroker_id *handle; /* NULL: its channel is gone */
	struct device *device; /* NULL: not bound to one */
	bool sync; /* the channel is its own, and each call waits for its outcome */
	bool connected; /* ESTABLISHED was reported, DISCONNECTED was not */
	bool connect_error; /* CONNECT_ERROR was reported: what follows from it is not */
	bool has_port; /* that somebody may want as soon as it is destroyed, which is waited for then */
	bool told_lost; /* its last event, when the broker was gone, was reported */
	uint8_t responder_resources, initiator_depth;
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	void *connect_data; /* of rdma_addrinfo: goes ahead of the program's in the request */
	size_t connect_len;
	struct ibv_qp_init_attr *request_qp; /* for the requests of rdma_get_request; NULL: none */

	pthread_mutex_t lock;
	pthread_cond_t acked;
	unsigned n_reported, n_acked; /* events; a destroy waits until they are the same */
	LIST_HEAD(, join) joins;
};

struct cm_event {
	struct rdma_cm_event public;
	struct rdmabroker_event *event; /* its private data is the public event's; NULL: none */
	struct id *id; /* whose count it is in; a request is in its listener's */
	struct join *join; /* and in this one's; or NULL */
};

/* -1 with errno for a negative errno, else 0: what librdmacm's calls return. WHAT is for RDMABROKER_DEBUG. */
int result(const char *what, int r);
static inline int fail(int error)
{
	errno = error;
	return -1;
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

/* broker.c */

/* Before anything else: from now on it is clear who answers. 0, or -1 with errno. */
int broker_start(void);
/* 0, or -1 with errno: as librdmacm gives where there is no rdma_cm. */
int broker_open(struct rdmabroker **ret);
/*
 * The process's own session, opened if need be, for what belongs to no channel. LOST: another one than
 * that, whose broker is gone; or NULL. NULL with errno.
 */
struct rdmabroker *broker_get_session(const struct rdmabroker *lost);
/* A line on stderr, if the environment variable RDMABROKER_DEBUG is set. */
__attribute__((format(printf, 1, 2))) void debug(const char *fmt, ...);

/* device.c: 0, or a negative errno */
int device_get(const char *name, struct device **ret);
void device_put(struct device *device);
/*
 * Close those that were removed and have no users: the kernel waits for that. Not as soon as the last user
 * is gone, for then programs still destroy what they made on them; when they begin something new.
 */
void devices_sweep(void);
/* All that SESSION is given, for programs that do not ask. */
void devices_open_all(struct rdmabroker *session);
struct ibv_xrcd *device_get_xrcd(struct device *device); /* NULL with errno */

/* channel.c */
struct channel *channel_new(void); /* NULL with errno */
void channel_free(struct channel *channel);
/* Around all work on events: the channel is locked, and does not go. */
void channel_enter(struct channel *channel);
void channel_leave(struct channel *channel);
/* Unlocked, until there may be an event. 0, or a negative errno. A thread that is cancelled has left. */
int channel_wait(struct channel *channel);

/* id.c */
size_t addr_size(const struct sockaddr *addr); /* 0: no address, or of no family that we know */
int id_new(struct channel *channel, struct id **ret, void *context, enum rdma_port_space ps,
	   enum ibv_qp_type qp_type); /* CHANNEL NULL: sync. 0, or -1 with errno */
/* Around a connect request. The channel is locked. NULL with errno; HANDLE stays the caller's then. */
struct id *id_new_request(struct id *listener, struct rdmabroker_id *handle);
/* Of which the program has not heard. The channel is locked. */
void id_discard(struct id *id);
/* What the broker told of addresses and device. 0, or a negative errno. */
int id_learn(struct id *id);
/* To a channel of its own, or to TO. 0, or -1 with errno. */
int id_migrate(struct id *id, struct channel *to);
/* In a sync id: wait for the outcome, and keep it in public.event. 0, or -1 with errno. */
int id_complete(struct id *id);

/* route.c */
void route_learn_gids(struct id *id);
void route_learn_path(struct id *id);

/* conn.c */
/* The peer accepted. 0, or a negative errno: the QP is in ERR then. */
int conn_on_response(struct id *id, const struct ibv_ece *ece);

/* qp.c: 0, or a negative errno. Without a QP they do nothing. */
int qp_to_rts(struct id *id, int responder_resources, int initiator_depth); /* negative: as told */
int qp_to_error(struct id *id);

/* group.c */
/* 0, or a negative errno: the QP could not be attached. */
int join_on_event(struct id *id, struct join *join, const struct rdmabroker_ud_param *ud);
void joins_free(struct id *id);
