/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The library's internals. wire.c exchanges packets with the daemon, session.c opens and closes sessions and
 * queues their events, id.c has the calls on ids, device.c and qp.c handle devices and QPs of this process.
 * The public header has no protobuf types.
 *
 * Locking: wire.lock guards everything in the session, and its tables of ids. The members of an id
 * (addresses, attributes, QP) are written by the thread that calls on it or takes its events.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "client/failure.h"
#include "client/frame.h"
#include "client/rdmabroker.h"
#include "client/wire.h"
#include "proto/rdmabroker.pb-c.h"

#define FIRST_REQUEST 0x80000000u /* the daemon numbers the ids of connection requests from here */

/*
 * Limits of the memory and time that a broker can make the library use, even a faulty or hostile one. A
 * correct broker stays far below all of these.
 */
#define IDS_MAX 1048576 /* own ids, and ids of requests; also the maximum of IdsPerSession= */
#define EVENTS_BYTES_MAX (256 << 20) /* of events that the program does not take */
#define NOTICES_BYTES_MAX (32 << 20) /* likewise; further notices are lost */
#define PAGES_BYTES_MAX (256 << 20) /* of an answer that comes in pages */
#define DEVICES_MAX 64 /* in the list that the broker sends */
/* An event as received. It changes its id and QP only when the program takes it. */
struct raw_event {
	TAILQ_ENTRY(raw_event) link; /* rdmabroker.events */
	Rdmabroker__Frame *frame; /* NULL: made by the library, from the fields below */
	struct rdmabroker_id *id; /* NULL: the listener was destroyed, REQUEST is an orphan */
	enum rdmabroker_event_type type;
	struct rdmabroker_id *request; /* CONNECT_REQUEST: the new id, created on receipt */
	const char *call; /* DONE */
	int status; /* DONE */
	char *text; /* DONE */
};

TAILQ_HEAD(raw_events, raw_event);

/* A notice for a session that watches. */
struct notice {
	struct rdmabroker_notice public;
	TAILQ_ENTRY(notice) link; /* rdmabroker.notices */
	Rdmabroker__Frame *frame; /* PUBLIC points into it; NULL: made by the library */
};

TAILQ_HEAD(notices, notice);

struct event {
	struct rdmabroker_event public;
	uint8_t private_data[256];
	char text[256];
};

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* 0: not known */
};

/* Upper bounds that policy sets for the program's connection parameters; -1: none. */
struct caps {
	int responder_resources, initiator_depth, retry_count, rnr_retry_count;
};

/* A multicast group that an id has joined, or is joining. */
struct join {
	LIST_ENTRY(join) link; /* rdmabroker_id.joins */
	struct sockaddr_storage addr;
	void *context;
	bool send_only;
	bool attached; /* the id's QP is attached to MGID and MLID */
	union ibv_gid mgid;
	uint16_t mlid;
};

/* An open device; a session opens each device once. It outlives the session while migrated ids use it. */
struct device {
	LIST_ENTRY(device) link; /* rdmabroker.devices */
	struct rdmabroker *session; /* NULL: closed */
	pid_t pid; /* of the process that opened it */
	char *name;
	struct ibv_context *context;
	struct ibv_pd *pd; /* that ids share; NULL: not needed yet */
	unsigned n_opens; /* by the program, and by ids of the session */
	unsigned n_guests; /* ids that use it and were migrated from the session */
	int max_responder_resources, max_initiator_depth; /* -1: not queried yet */
	struct qp_attr
		init; /* INIT attributes of the last QP for connections; mask 0: there was none yet */
};

struct rdmabroker_id {
	struct rdmabroker *session;
	uint32_t handle;
	bool is_new; /* not created in the broker yet: the next request does it; wire.lock */
	enum rdmabroker_port_space ps;
	void *context;
	struct sockaddr_storage local, peer;
	char device_name[64]; /* empty: not bound to a device */
	struct device *device; /* opened for this id, or NULL */

	struct ibv_qp *qp;
	bool own_qp; /* created by the library */
	struct qp_attr in_init; /* with which the QP was last moved to INIT; mask 0: never */
	struct qp_attr init, rtr, rts; /* from the last event that had them; mask 0: not known */
	uint8_t request_responder_resources, request_initiator_depth;
	struct caps caps;
	/* OPTIONS, BOUND and SRC are needed to create the id again, see renew.c. */
	int options[4]; /* by enum rdmabroker_option; -1: not set */
	bool listening;
	bool disconnected; /* DISCONNECTED was taken: nothing more to send; wire.lock */
	unsigned n_digesting; /* threads that work on events of it; wire.lock */
	bool bound; /* by the program, with bind_addr */
	struct sockaddr_storage src; /* of resolve_addr; ss_family 0: none */
	unsigned
		renews; /* enum renew as bits: rejects after which connect is retried with the QP as it is */

