/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The library's internals. wire.c exchanges packets with the daemon, session.c opens and closes sessions and
 * queues their events, id.c has the calls on ids, device.c and qp.c handle devices and QPs of this process.
 * The public header has no protobuf types.
 *
 * Locking: session.lock guards everything in the session, and its tables of ids. The members of an id
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
#define ROUNDS_MAX 6 /* a call with several requests may take this many times call_timeout_ms */
#define DEVICES_MAX 64 /* in the list that the broker sends */
/*
 * A wait goes on past its deadline as long as there are packets in the socket, for the one that it waits for
 * may be among them, but at most this long.
 */
#define GRACE_MS 500

struct call {
	TAILQ_ENTRY(call) link; /* rdmabroker.calls */
	uint32_t serial;
	const char *name;
	uint32_t handle; /* of the id that it is about; 0: none */
	bool waited; /* a thread waits, and owns this struct; else the receiver frees it */
	bool quiet; /* not waited: no DONE on success, because the outcome is another event */
	bool silent; /* not waited: no event, neither on success nor on failure */
	bool destroys; /* the answer frees HANDLE's number */
	/*
	 * The broker replies only on failure. Success is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool unanswered;
	bool answered; /* not waited: the broker has to reply on success too */
	bool refused; /* waited, and failed */
	bool creates; /* the request also creates HANDLE's id, unless it fails */
	bool listed; /* in rdmabroker.calls: no answer came yet */
	uint64_t order; /* of sending; 0: not sent yet */
	enum rdmabroker_event_type failure_type; /* not waited: the event that reports a failure */
	bool done;
	Rdmabroker__Frame *frame; /* the reply, once done */
	const int *send_fd; /* sent with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	bool imports; /* an id: its reply sets IMPORTED, or NO_IMPORT to the error */
	struct rdmabroker_id *imported;
	int no_import; /* negative errno */
};

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
	bool is_new; /* not created in the broker yet: the next request does it; session.lock */
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
	bool disconnected; /* DISCONNECTED was taken: nothing more to send; session.lock */
	unsigned n_digesting; /* threads that work on events of it; session.lock */
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
	pid_t pid; /* of the process that opened it */
	unsigned flags;
	int call_timeout_ms;
	uint32_t max_ids;

	pthread_mutex_t lock;
	pthread_cond_t cond; /* something was received, or no thread reads the socket any more */
	bool reading; /* a thread polls the socket, without the lock */
	unsigned n_waiting; /* threads that wait for the answer to a call */

	int sock;
	int signal; /* eventfd: readable while events wait */
	bool signalled;
	int epoll; /* of SOCK and SIGNAL: the descriptor that programs get */
	bool polled; /* a program has got EPOLL: until then SIGNAL is not kept up to date */
	int dead; /* negative errno, why the connection is lost; 0: it is not */
	bool lost_taken;

	uint32_t serial;
	uint64_t n_sent;
	TAILQ_HEAD(, call) calls;
	unsigned n_unanswered; /* of CALLS */
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

/* wire.c: requests. REQUEST's serial is filled in. */

/* Send, and wait for the answer, at most TIMEOUT_MS. RET may be NULL; the caller has to free *RET. */
int wire_call(struct rdmabroker *session, const char *name, uint32_t handle,
	      Rdmabroker__Request *request, int timeout_ms, Rdmabroker__Frame **ret);
/* The same with the session's timeout, for an answer of kind RESULT; any other kind is -EPROTO. */
int wire_call_for(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* The same as wire_call_for(), within TIMEOUT_MS. */
int wire_call_within(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret);
/* wire_call() with further members of LIKE set by the caller. LIKE is used for the call itself. */
int wire_call_like(struct rdmabroker *session, struct call *like, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret);
/* Wait for the answer or, with RDMABROKER_NONBLOCK, leave it to an event. QUIET as in struct call. */
int wire_do(struct rdmabroker *session, const char *name, uint32_t handle,
	    Rdmabroker__Request *request, bool quiet, Rdmabroker__Frame **ret);
/* Send without waiting; the answer is handled as the members of LIKE say. TIMEOUT_MS is for room in the socket. */
int wire_post(struct rdmabroker *session, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);
/*
 * Send; the outcome is an event, or a failure that wire_end() returns. The caller owns CALL, which has to stay
 * valid until wire_end().
 */
int wire_begin(struct rdmabroker *session, struct call *call, const char *name, uint32_t handle,
	       Rdmabroker__Request *request, int timeout_ms);
/* Lock held. 0: no failure has come. */
int wire_end(struct rdmabroker *session, struct call *call);
/* The broker uses HANDLE for a new id: so an unanswered destroy_id of the old one has succeeded. Lock held. */
void wire_handle_is_free(struct rdmabroker *session, uint32_t handle);
/* Receive the next packet, or wait for one until DEADLINE. Lock held. -ETIMEDOUT, or -ECONNRESET. */
int wire_pump(struct rdmabroker *session, int64_t deadline);
/* Whether a wait has to end without its result. LOOKED: the socket was found empty. */
bool wire_is_past(int64_t deadline, bool looked);
/* Receive the packets that the socket has already. Lock held. */
void wire_drain(struct rdmabroker *session);
/* The program polls the session's descriptor from now on. Lock held. */
void wire_be_polled(struct rdmabroker *session);
/* Give the session up because of R. Not under the lock. */
void wire_lose(struct rdmabroker *session, int r);
/* -ECONNRESET: the broker is gone; else 0. Lock held. */
int wire_check(struct rdmabroker *session);
/* -EPERM in a child of the process that opened the session. Call it before locking: the child's lock may be stuck. */
int wire_check_process(const struct rdmabroker *session);

/*
 * session.c: called by wire.c, which hands FRAME over. Lock held. A negative errno: the session cannot go on,
 * because a thread may wait for what was lost, or because the other end does not follow the protocol.
 */
int session_on_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
int session_on_reply(struct rdmabroker *session, struct call *call, Rdmabroker__Frame *frame);
/* For a call that no thread waits for, and that the broker did not answer because it succeeded. */
void session_on_success(struct rdmabroker *session, struct call *call);
/*
 * Use these instead of pthread's own: they keep the session's descriptor, once a program has it, readable
 * exactly while something waits to be taken.
 */
void session_unlock(struct rdmabroker *session);
void session_wait(struct rdmabroker *session);
int session_wait_until(struct rdmabroker *session, const struct timespec *deadline);
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
 * DEADLINE, or until CALL has failed. CALL was begun by wire_begin(), and is ended here (NULL: none).
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
