/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The library's inside. wire.c talks to the daemon, session.c is a session's life and its events, id.c
 * the calls on ids, device.c and qp.c what belongs to this process. Messages are seen by wire.c, id.c
 * and session.c; the public header knows none.
 *
 * Locking: session.lock guards everything in the session and the ids' list membership. What an id holds
 * (addresses, attributes, QP) is written by the thread that calls on it or takes its events.
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

#define FIRST_REQUEST 0x80000000u /* the daemon's numbers for ids start here */

/*
 * What a broker can make the library do has an end, in memory and in time, also if it lies. An honest one
 * stays far below all of these.
 */
#define IDS_MAX 1048576 /* own ids, and requests likewise: the most that IdsPerSession= can be */
#define EVENTS_BYTES_MAX (256 << 20) /* of events that the program does not take */
#define NOTICES_BYTES_MAX (32 << 20) /* likewise; what is past it is lost */
#define PAGES_BYTES_MAX (256 << 20) /* of an answer that comes in pages */
#define ROUNDS_MAX 6 /* a call of many rounds may take so many times call_timeout_ms */
#define DEVICES_MAX 64 /* in the list that the broker sends */
/*
 * Past its deadline a wait goes on for as long as packets are there, for what it waits for may be among
 * them; but not if they never end.
 */
#define GRACE_MS 500

struct call {
	TAILQ_ENTRY(call) link; /* rdmabroker.calls */
	uint32_t serial;
	const char *name;
	uint32_t handle; /* of the id that it is about; 0: none */
	bool waited; /* somebody waits, and owns this struct; else the receiver frees it */
	bool quiet; /* not waited: no event on success, for the outcome is an event of its own */
	bool silent; /* not waited: nobody wants to know at all */
	bool destroys; /* the answer frees HANDLE's number */
	/*
	 * Answered only where it fails. That it did not is known from the answer to a call that was sent later,
	 * or from an event.
	 */
	bool unanswered;
	bool answered; /* not waited: never unanswered */
	bool refused; /* waited, and failed */
	bool creates; /* HANDLE's id is made with it, and is not where it fails */
	bool listed; /* in rdmabroker.calls: no answer came yet */
	uint64_t order; /* of sending; 0: not sent yet */
	enum rdmabroker_event_type failure_type; /* not waited: the event that tells of a failure */
	bool done;
	Rdmabroker__Frame *frame; /* the reply, once done */
	const int *send_fd; /* goes with the request; NULL: none */
	int *ret_fd; /* gets the descriptor that comes with the reply; NULL: none is expected */
	bool imports; /* an id: its reply makes IMPORTED, or NO_IMPORT says why not */
	struct rdmabroker_id *imported;
	int no_import; /* negative errno */
};

/* An event as it came; what it does to the id is done when it is taken. */
struct raw_event {
	TAILQ_ENTRY(raw_event) link; /* rdmabroker.events */
	Rdmabroker__Frame *frame; /* NULL: made here, of the fields below */
	struct rdmabroker_id *id; /* NULL: destroyed meanwhile, REQUEST is an orphan */
	enum rdmabroker_event_type type;
	struct rdmabroker_id *request; /* CONNECT_REQUEST: made when it came */
	const char *call; /* DONE */
	int status; /* DONE */
	char *text; /* DONE */
};

TAILQ_HEAD(raw_events, raw_event);

/* What a session that watches was told. */
struct notice {
	struct rdmabroker_notice public;
	TAILQ_ENTRY(notice) link; /* rdmabroker.notices */
	Rdmabroker__Frame *frame; /* that PUBLIC points into; NULL: made here */
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

/* What policy caps of the program's wishes; -1: it does not. */
struct caps {
	int responder_resources, initiator_depth, retry_count, rnr_retry_count;
};

/* A multicast group that an id has joined, or is joining. */
struct join {
	LIST_ENTRY(join) link; /* rdmabroker_id.joins */
	struct sockaddr_storage addr;
	void *context;
	bool send_only;
	bool attached; /* the id's QP is, to what follows */
	union ibv_gid mgid;
	uint16_t mlid;
};

/* Open once in a session. It outlives the session while ids use it that have moved to another one. */
struct device {
	LIST_ENTRY(device) link; /* rdmabroker.devices */
	struct rdmabroker *session; /* NULL: closed */
	pid_t pid; /* of the process that opened it */
	char *name;
	struct ibv_context *context;
	struct ibv_pd *pd; /* that ids share; NULL: not needed yet */
	unsigned n_opens; /* by the program, and by ids of the session */
	unsigned n_guests; /* by ids that were the session's */
	int max_responder_resources, max_initiator_depth; /* -1: not asked for yet */
	struct qp_attr
		init; /* of the last QP for connections that was made there; mask 0: none was */
};

struct rdmabroker_id {
	struct rdmabroker *session;
	uint32_t handle;
	bool is_new; /* the broker has not heard of it: the next request says so; session.lock */
	enum rdmabroker_port_space ps;
	void *context;
	struct sockaddr_storage local, peer;
	char device_name[64]; /* empty: not bound to a device */
	struct device *device; /* opened for this id, or NULL */

