/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session: a client's connection to the broker, with the client's ids and leases. */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/facts/door.h"
#include "core/facts/failure.h"
#include "core/facts/identity.h"
#include "core/object/core.h"
#include "core/object/table.h"
#include "core/object/wait.h"
#include "proto/handles.h"
#include "util/account.h"
#include "util/list.h"
#include "util/log.h"

struct id;
struct lease;
struct ledger_session;
struct notice;
struct published;
struct restriction;
struct session;
struct workload_lookup;
struct watch;

/* The kinds of requests that a session is allowed to make. */
enum session_permit {
	SESSION_PERMIT_CLIENT = 1 << 0, /* to use ids and devices: operation "session" of policy */
	/*
	 * to end sessions and ids, drain the broker and reload the policy: operation "admin"; clients of DOOR_ADMIN
	 * have this permit too
	 */
	SESSION_PERMIT_ADMIN = 1 << 1,
	/* to see the rules, the status and all sessions: operation "observe"; all admins have this permit too */
	SESSION_PERMIT_OBSERVE = 1 << 2,
	SESSION_PERMIT_PEERS =
		1 << 3, /* to answer who peers are: the user in Helper=, by DOOR_HELPER */
	/*
	 * The session has another permit, and policy allowed "session" when it began. Its first request that needs the
	 * permit CLIENT gets the decision; until then nothing is counted or reported, and no limit applies.
	 */
	SESSION_PERMIT_CLIENT_LATER = 1 << 4,
};

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* enum ibv_qp_attr_mask; 0: ATTR is not set */
};

struct session_event {
	struct id *id;
	struct id *request; /* the new id of a CONNECT_REQUEST, else NULL */
	const struct fabric_event *fabric; /* the fabric's event that led to this one; NULL: none */
	int status;
	enum rdma_cm_event_type type;
	struct qp_attr init, rtr, rts; /* QP attributes for the client's next steps */
	/* why the broker has refused a step or ended the id; NULL: it has not */
	const struct failure *failure;
	const struct sockaddr *group; /* of a MULTICAST_JOIN or MULTICAST_ERROR, else NULL */
	const struct policy_settings *caps; /* limits of the connection parameters; NULL: none */
	bool quiet; /* not sent to the client, only reported to the sessions that watch */
	bool with_info; /* the event has the id's addresses, device and port */
	bool routed; /* of ADDR_RESOLVED: the route is resolved too, see resolve_route.h */
};

struct session_ops {
	/* Sends EVENT to the client. The callee must not free the session. */
	void (*event)(void *userdata, const struct session_event *event);
	/* Makes the client's socket readable, though there is no event, see Wake in rdmabroker.proto. */
	void (*wake)(void *userdata);
	/* Drops ID's events that wait to be sent (id.events). Can be called while the session ends. */
	void (*forget)(void *userdata, struct id *id);
	/* Policy or an admin ends the session: the callee has to free it, but not from within this call. */
	void (*end)(void *userdata, const char *why);
	/*
	 * The request that returned -EINPROGRESS can be repeated: HANDLE is the id whose conn_is_looked_up() was true; 0: it
	 * waits for something else. The callee must not repeat it from within this call.
	 */
	void (*resume)(void *userdata, uint32_t handle);
	/*
	 * Sends NOTICE to the client. False: it is dropped, because the client does not read. A session that is ending
	 * gets none, which is true. The callee must not free the session, nor end it because the client does not read.
	 */
	bool (*notice)(void *userdata, const struct notice *notice);
};

struct session {
	struct core *core;
	struct list link; /* core.sessions */
	uint64_t number; /* identifies the session to users and in logs */
	struct identity identity;
	enum door door; /* where the client has connected */
	/* whoever sends adopt_session gets a session with the same restriction, and this one ends */
	bool released;
	struct restriction *restriction; /* NULL: none */
	struct published *published; /* rpc's: what the session has published; NULL: nothing */
	struct ledger_session *row; /* in the ledger; NULL: the session is not kept */
	unsigned permits;
	bool opened; /* its Hello has succeeded */
	/* number of the session by whose socket the client gets replies, see session_find_replies(); 0: its own */
	uint64_t replies_to;
	bool at_start; /* the request that is handled is one of a program's start, see Hello.at_start */
	bool confirms; /* the client itself replies to a peer's disconnect, see handshake.unconfirmed */
	bool lingers; /* the client has lost its socket, see linger.h */
	/* the client says goodbye before it closes its socket, and has not said it yet, see linger.h */
	bool keeps_leases;
	const struct session_ops *ops;
	void *userdata;

	struct handles ids; /* ids whose handle the client chose */
	/* ids whose handle the broker chose, from SESSION_FIRST_REQUEST on */
	struct handles requests;
	struct list leases; /* lease.link, see verbs/lease.c */
	unsigned n_leases;
	bool lends; /* the session is an instance's, which has requested access for others */
	struct lease *opening; /* the lease that the session's request waits for; NULL: none */
	/* in waits.sessions or control.reloading, while a request of the session waits */
	struct list waiting;
	struct wait wait;
	bool workload_asked;
	struct workload_lookup
		*workload_lookup; /* of the client's workload; NULL: none is pending */
	struct charge charge;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when the session began */
	struct policy *policy; /* the policy of RULE; NULL: no rule has admitted the session */
	const struct policy_rule *rule;
	/* for identity.pidfd; the caller of session_new() charges the socket */
	struct charge fds;
	struct admitted admitted;
	uint64_t n_requests; /* that have begun */
	uint64_t
		request; /* the number, from 1, of the one that is carried out or waits; 0: none yet */
	size_t n_examined; /* see session_take_examined() */
	struct watch *watch; /* NULL: none */
	bool serves; /* the session is the helper that answers inquiries, see inquiry.h */
	/* empty: no reason is known, for example because the client has disconnected */
	char end_reason[96];
	bool ending; /* the session's ids are being freed */
	struct table_walk walk; /* how far session_end() or enforce.c has come */
	/* in core.enforcing, until a new policy has decided about the session and its ids */
	struct list enforcing;
};

