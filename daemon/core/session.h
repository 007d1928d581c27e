/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session: one client's ids and leases. It can exist on a host that has no RDMA device yet. */

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/failure.h"
#include "core/identity.h"
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

/* What a session may ask for. Given by session_greet(). */
enum session_permit {
	SESSION_PERMIT_CLIENT = 1 << 0, /* ids and devices: policy operation "session" */
	/* Changing others: policy operation "admin"; always root and the daemon's own user. */
	SESSION_PERMIT_ADMIN = 1 << 1,
	SESSION_PERMIT_OBSERVE = 1 << 2, /* seeing others: policy operation "observe"; all admins */
};

#define SESSION_FIRST_REQUEST 0x80000000u

struct qp_attr {
	struct ibv_qp_attr attr;
	int mask; /* 0: not there */
};

struct session_event {
	struct id *id;
	struct id *request; /* CONNECT_REQUEST: the new id */
	const struct fabric_event *fabric;
	int status;
	enum rdma_cm_event_type type;
	struct qp_attr init, rtr, rts; /* what the client will want to know next */
	const struct failure *failure; /* where the broker refused, else NULL */
	const struct sockaddr *group; /* MULTICAST_JOIN, MULTICAST_ERROR; else NULL */
	const struct policy_settings *caps; /* of what the client may ask for; NULL: none */
	bool quiet; /* the client is not told: it has asked for what comes next */
	bool with_info; /* what the id is bound to goes with it */
};

struct session_ops {
	/* Must not free the session. */
	void (*event)(void *userdata, const struct session_event *event);
	/* ID is being freed, and some of its events wait to be sent: see id.events. May be called while SESSION ends. */
	void (*forget)(void *userdata, struct id *id);
	/* Policy does not want the session any more: it is to be freed, but not from within this call. */
	void (*end)(void *userdata, const char *why);
	/*
	 * A request that ended in -EINPROGRESS can be made again, with everything as it is then. Must not do so from
	 * within this call.
	 */
	void (*resume)(void *userdata);
	/* What a session that watches is told. Must not free it, nor fail it because it does not read. */
	void (*notice)(void *userdata, const struct notice *notice);
};

/* Over a session's ids, some now and some later. All zero: at its beginning. */
struct session_walk {
	uint32_t request, id; /* the last ones that were looked at */
};

struct session {
	struct core *core;
	struct list link; /* core.sessions */
	uint64_t number; /* for people and logs */
	struct identity identity;
	unsigned permits;
	const struct session_ops *ops;
	void *userdata;

	struct handles ids; /* numbered by the client */
	struct handles requests; /* numbered here, from SESSION_FIRST_REQUEST on */
	struct list leases; /* lease.link, see lease.c */
	struct lease *opening; /* its request waits for this one; NULL: for none */
	struct list
		waiting; /* waits.sessions or server.reloading, while its request waits for that */
	struct wait wait; /* for the fabric, of its last request that had to */
	uint64_t reload_ticket; /* of its request */
	bool makes_id; /* its request has to make its id first, and could not yet */
	bool unit_asked;
	struct unit_lookup *unit_lookup; /* NULL: none is under way */
	struct charge charge;
	uint64_t since_ms; /* CLOCK_MONOTONIC: when it came */
	struct policy *policy; /* of RULE; NULL: no rule has admitted it */
	const struct policy_rule *rule;
	struct charge fds; /* its process; its socket is the caller's */
	struct admitted admitted;
	struct failure failure; /* why the last request was refused */
	uint64_t
		last_request; /* number of the one that is being carried out, from 1; 0: none was */
	struct watch *watch; /* NULL: it does not watch */
	char end_reason[96]; /* why it ends; empty: its client has gone */
	bool ending; /* and its ids with it */
	struct session_walk walk; /* by who ends it, or asks policy about all it has */
	struct list enforcing; /* core.enforcing, until policy was asked about all of it */
};

/* The requests of all that are on the list WAITING, by session.waiting, can be made again. */
void session_resume_all(struct list *waiting);

/* Of SOCK's peer, who has to be greeted before it may do anything. 0 or a negative errno. */
int session_new(struct session **ret, struct core *core, int sock, const struct session_ops *ops,
		void *userdata);
/* Ends all its ids and leases. */
struct session *session_free(struct session *session);
/* It ends, and MAX of its ids at most are freed now. True: none is left. */
bool session_end(struct session *session, unsigned max);

/*
 * Finds out which unit the client is in, for the rules, as far as its process is known. 0; -EINPROGRESS, and the
 * session is charged to its user; STATUS_QUOTA; or another negative errno.
 */
int session_find_unit(struct session *session);
/*
 * Decides what the session may do, and charges it to its user. 0; STATUS_DENIED, STATUS_BUSY or STATUS_QUOTA:
 * nothing; or a negative errno.
 */
int session_greet(struct session *session);
struct ratelimit *session_log_limit(struct session *session);
/* For those who watch: it will be freed, and not because its client has gone. */
void session_set_end_reason(struct session *session, const char *why);
/*
 * AMOUNT of WHAT ("ids") is charged to the session's user. 0, a negative errno, or STATUS_QUOTA with the
 * words for it, which name the limit's KEY ("IdsPerUser=").
 */
int session_charge(struct session *session, struct charge *charge, enum account_slot slot,
		   uint64_t amount, const char *what, const char *key);

/* For what is new: 0, or STATUS_DRAINING while nothing new is taken. VERB as in "listen". */
int session_take_new(struct session *session, const char *verb);

/* The next one; NULL: that was the last. Ids may come and go in between. */
struct id *session_next_id(struct session *session, struct session_walk *walk);
/* STATUS_NO_SUCH_ID, or 0. */
int session_get_id(struct session *session, uint32_t handle, struct id **ret);
/* HANDLE 0: a request, a number is chosen. STATUS_BAD_REQUEST, STATUS_QUOTA, negative, or 0. */
int session_add_id(struct session *session, struct id *id, uint32_t handle, uint32_t *ret);
void session_remove_id(struct session *session, uint32_t handle);

/*
 * Leases. A device that is open already is counted once more. NAME empty: the first device there is. -EINPROGRESS
 * until the client's user can open its node.
 */
int session_open_device(struct session *session, const char *name, struct fabric_device **ret);
int session_close_device(struct session *session, const char *name);
void session_forget_device(struct session *session, const char *name); /* it was removed */
/* Leases of devices that policy does not allow any more are ended. */
void session_enforce_leases(struct session *session);
void session_free_leases(struct session *session);