	struct event *reject; /* that ended connect_wait */
	struct event *response; /* with which connect_wait succeeded */
	struct event *request; /* the CONNECT_REQUEST, from get_request or import */
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	LIST_HEAD(, join) joins;
};

static inline bool id_is_datagram(const struct rdmabroker_id *id)
{
	return id->ps == RDMABROKER_PS_UDP || id->ps == RDMABROKER_PS_IPOIB;
}

struct ids {
	/* [number - 1]; NULL: free; DYING: destroyed here, the broker has not answered yet */
	struct rdmabroker_id **ids;
	uint32_t n;
	uint32_t n_full; /* this many at the beginning are not free */
};

struct rdmabroker {
	struct wire wire;
	unsigned flags;
	uint32_t max_ids;
	bool lost_taken;

	struct raw_events events;
	size_t events_bytes;
	unsigned n_orphans; /* of EVENTS: connection requests whose listener was destroyed */
	bool watching; /* notices are wanted */
	struct notices notices;
	unsigned n_notices; /* in the queue */
	size_t notices_bytes;
	uint64_t n_lost_notices; /* dropped after the last one in the queue, which was full */
	struct ids ids, requests;
	LIST_HEAD(, device) devices;
};

extern struct rdmabroker_id *const DYING;

/* pages.c: an answer that takes several requests. The pages have a common deadline and size limit. */
struct pages {
	const char *name; /* of the call */
	int64_t deadline;
	size_t n_bytes; /* received so far */
};
void pages_init(struct pages *pages, struct rdmabroker *session, const char *name);
/* Get the next page. The caller has to free *RET. */
int pages_get(struct pages *pages, struct rdmabroker *session, Rdmabroker__Request *request,
	      Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* Returns -EPROTO: the next page would begin where this one did. */
int pages_fail(const struct pages *pages);
/* Append FRAME to the N that FRAMES has. NULL: out of memory; FRAME is freed then, FRAMES is unchanged. */
Rdmabroker__Frame **pages_keep(Rdmabroker__Frame **frames, size_t n, Rdmabroker__Frame *frame);

/* Declares a request on the stack, with MESSAGE as its FIELD. */
#define REQUEST(var, FIELD, field, message)                  \
	Rdmabroker__Request var = RDMABROKER__REQUEST__INIT; \
	var.op_case = RDMABROKER__REQUEST__OP_##FIELD;       \
	var.field = (message)

/*
 * idcall.c: requests about an id. They know whether the id is new, and create it in the broker by their first request.
 * Else they are as the functions of wire.h.
 */
int idcall_wait(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request,
		int timeout_ms, Rdmabroker__Frame **ret);
int idcall_wait_like(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		     int timeout_ms, Rdmabroker__Frame **ret);
/* The caller has to end CALL by wire_end(), unless this fails. */
int idcall_begin(struct rdmabroker_id *id, struct call *call, const char *name,
		 Rdmabroker__Request *request, int timeout_ms);
int idcall_post(struct rdmabroker_id *id, struct call *like, Rdmabroker__Request *request,
		int timeout_ms);
/* Wait for the answer or, with RDMABROKER_NONBLOCK, leave it to an event. QUIET as in struct call. */
int idcall_do(struct rdmabroker_id *id, const char *name, Rdmabroker__Request *request, bool quiet,
	      Rdmabroker__Frame **ret);

/* session.c: what is received. Lock held. */
extern const struct wire_ops session_wire_ops;
struct rdmabroker_id *session_forget_id(struct rdmabroker *session, struct rdmabroker_id *id);
/*
 * ID replaces MOVED, its just imported copy, in MOVED's session, and keeps its events. Returns the number that
 * ID had in its old session; the caller has to destroy it in the broker.
 */
uint32_t session_adopt(struct rdmabroker_id *id, struct rdmabroker_id *moved);
/* Not under the lock. Destroy connection requests whose listener is gone, so that the broker rejects them. */
void session_destroy_orphans(struct rdmabroker *session);
/*
 * Not under the lock. Take the first event of ID that is in TYPES (bits), or any event if ID is NULL. Wait until
 * DEADLINE, or until CALL has failed. CALL was begun by idcall_begin(), and is ended here (NULL: none).
 */
int session_take(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
		 int64_t deadline, struct call *call, struct event **ret);

/* ids.c: the tables of ids by number */
int ids_add(struct ids *ids, struct rdmabroker_id *id, uint32_t max, uint32_t *ret);
bool ids_have_dying(const struct ids *ids);
void ids_free(struct rdmabroker *session, uint32_t handle);
struct rdmabroker_id **session_find_id(struct rdmabroker *session, uint32_t handle);
struct rdmabroker_id *ids_find_living(struct rdmabroker *session, uint32_t handle);

#define BIT(type) (1ULL << RDMABROKER_EVENT_##type)

/*
 * Wait for the outcome of CALL: 0 for an event in GOOD (bits), else the error of an event in BAD or of the call's
 * failure. Other events of the id stay queued.
 */
int id_await(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
	     int64_t deadline);
/* The same; *RET is the event, in GOOD or in BAD, which the caller has to free; NULL: none came. */
int id_await_one(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		 int64_t deadline, struct event **ret);

/* The messages of connect and of resolve, with the parts that they point to. */
struct connect_message {
	Rdmabroker__Connect connect;
	Rdmabroker__ConnParam param;
	Rdmabroker__Ece ece;
};
int conn_fill_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
		      struct connect_message *ret);
