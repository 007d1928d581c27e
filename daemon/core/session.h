/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session: one client's ids and leases. It can exist on a host that has no RDMA device yet. */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/failure.h"
#include "core/identity.h"
#include "core/table.h"
#include "util/account.h"
#include "util/handles.h"
#include "util/list.h"
#include "util/log.h"

struct id;
struct lease;
struct notice;
struct session;
struct unit_lookup;
struct watch;

/* The kinds of requests that a session may make. Set by session_greet(). */
enum session_permit {
	SESSION_PERMIT_CLIENT = 1 << 0, /* ids and devices: policy operation "session" */
	/* Changing others: policy operation "admin"; root and the daemon's own user always have it. */
	SESSION_PERMIT_ADMIN = 1 << 1,
	SESSION_PERMIT_OBSERVE = 1 << 2, /* seeing others: policy operation "observe"; all admins */
};

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* 0: not set */
};

struct session_event {
	struct id *id;
	struct id *request; /* CONNECT_REQUEST: the new id */
	const struct fabric_event *fabric; /* NULL: the event is the broker's own */
	int status;
	enum rdma_cm_event_type type;
	struct qp_attr init, rtr, rts; /* for the client's next steps */
	const struct failure *failure; /* the broker's refusal; NULL: none */
	const struct sockaddr *group; /* MULTICAST_JOIN, MULTICAST_ERROR; else NULL */
	const struct policy_settings *caps; /* limits of the connection parameters; NULL: none */
	bool quiet; /* not sent to the client, which has requested the next step already */
	bool with_info; /* carries the id's addresses, device and port */
};

struct session_ops {
	/* Must not free the session. */
	void (*event)(void *userdata, const struct session_event *event);
	/*
	 * ID is being freed while some of its events wait to be sent (id.events). May be called while the
	 * session ends.
	 */
	void (*forget)(void *userdata, struct id *id);
	/* Policy or an admin ends the session: it is to be freed, but not from within this call. */
	void (*end)(void *userdata, const char *why);
	/*
	 * The request that ended in -EINPROGRESS can be repeated; it is decided anew. Must not be repeated
	 * from within this call.
	 */
	void (*resume)(void *userdata);
	/*
	 * A notice for a session that watches. Must not free the session, nor end it because its client does
	 * not read.
	 */
	void (*notice)(void *userdata, const struct notice *notice);
};

struct session {
	struct core *core;
	struct list link; /* core.sessions */
	uint64_t number; /* shown to users and in logs */
	struct identity identity;
	unsigned permits;
	const struct session_ops *ops;
	void *userdata;

	struct handles ids; /* numbered by the client */
	struct handles requests; /* numbered here, from SESSION_FIRST_REQUEST on */
	struct list leases; /* lease.link, see lease.c */
	struct lease *opening; /* the lease that its request waits for; NULL: none */
	struct list
		waiting; /* waits.sessions or control.reloading, while its request waits for that */
	struct wait wait; /* of its last request that had to wait for the fabric */
	bool unit_asked;
	struct unit_lookup *unit_lookup; /* NULL: none is under way */
	struct charge charge;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when it began */
	struct policy *policy; /* of RULE; NULL: no rule has admitted it */
	const struct policy_rule *rule;
	struct charge fds; /* for its pidfd; the caller charges its socket */
	struct admitted admitted;
	uint64_t
		last_request; /* number of the one that is being carried out, from 1; 0: none was */
	struct watch *watch; /* NULL: it does not watch */
	char end_reason[96]; /* why it ends; empty: its client has gone */
	bool ending; /* its ids are being freed */
	struct table_walk walk; /* used by session_end() and by enforce.c */
	struct list enforcing; /* core.enforcing, until policy has decided about all of it */
};

/* A new request of the session begins. */
void session_begin_request(struct session *session);
/* Its request waits: it is resumed with all others on the list WAITING. */
void session_wait(struct session *session, struct list *waiting);
void session_count_refusal(struct session *session, enum status status);
/* Resumes the requests of all sessions on the list WAITING, which links session.waiting. */
void session_resume_all(struct list *waiting);

/*
 * The session of the client at the other end of SOCK. It may do nothing before session_greet(). 0 or a
 * negative errno.
 */
int session_new(struct session **ret, struct core *core, int sock, const struct session_ops *ops,
		void *userdata);
/* Frees all its ids and leases too. */
struct session *session_free(struct session *session);
/* Ends the session, and frees at most MAX of its ids now. True: none is left. */
bool session_end(struct session *session, unsigned max);

/*
 * Looks up the client's systemd unit, which rules can name, if its process is known. Returns 0; -EINPROGRESS,
 * then the session is charged to its user; STATUS_QUOTA; or another negative errno.
 */
int session_find_unit(struct session *session, struct failure *failure);
/*
 * Decides what the session may do, and charges it to its user. Returns 0; STATUS_DENIED, STATUS_BUSY or
 * STATUS_QUOTA: it may do nothing; or a negative errno.
 */
int session_greet(struct session *session, struct failure *failure);
/*
 * The permits ADMIN and OBSERVE, as far as policy gives them now. They need no rule for sessions: admins and observers
 * must always get in. COUNTS: the decision counts and is reported, as one that the client has asked for.
 */
unsigned session_permits_over_others(struct session *session, bool counts);
/*
 * Sets the reason that sessions which watch will see when this one is freed. Not called if the client has
 * just disconnected.
 */
void session_set_end_reason(struct session *session, const char *why);

/* The rate limit for the next log line about the session's user. */
static inline struct ratelimit *session_log_limit(struct session *session)
{
	return core_log_limit(session->core, session->identity.uid, /* tally= */ NULL);
}

/* For rpc/, which knows nothing of the members: */

static inline struct core *session_get_core(const struct session *session)
{
	return session->core;
}

static inline uint64_t session_get_number(const struct session *session)
{
	return session->number;
}

static inline struct identity *session_get_identity(struct session *session)
{
	return &session->identity;
}

static inline uid_t session_get_uid(const struct session *session)
{
	return session->identity.uid;
}

static inline pid_t session_get_pid(const struct session *session)
{
	return session->identity.pid;
}

/* The name that its Hello has to prove, see identity_ask(). Empty: none requested. */
static inline const char *session_get_question(const struct session *session)
{
	return session->identity.question;
}

/* Empty: in none, or not known. */
static inline const char *session_get_unit(const struct session *session)
{
	return session->identity.unit ?: "";
}

static inline unsigned session_get_permits(const struct session *session)
{
	return session->permits;
}

/* CLOCK_MONOTONIC: when it began. */
static inline uint64_t session_get_since_ms(const struct session *session)
{
	return session->since_ms;
}

/* The rule that has admitted it; NULL: none. */
static inline const struct policy_rule *session_get_rule(const struct session *session)
{
	return session->rule;
}

static inline size_t session_count_ids(const struct session *session)
{
	return session->ids.n_used + session->requests.n_used;
}