	struct ibv_qp *qp;
	bool own_qp; /* made by the library */
	struct qp_attr in_init; /* what the QP was last moved to INIT with; mask 0: it was not */
	struct qp_attr init, rtr, rts; /* as the last event told them */
	uint8_t request_responder_resources, request_initiator_depth;
	struct caps caps;
	/* What it takes to make the id anew, see renew.c: */
	int options[4]; /* by enum rdmabroker_option; -1: not set */
	bool listening;
	bool disconnected; /* and the broker has said all there is to say to the peer; session.lock */
	unsigned n_digesting; /* threads that work on events of it; session.lock */
	bool bound; /* to its local address, by the program's wish */
	struct sockaddr_storage src; /* of resolve_addr; ss_family 0: none */
	unsigned
		renews; /* enum renew as bits: these rejects are not the end, the QP is left as it is */

	struct event *reject; /* that ended connect_wait */
	struct event *response; /* with which it succeeded */
	struct event *request; /* that brought it, by get_request or import */
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	LIST_HEAD(, join) joins;
};

static inline bool id_is_datagram(const struct rdmabroker_id *id)
{
	return id->ps == RDMABROKER_PS_UDP || id->ps == RDMABROKER_PS_IPOIB;
}

struct ids {
	/* [number - 1]; NULL: free; DYING: destroyed, not answered yet */
	struct rdmabroker_id **ids;
	uint32_t n;
	uint32_t n_full; /* so many from the beginning are not free */
};

struct rdmabroker {
	pid_t pid; /* of the process that opened it */
	unsigned flags;
	int call_timeout_ms;
	uint32_t max_ids;

	pthread_mutex_t lock;
	pthread_cond_t cond; /* something was received, or the reader's place is free */
	bool reading; /* a thread polls the socket, without the lock */
	unsigned n_waiting; /* threads that wait for the answer to a call */

	int sock;
	int signal; /* eventfd: readable while events wait */
	bool signalled;
	int epoll; /* both: the descriptor that programs see */
	bool polled; /* a program has it: till then it need not tell the truth */
	int dead; /* negative errno: the connection is lost, and why */
	bool lost_taken;