struct resolve_message {
	Rdmabroker__Address src, dst;
};
/* M points into RET. */
int id_fill_resolve(struct rdmabroker_id *id, const char *name, const struct sockaddr *src,
		    const struct sockaddr *dst, int timeout_ms, Rdmabroker__ResolveAddr *m,
		    struct resolve_message *ret);

/* event.c: make the public event of RAW, and apply RAW to its id and QP. NULL: out of memory. */
struct event *event_digest(struct raw_event *raw);
void event_set_text(struct event *event, const char *text);

/* watch.c. Lock held; FRAME is handed over. If the queue is full the notice is lost. */
void watch_on_notice(struct rdmabroker *session, Rdmabroker__Frame *frame);
void watch_drop_all(struct rdmabroker *session);

/* group.c */
void join_on_event(struct rdmabroker_id *id, const Rdmabroker__Event *in, struct event *event);
void joins_free(struct rdmabroker_id *id);
void joins_detach(struct rdmabroker_id *id); /* the QP from its groups */

/* renew.c: retries of connect */
enum renew {
	RENEW_STALE = 1 << 0,
	RENEW_BUSY = 1 << 1,
};
unsigned renews_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
bool renews_after(const struct rdmabroker_id *id, const struct rdmabroker_event *event);
/* After a connect that failed with R: the delay before a retry; -1: do not retry. */
int renew_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/* Replace the broker's id by a new one in the state before connect: with options, and resolved. */
int id_renew(struct rdmabroker_id *id, int64_t deadline);
/* Reset the id to the state after its creation, with its options. Returns R, or the error of the reset. */
int id_start_over(struct rdmabroker_id *id, int r);

/* id.c */
int id_create(struct rdmabroker_id *id);
/* Destroy the broker's id and free its number, but keep ours. TIMEOUT_MS 0: do not wait for the broker's answer. */
int id_give_up(struct rdmabroker_id *id, int timeout_ms);
void id_give_up_handle(struct rdmabroker *session, uint32_t handle);
int id_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
		   struct rdmabroker_id **ret);
void id_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info);
void id_free(struct rdmabroker_id *id); /* sends nothing to the broker about the id */
int id_establish(struct rdmabroker_id *id);

/* convert.c */
/* RET points into ADDR. */
int out_address(Rdmabroker__Address *ret, const struct sockaddr *addr);
void out_conn_param(Rdmabroker__ConnParam *ret, const struct rdmabroker_conn_param *param);
void in_ah_attr(struct ibv_ah_attr *ret, const Rdmabroker__AhAttr *ah);
void in_caps(struct caps *ret, const Rdmabroker__Caps *caps); /* NULL: none */
void in_qp_attr(struct qp_attr *ret, const Rdmabroker__QpAttr *attr);

/* device.c */
int device_get(struct rdmabroker *session, const char *name, struct device **ret);
/* Remember the INIT attributes of a QP of DEVICE, for later QPs. */
void device_learn_init(struct device *device, const struct qp_attr *init);
/* If INIT attributes are known for the device of CONTEXT: that device, opened once more. Else NULL. */
struct device *device_get_learned(struct rdmabroker *session, const struct ibv_context *context,
				  struct qp_attr *ret);
/* Undo one open, by the program or an id. SESSION: which it belongs to. */
void device_put(struct rdmabroker *session, struct device *device);
/* An id that has the device open was migrated to session TO. */
void device_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to);
void devices_free(struct rdmabroker *session);

/* qp.c */
int qp_to_init(struct rdmabroker_id *id);
int qp_to_rts(struct rdmabroker_id *id, int responder_resources, int initiator_depth);
/* ECE options of the id's QP. If the device does not support ECE, vendor_id is 0. */
int qp_set_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);
int qp_query_ece(struct rdmabroker_id *id, struct ibv_ece *ret);
void qp_to_error(struct rdmabroker_id *id);
/* The limits of the QP's device. */
int qp_get_limits(struct rdmabroker_id *id, int *ret_responder_resources, int *ret_initiator_depth);