/* A request begins. Returns its number. */
uint64_t session_begin_request(struct session *session);
/* The request NUMBER, which has waited, goes on. */
void session_go_on_with(struct session *session, uint64_t number);
void session_count_refusal(struct session *session, enum status status);
/* Makes the session's request wait until session_resume_all() is called for the list WAITING. */
void session_wait(struct session *session, struct list *waiting);
void session_resume_all(struct list *waiting);

/*
 * What the next process of the daemon has to know of the session. To be called after each change. If the ledger has no
 * room for a session, the session ends with this process.
 */
void session_save(struct session *session);
/* Sets the names that ROW has, and that are not known yet. */
void session_load_workload(struct session *session, const struct ledger_session *row);
/* See session.keeps_leases. */
void session_set_keeps_leases(struct session *session, bool keeps);
/*
 * The client's session NUMBER gets the replies from now on. False: it is not a session of the same process, user and
 * restriction that gets its own replies.
 */
bool session_set_replies_to(struct session *session, uint64_t number);
/* The session by whose socket SESSION's client gets replies; NULL: it has ended. Only if session_is_apart(). */
struct session *session_find_replies(const struct session *session);
/* Sets the reason for the notice of SESSION's end, which the sessions that watch get. */
void session_set_end_reason(struct session *session, const char *why);

/* SUBJECT: LOG_ABOUT_*. */
static inline struct ratelimit *session_log_limit_about(struct session *session, uint64_t subject)
{
	return log_limits_get(&session->core->log_limits, session->identity.owner, subject);
}

static inline struct ratelimit *session_log_limit(struct session *session)
{
	return session_log_limit_about(session, LOG_ABOUT_OTHER);
}

/* Getters for rpc/, which does not access the members: */

static inline struct core *session_get_core(const struct session *session)
{
	return session->core;
}

static inline uint64_t session_get_number(const struct session *session)
{
	return session->number;
}

static inline uint64_t session_get_request(const struct session *session)
{
	return session->request;
}

static inline struct identity *session_get_identity(struct session *session)
{
	return &session->identity;
}

static inline uid_t session_get_uid(const struct session *session)
{
	return session->identity.uid;
}

static inline struct owner session_get_owner(const struct session *session)
{
	return session->identity.owner;
}

static inline pid_t session_get_pid(const struct session *session)
{
	return session->identity.pid;
}

/* See session.at_start. */
static inline void session_set_at_start(struct session *session, bool at_start)
{
	session->at_start = at_start;
}

static inline void session_set_confirms(struct session *session, bool confirms)
{
	session->confirms = confirms;
}

/* The session's decisions have cost N comparisons, see policy_verdict.n_examined. */
static inline void session_count_examined(struct session *session, size_t n)
{
	session->n_examined += n;
}

/* Comparisons of rules that are as much work as one small request, see rpc/turns.h. */
#define SESSION_COMPARISONS_OF_ONE 64

/* The session has caused as much work as N small requests, besides that of the requests themselves. */
static inline void session_count_work(struct session *session, size_t n)
{
	session_count_examined(session, n * SESSION_COMPARISONS_OF_ONE);
}

/* The number of comparisons since the last call. */
static inline size_t session_take_examined(struct session *session)
{
	size_t n = session->n_examined;

	session->n_examined = 0;
	return n;
}

/* See Hello.replies_to in rdmabroker.proto. */
static inline bool session_is_apart(const struct session *session)
{
	return session->replies_to != 0;
}

static inline void *session_get_userdata(const struct session *session)
{
	return session->userdata;
}

static inline void session_wake(struct session *session)
{
	session->ops->wake(session->userdata);
}

static inline bool session_lingers(const struct session *session)
{
	return session->lingers;
}

static inline bool session_is_released(const struct session *session)
{
	return session->released;
}

static inline struct restriction *session_get_restriction(const struct session *session)
{
	return session->restriction;
}

static inline struct published *session_get_published(const struct session *session)
{
	return session->published;
}

static inline void session_set_published(struct session *session, struct published *published)
{
	session->published = published;
}

/* See identity_ask(). Empty: no proof was requested. */
static inline const char *session_get_question(const struct session *session)
{
	return session->identity.question;
}

/* What the client belongs to. Empty: to none, or not known. */
static inline const char *session_get_workload(const struct session *session,
					       enum workload_name name)
{
	return session->identity.workload.names[name] ?: "";
}

/* NULL: the session is not kept. */
static inline struct ledger_session *session_get_row(const struct session *session)
{
	return session->row;
}

static inline unsigned session_get_permits(const struct session *session)
{
	return session->permits;
}

/* CLOCK_MONOTONIC: when the session began. */
static inline uint64_t session_get_since_ms(const struct session *session)
{
	return session->since_ms;
}

/* The rule that has admitted the session; NULL: none. */
static inline const struct policy_rule *session_get_rule(const struct session *session)
{
	return session->rule;
}

static inline size_t session_count_ids(const struct session *session)
{
	return session->ids.n_used + session->requests.n_used;
}