	uint32_t serial;
	uint64_t n_sent;
	TAILQ_HEAD(, call) calls;
	unsigned n_unanswered; /* of the calls */
	struct raw_events events;
	size_t events_bytes;
	unsigned n_orphans; /* of the events: requests whose listener is gone */
	bool watching; /* notices are wanted */
	struct notices notices;
	unsigned n_notices; /* that wait */
	size_t notices_bytes;
	uint64_t n_lost_notices; /* since the last one that waits, for want of room here */
	struct ids ids, requests;
	LIST_HEAD(, device) devices;
};

extern struct rdmabroker_id *const DYING;

/* pages.c: an answer that is asked for in several requests. All of it has one deadline, and one limit. */
struct pages {
	const char *name; /* of the call */
	int64_t deadline;
	size_t n_bytes; /* that came so far */
};
void pages_init(struct pages *pages, struct rdmabroker *session, const char *name);
/* The next one. *RET is the caller's to free. */
int pages_get(struct pages *pages, struct rdmabroker *session, Rdmabroker__Request *request,
	      Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* -EPROTO: the next page would begin where this one did. */
int pages_fail(const struct pages *pages);
/* FRAME is put behind the N that there are, or freed. NULL: no memory, and FRAMES is as it was. */
Rdmabroker__Frame **pages_keep(Rdmabroker__Frame **frames, size_t n, Rdmabroker__Frame *frame);

/* A request of which FIELD is the message, on the stack. */
#define REQUEST(var, FIELD, field, message)                  \
	Rdmabroker__Request var = RDMABROKER__REQUEST__INIT; \
	var.op_case = RDMABROKER__REQUEST__OP_##FIELD;       \
	var.field = (message)

/* wire.c: requests. REQUEST's serial is filled in. */

/* Send and wait for the answer, at most TIMEOUT_MS. *RET (may be NULL) is the caller's to free. */
int wire_call(struct rdmabroker *session, const char *name, uint32_t handle,
	      Rdmabroker__Request *request, int timeout_ms, Rdmabroker__Frame **ret);
/* The same with the session's timeout, for an answer of kind RESULT: another one is -EPROTO. */
int wire_call_for(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		  Rdmabroker__Reply__ResultCase result, Rdmabroker__Frame **ret);
/* The same within TIMEOUT_MS. */
int wire_call_within(struct rdmabroker *session, const char *name, Rdmabroker__Request *request,
		     Rdmabroker__Reply__ResultCase result, int timeout_ms, Rdmabroker__Frame **ret);
/* wire_call() for a call that has more to say in LIKE. */
int wire_call_like(struct rdmabroker *session, struct call *like, Rdmabroker__Request *request,
		   int timeout_ms, Rdmabroker__Frame **ret);
/* As the session's mode says: wait, or leave the answer to an event. QUIET as in struct call. */
int wire_do(struct rdmabroker *session, const char *name, uint32_t handle,
	    Rdmabroker__Request *request, bool quiet, Rdmabroker__Frame **ret);
/* Send; the answer is dealt with as LIKE says. */
int wire_post(struct rdmabroker *session, const struct call *like, Rdmabroker__Request *request,
	      int timeout_ms);
/*
 * Send; the outcome is an event, or a failure that wire_end() returns. CALL is the caller's, and is in use
 * until then.
 */
int wire_begin(struct rdmabroker *session, struct call *call, const char *name, uint32_t handle,
	       Rdmabroker__Request *request, int timeout_ms);
/* Lock held. 0: no failure has come. */
int wire_end(struct rdmabroker *session, struct call *call);
/* The broker has given HANDLE to another id: it was destroyed, if nobody has said so. Lock held. */
void wire_handle_is_free(struct rdmabroker *session, uint32_t handle);
/* Receive the next packet, or wait for one until DEADLINE. Lock held. -ETIMEDOUT, or the session's death. */
int wire_pump(struct rdmabroker *session, int64_t deadline);
/* Whether a wait ends without its result. LOOKED: nothing more was there to be received. */
bool wire_is_past(int64_t deadline, bool looked);
/* All that is here already. Lock held. */
void wire_drain(struct rdmabroker *session);
/* The program polls the session's descriptor from now on. Lock held. */
void wire_be_polled(struct rdmabroker *session);
/* The session cannot go on, for R. Not under the lock. */
void wire_lose(struct rdmabroker *session, int r);
/* -ECONNRESET where the broker is gone, or 0. Lock held. */
int wire_check(struct rdmabroker *session);
/* -EPERM in a child of the process that opened the session: before the lock, whose state it inherited. */
int wire_check_process(const struct rdmabroker *session);

/*
 * session.c: what wire.c hands over, FRAME with it. Lock held. A negative errno: the session cannot go on,
 * for something would be missing that somebody may wait for, or the broker is none.
 */
int session_on_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
int session_on_reply(struct rdmabroker *session, struct call *call, Rdmabroker__Frame *frame);
/* Of a call that nobody waits for and nobody answers. */
void session_on_success(struct rdmabroker *session, struct call *call);
/*
 * In the place of pthread's own: whenever the lock is free, the session's descriptor tells whether
 * something waits to be taken, once a program has it.
 */
void session_unlock(struct rdmabroker *session);
void session_wait(struct rdmabroker *session);
int session_wait_until(struct rdmabroker *session, const struct timespec *deadline);
struct rdmabroker_id *session_forget_id(struct rdmabroker *session, struct rdmabroker_id *id);
/*
 * ID is what MOVED, just imported, stands for: it takes its place in MOVED's session, with its events.
 * Returns the number that it had, which the broker is to be told of.
 */
uint32_t session_adopt(struct rdmabroker_id *id, struct rdmabroker_id *moved);
/* Not under the lock. Requests that came for a listener that is gone: the broker is told to reject them. */
void session_destroy_orphans(struct rdmabroker *session);
/*
 * Not under the lock. Take the first event of ID that is in TYPES (bits), or any if ID is NULL; wait until
 * DEADLINE, or until CALL, of wire_begin(), has failed; it ends here (NULL: there is none).
 */
int session_take(struct rdmabroker *session, struct rdmabroker_id *id, uint64_t types,
		 int64_t deadline, struct call *call, struct event **ret);

/* ids.c: numbers */
int ids_add(struct ids *ids, struct rdmabroker_id *id, uint32_t max, uint32_t *ret);
bool ids_have_dying(const struct ids *ids);
void ids_free(struct rdmabroker *session, uint32_t handle);
struct rdmabroker_id **session_find_id(struct rdmabroker *session, uint32_t handle);
struct rdmabroker_id *ids_find_living(struct rdmabroker *session, uint32_t handle);

#define BIT(type) (1ULL << RDMABROKER_EVENT_##type)

/*
 * Wait for the outcome of CALL: 0 with one of GOOD (bits), else what a BAD one or the call's failure means.
 * Other events of the id stay where they are.
 */
int id_await(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
	     int64_t deadline);
/* The same; *RET is the event, good or bad, and the caller's; NULL: none came. */
int id_await_one(struct rdmabroker_id *id, struct call *call, uint64_t good, uint64_t bad,
		 int64_t deadline, struct event **ret);

/* What is said to connect, and to resolve: the messages with what they point to. */
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

/* event.c: what a raw event does when it is taken. NULL: out of memory. */
struct event *event_digest(struct raw_event *raw);
void event_set_text(struct event *event, const char *text);

/* watch.c. Lock held; FRAME is handed over, and a notice that has no room is lost. */
void watch_on_notice(struct rdmabroker *session, Rdmabroker__Frame *frame);
void watch_drop_all(struct rdmabroker *session);

/* group.c */
void join_on_event(struct rdmabroker_id *id, const Rdmabroker__Event *in, struct event *event);
void joins_free(struct rdmabroker_id *id);
void joins_detach(struct rdmabroker_id *id); /* its QP from their groups */

/* renew.c: a connect that is tried again */
enum renew {
	RENEW_STALE = 1 << 0,
	RENEW_BUSY = 1 << 1,
};
unsigned renews_allowed(const struct rdmabroker_id *id, unsigned stale_tries);
bool renews_after(const struct rdmabroker_id *id, const struct rdmabroker_event *event);
/* After a connect that failed with R: when to try again, or -1: not. */
int renew_delay_ms(const struct rdmabroker_id *id, int r, unsigned *stale_tries);
/* The id, as it was before connect, with another id of the broker's. */
int id_renew(struct rdmabroker_id *id, int64_t deadline);
/* The id, as it was when it was made, with its options and nothing else. Returns R, with its failure. */
int id_start_over(struct rdmabroker_id *id, int r);

/* id.c */
int id_create(struct rdmabroker_id *id);
/* Give the number back: the broker's id is destroyed, ours is not. 0: do not wait for the broker's word. */
int id_give_up(struct rdmabroker_id *id, int timeout_ms);
void id_give_up_handle(struct rdmabroker *session, uint32_t handle);
int id_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
		   struct rdmabroker_id **ret);
void id_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info);
void id_free(struct rdmabroker_id *id); /* here only: nothing is sent */
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
/* What QPs of DEVICE need for INIT, as one of them was told. */
void device_learn_init(struct device *device, const struct qp_attr *init);
/* The device of CONTEXT, opened once more, if that is known of it; else NULL. */
struct device *device_get_learned(struct rdmabroker *session, const struct ibv_context *context,
				  struct qp_attr *ret);
/* By an id or a program of SESSION. */
void device_put(struct rdmabroker *session, struct device *device);
/* An id that has the device open is TO's now. */
void device_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to);
void devices_free(struct rdmabroker *session);

/* qp.c */
int qp_to_init(struct rdmabroker_id *id);
int qp_to_rts(struct rdmabroker_id *id, int responder_resources, int initiator_depth);
/* ECE of a QP that the library knows. A device that has none leaves them at vendor_id 0. */
int qp_set_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);
int qp_query_ece(struct rdmabroker_id *id, struct ibv_ece *ret);
void qp_to_error(struct rdmabroker_id *id);
/* What the QP's device can. */
int qp_get_limits(struct rdmabroker_id *id, int *ret_responder_resources, int *ret_initiator_depth);
