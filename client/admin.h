/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The private calls of librdmabroker: for rdmabrokerctl, rdmabroker-exporter and rdmabroker-peerd of the same version.
 * Programs of others use rdmabrokerctl --json, or the metrics.
 *
 * Admins are root, the daemon's own user, and users whom policy allows the operation "admin". Observers are all
 * admins, and users whom policy allows the operation "observe". Sessions, structs, failures and the forms of the
 * calls are as in rdmabroker.h.
 */

#include "rdmabroker.h"

/*
 * Flags of struct rdmabroker_options. If no socket is named: connect to the socket for administration,
 * /run/rdmabroker-admin/rdmabroker.sock, if this process can. Only there root and the broker's own user may administer and
 * observe without a rule.
 */
#define RDMABROKER_AS_ADMIN (1U << 6)
/* The same with /run/rdmabroker-helper/rdmabroker.sock, for the helper that answers who peers are. */
#define RDMABROKER_AS_HELPER (1U << 7)

struct rdmabroker_status {
	size_t size;
	const char *version; /* the daemon's version */
	/*
	 * The first error of the last reload, or of the load at the start: "file:line:column: ...", or "file: ..."
	 * for an error of a whole file. NULL: none.
	 */
	const char *policy_error;
	unsigned n_rules;
	unsigned n_sessions;
	unsigned n_listeners;
	unsigned n_connections; /* established connections */
	unsigned n_ids; /* ids in any state */
	unsigned n_fds; /* open file descriptors of the daemon */
	unsigned n_leases;
	size_t n_devices;
	const struct rdmabroker_device_status *const *devices;
	bool draining; /* the daemon accepts nothing new, see rdmabroker_drain() */
	unsigned n_handshakes; /* connections requested or accepted, but not established yet */
	size_t n_foreign_ids;
	const struct rdmabroker_foreign_ids *const *foreign_ids; /* one for each examined device */
	size_t n_warnings;
	const char *const *warnings; /* problems for an admin to solve, in sentences for a person */
	bool no_policy; /* the daemon has loaded no policy since its start, and rejects everything */
	unsigned n_missing_names; /* users and groups in the rules that cannot be looked up */
	/*
	 * The number of this process of the daemon: 1, plus 1 for each restart that has kept the sessions. 0: a
	 * restart would end all sessions, because systemd does not keep them.
	 */
	uint64_t generation;
	unsigned n_taken_sessions; /* sessions taken over from the previous process */
	unsigned n_ended_sessions; /* sessions that could not be taken over */
	uint64_t take_over_ms; /* the duration of the take-over */
	uint64_t take_over_age_ms; /* the time since the take-over */
	unsigned n_warn_rules; /* of n_rules: warn rules, see rdmabroker.rules(5) */
	unsigned unused; /* 0 */
	uint64_t n_warned; /* what warn rules have allowed since the daemon started */
};

struct rdmabroker_device_status {
	size_t size;
	const char *name;
	const char *node;
	unsigned n_leases;
	unsigned unused; /* 0 */
};

/*
 * A process other than the daemon, or a module of the kernel, that has ids of the connection manager on a device. No rule
 * applies to these ids.
 */
struct rdmabroker_holder {
	size_t size;
	int pid; /* 0: a module */
	uint32_t uid; /* the effective uid; (uint32_t)-1: not known, or a module */
	const char *
		name; /* of the module, or chosen by the process itself, printable; NULL: not known */
	unsigned n_ids;
	/*
	 * State and addresses of one of the ids: of a listener if there is one, else of an id that connects or is
	 * connected if there is one.
	 */
	const char *state; /* as `rdma resource show cm_id` prints it, for example "LISTEN" */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none */
};

/* Ids on a device that are not the daemon's. */
struct rdmabroker_foreign_ids {
	size_t size;
	const char *device;
	uint64_t age_ms; /* time since the device was examined */
	size_t n_holders;
	const struct rdmabroker_holder *const *holders; /* at most 32 for all devices together */
	unsigned n_more; /* number of ids of those that are not in holders */
	unsigned n_nameless; /* number of ids of ended threads, whose process is not known */
};

/* A rule, and its counters since the daemon started, or since a reload added or changed the rule. */
struct rdmabroker_rule {
	size_t size;
	const char *file; /* NULL: the entry for everything that no rule matches */
	unsigned line;
	const char *text; /* as in the file, on one line; cut to 511 bytes */
	uint64_t n_allowed, n_rejected;
	uint64_t n_busy; /* allowed by the rule, but rejected because of a limit */
	unsigned n_now; /* number of existing objects that the rule has admitted */
	unsigned n_pending; /* those of n_now that are connection requests not accepted yet */
	uint64_t n_warned; /* allowed by this rule, which is a warn rule; not in n_allowed */
};

struct rdmabroker_rules {
	size_t size;
	size_t n_rules;
	/* In the order of the policy. The last entry stands for everything that no rule matches. */
	const struct rdmabroker_rule *const *rules;
};

/*
 * What was refused, or allowed by a warn rule, in words that a rule could match. Requests that are alike share one; if the
 * peers of one are too many, it has a prefix that holds them.
 */
struct rdmabroker_refusal {
	size_t size;
	const char *operation; /* as in a rule: "connect" */
	const char *
		outcome; /* "rejected" (by a rule or a restriction), "no-rule", "busy" or "warned" */
	uint32_t uid;
	bool any_port; /* the kernel has chosen the port of the service, so the next one is another */
	uint8_t unused; /* 0 */
	uint16_t port; /* of the service; 0: not known, or ANY_PORT */
	enum rdmabroker_port_space ps; /* 0: not known */
	unsigned
		peer_prefix; /* the length of the prefix that begins with PEER; 32 or 128: one address */
	const char *unit, *container, *pod, *job; /* NULL: in none, or not known */
	const char *name; /* of the program, which has chosen it; NULL: not known */
	const char *device; /* NULL: not known */
	const char *rule; /* "file:line" when it decided, or "restriction"; NULL: no rule matched */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: not known; the ports are 0 */
	uint64_t count;
	uint64_t first_ms, last_ms; /* since 1970 */
	/* Groups, with the primary one, that all these processes were in; at most 16, there can be more. */
	const uint32_t *gids;
	size_t n_gids;
};

struct rdmabroker_refusals {
	size_t size;
	size_t n_refusals;
	const struct rdmabroker_refusal *const
		*refusals; /* in the order of their first occurrence */
};

/* Who a process is, as the broker of its host knows it. */
struct rdmabroker_peer_identity {
	size_t size;
	uint32_t uid; /* in the host's initial user namespace */
	bool knows_workload; /* false: unit, container, pod, job and cgroup are not known */
	uint8_t unused[3]; /* must be 0 */
	const uint32_t *gids; /* the primary and the supplementary groups */
	size_t n_gids; /* at most 1024 */
	const char *unit, *container, *pod, *job, *cgroup; /* NULL: in none */
};

/* A client of the daemon. */
struct rdmabroker_listed_session {
	size_t size;
	uint64_t number; /* as in the journal */
	uint32_t uid;
	int pid;
	const char *unit; /* the client's systemd unit; NULL: in none, or not known */
	const char *rule; /* "file:line" that admitted the session; NULL: none, e.g. for admins */
	uint64_t age_ms;
	unsigned n_ids;
	unsigned n_leases;
	/* What the client belongs to, from its control group, see rdmabroker.rules(5); NULL: none, or not known. */
	const char *container, *pod, *job;
	const char *cgroup; /* path of the control group; cut to 255 bytes */
	const char *restriction; /* the rules that narrow it; cut to 255 bytes; NULL: none */
	/*
	 * Its client has lost the socket. Only its leases are left: until the process opens a session again, ends, or
	 * ResumeTimeoutSec= is over, see rdmabrokerd.conf(5).
	 */
	bool lingers;
	uint8_t unused[3]; /* 0 */
	/* whose quotas it uses: UID, or the owner of this subordinate uid, or the first uid of its container */
	uint32_t charged_uid;
	const char *
		denied; /* of rdmabroker_get_list_tried(): what the rules would not allow, and why; NULL: nothing */
};

struct rdmabroker_listed_id {
	size_t size;
	const struct rdmabroker_listed_session *session;
	uint32_t id; /* its number in the session */
	const char *state; /* one word, such as "established"; see the man page */
	uint64_t age_ms; /* time since the id was created, or taken over */
	enum rdmabroker_port_space ps;
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none */
	const char *device; /* NULL: not bound to a device */
	uint32_t qp_num; /* as offered to the peer; 0: none */
	int tos; /* the value in force; -1: the kernel's default */
	const char *rule; /* "file:line" of the rule that admitted it; NULL: not decided yet */
	/* Who the peer is, without its groups, or why that is not known. Both NULL: it was not asked. */
	const struct rdmabroker_peer_identity *peer_identity;
	const char *peer_unknown;
	const char *denied; /* as in struct rdmabroker_listed_session */
};

struct rdmabroker_list {
	size_t size;
	size_t n_sessions;
	const struct rdmabroker_listed_session *const *sessions; /* in the order they were opened */
	size_t n_ids;
	const struct rdmabroker_listed_id *const *ids; /* in the order of their sessions */
};

/* The operations of the rule language, see rdmabroker.rules(5). */
enum rdmabroker_operation {
	RDMABROKER_OPERATION_NONE = 0, /* none, or one that this library does not know */
	RDMABROKER_OPERATION_SESSION = 1,
	RDMABROKER_OPERATION_DEVICE = 2,
	RDMABROKER_OPERATION_LISTEN = 3,
	RDMABROKER_OPERATION_CONNECT = 4,
	RDMABROKER_OPERATION_ACCEPT = 5,
	RDMABROKER_OPERATION_JOIN = 6,
	RDMABROKER_OPERATION_OBSERVE = 7,
	RDMABROKER_OPERATION_ADMIN = 8,
};

enum rdmabroker_notice_kind {
	RDMABROKER_NOTICE_UNKNOWN = 0, /* one that this library does not know */
	RDMABROKER_NOTICE_DECISION = 1, /* a decision of policy */
	/* an event of an id, even if the daemon does not send it to the program */
	RDMABROKER_NOTICE_CM = 2,
	RDMABROKER_NOTICE_SESSION = 3, /* a session is opened or closed */
	/*
	 * Notices were dropped, and no later notice has reported n_lost, their number. Other members that are set:
	 * size, time_ns, kind and kind_name.
	 */
	RDMABROKER_NOTICE_LOST = 4,
	/*
	 * Who is the peer? Only the session gets it that has called rdmabroker_serve_peers(). OPERATION ACCEPT: who connects
	 * from the address PEER? CONNECT: who listens on PEER? SESSION is the one to whose id the question belongs.
	 */
	RDMABROKER_NOTICE_QUESTION = 5,
};

enum rdmabroker_outcome {
	RDMABROKER_OUTCOME_NONE = 0, /* none, or one that this library does not know */
	RDMABROKER_OUTCOME_ALLOWED = 1,
	RDMABROKER_OUTCOME_REJECTED = 2,
	RDMABROKER_OUTCOME_BUSY =
		3, /* refused by a limit of the rule, after an ALLOWED or WARNED notice */
	RDMABROKER_OUTCOME_WARNED = 4, /* allowed, but only by a warn rule */
};

/* Selects the notices that match all members. A member that is 0 or NULL matches every notice. */
struct rdmabroker_filter {
	size_t size;
	const uint32_t *uid; /* the user of the session */
	uint64_t session; /* the session's number */
	const struct sockaddr *peer; /* only the address is compared, not the port */
	enum rdmabroker_notice_kind kind; /* LOST cannot be selected */
	enum rdmabroker_operation operation; /* a notice without an operation does not match */
	enum rdmabroker_outcome outcome; /* a notice without an outcome does not match */
	uint16_t port; /* matches the local port or the peer's port */
	uint8_t unused[2]; /* must be 0 */
};

#define RDMABROKER_FILTER_INIT                                                              \
	{                                                                                   \
		sizeof(struct rdmabroker_filter), NULL, 0, NULL, RDMABROKER_NOTICE_UNKNOWN, \
			RDMABROKER_OPERATION_NONE, RDMABROKER_OUTCOME_NONE, 0,              \
		{                                                                           \
			0                                                                   \
		}                                                                           \
	}

/*
 * Something that happened to a client. Members that are not known, or do not belong to the kind, are 0 or NULL, but
 * EVENT is RDMABROKER_EVENT_NONE.
 */
struct rdmabroker_notice {
	size_t size;
	uint64_t n_lost; /* notices dropped before this one, because they were not taken in time */
	uint64_t time_ns; /* since 1970, by the daemon's clock */
	enum rdmabroker_notice_kind kind;
	enum rdmabroker_operation operation; /* DECISION */
	enum rdmabroker_outcome outcome; /* DECISION */
	enum rdmabroker_event_type event; /* CM; RDMABROKER_EVENT_NONE: none, or unknown */
	/* The names of the four enums above, also of values that this library does not know; NULL: none. */
	const char *kind_name; /* never NULL */
	const char *operation_name, *outcome_name;
	const char *event_name; /* e.g. "established"; SESSION: "opened" or "closed" */
	/* The client's session. */
	uint64_t session; /* the session's number */
	uint32_t uid;
	int pid;
	const char *unit; /* the client's systemd unit */
	uint32_t id; /* the id's number; for a connection request: the listener's */
	uint32_t request_id; /* CM, CONNECT_REQUEST: the number of the new id */
	unsigned retry_after_ms; /* DECISION, BUSY: the time after which to retry */
	int status; /* CM: a negative errno, or the transport's reason */
	bool opened; /* SESSION: the session was opened; false: it was closed */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none; the peer can be a group */
	const char *device;
	enum rdmabroker_port_space ps;
	uint32_t qp_num; /* as offered to the peer */
	const char *rule; /* "file:line" that decided, or that admitted the session or the id */
	const char *rule_text; /* cut to 511 bytes */
	const char *reason; /* an explanation for a person */
	/* What the client belongs to, as in struct rdmabroker_listed_session. */
	const char *container, *pod, *job, *cgroup;
	uint64_t question; /* QUESTION: its number, for rdmabroker_answer_peer() */
	uint32_t peer_qp_num; /* QUESTION: as offered by the peer; 0: not known */
	uint32_t unused;
	/* DECISION: who the peer is, without its groups, or why that is not known. Both NULL: it was not asked. */
	const struct rdmabroker_peer_identity *peer_identity;
	const char *peer_unknown;
};

/*
 * A policy request. A member that is 0 or NULL is not known, except uid, gids, unit, container, pod, job and
 * cgroup, where NULL means none. A rule that depends on an unknown member may or may not match.
 */
struct rdmabroker_question {
	size_t size;
	enum rdmabroker_operation operation; /* not NONE */
	uint32_t uid;
	const uint32_t *gids; /* the primary and the supplementary groups */
	size_t n_gids; /* at most 1024 */
	const char *unit; /* the client's systemd unit; NULL: in none */
	const struct sockaddr *local, *peer; /* their ports are ignored */
	uint16_t port; /* the port of the service */
	const char *device;
	enum rdmabroker_port_space ps;
	const void *data; /* private data of a connection request */
	size_t data_len;
	const char *container, *pod, *job, *cgroup; /* NULL: in none */
	/* Who the peer is, for CONNECT and ACCEPT. */
	const struct rdmabroker_peer_identity *peer_identity;
};

#define RDMABROKER_QUESTION_INIT                                                                 \
	{                                                                                        \
		sizeof(struct rdmabroker_question), RDMABROKER_OPERATION_NONE, 0, NULL, 0, NULL, \
			NULL, NULL, 0, NULL, (enum rdmabroker_port_space)0, NULL, 0, NULL, NULL, \
			NULL, NULL, NULL                                                         \
	}

struct rdmabroker_explanation {
	size_t size;
	bool allow; /* false: reject */
	const struct rdmabroker_rule *rule; /* the rule that decides; NULL: none matches */
	const char *reason; /* on reject, or of a warn rule; else NULL */
	size_t n_effects;
	const char *const *effects; /* settings and limits that would apply, such as "tos 104" */
	/* The first rule whose match depends on an unknown member, if that could change the decision; NULL: none. */
	const struct rdmabroker_rule *depends;
	/*
	 * DEPENDS only depends on who the peer is. The daemon would ask the peer's host. The other members are the
	 * decision if there is no answer.
	 */
	bool asks;
	bool warns; /* ALLOW is set, but only by a warn rule */
	uint8_t unused[2]; /* 0 */
	uint32_t charged_uid; /* as in struct rdmabroker_listed_session */
};

struct rdmabroker_reload_result {
	size_t size;
	bool ok; /* false: the reload failed, and nothing has changed */
	unsigned n_rules; /* number of rules in force now */
	size_t n_complaints;
	/* "file:line:column: text"; an error of a whole file: "file: text" */
	const char *const *complaints;
	uint64_t
		dry_run; /* of rdmabroker_try_reload(): for rdmabroker_get_list_tried(); 0: it failed */
};

/* The name of a value, as in the rule language and in rdmabrokerctl(1), e.g. "connect"; never NULL. */
const char *rdmabroker_operation_str(enum rdmabroker_operation operation);
const char *rdmabroker_notice_kind_str(enum rdmabroker_notice_kind kind);
const char *rdmabroker_outcome_str(enum rdmabroker_outcome outcome);

/* What a user can hold of a resource, in all sessions together. */
struct rdmabroker_limit {
	size_t size;
	const char *what; /* for a person: "listeners" */
	const char *key; /* the key of rdmabrokerd.conf(5) that sets the limit; "": it is fixed */
	uint64_t used; /* what the user holds now */
	uint64_t
		limit; /* can be less than the key says: nobody gets more than half of what there is */
};

struct rdmabroker_limits {
	size_t size;
	size_t n_limits;
	const struct rdmabroker_limit *const *limits;
};

/**
 * rdmabroker_get_limits - What the user of the session can hold, and what he holds.
 * Who the user is, for the uids of a user namespace, see SubordinateUids= in rdmabrokerd.conf(5).
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_limits().
 * Returns:
 *   0; -ENOSYS: the daemon is older than this library.
 */
int rdmabroker_get_limits(struct rdmabroker *session, struct rdmabroker_limits **ret);
struct rdmabroker_limits *rdmabroker_free_limits(struct rdmabroker_limits *limits);

/**
 * rdmabroker_get_status - The state of the daemon.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_status().
 * Returns:
 *   0; -EACCES: only observers may call this (policy operation "observe").
 */
int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret);
struct rdmabroker_status *rdmabroker_free_status(struct rdmabroker_status *status);

/**
 * rdmabroker_get_rules - The rules in force, in their order, and their decisions.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_rules().
 * Returns:
 *   0; -EACCES: only observers may call this (policy operation "observe").
 * Notes:
 *   If the policy is reloaded during the call, the list can have rules of the old and of the new policy.
 */
int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rules **ret);
struct rdmabroker_rules *rdmabroker_free_rules(struct rdmabroker_rules *rules);

/**
 * rdmabroker_get_refusals - What was refused, or allowed by a warn rule.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_refusals().
 * Returns:
 *   0; -EACCES: only observers may call this (policy operation "observe"); -EOPNOTSUPP: the daemon is older than 0.2.0.
 * Notes:
 *   The daemon keeps at most 4096, and at most 256 of a user with his subordinate uids: then his oldest one leaves.
 *   Restarts of the daemon keep them.
 */
int rdmabroker_get_refusals(struct rdmabroker *session, struct rdmabroker_refusals **ret);
struct rdmabroker_refusals *rdmabroker_free_refusals(struct rdmabroker_refusals *refusals);

/**
 * rdmabroker_get_list - All sessions with the daemon, this one included, and their ids.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_list().
 * Returns:
 *   0; -EACCES: only observers may call this (policy operation "observe").
 * Notes:
 *   Sessions and ids that come or go while a long list is transferred may be missing.
 */
int rdmabroker_get_list(struct rdmabroker *session, struct rdmabroker_list **ret);
/**
 * rdmabroker_get_list_tried - As rdmabroker_get_list(), and what other rules than those in force would not allow.
 * @dry_run: The member dry_run of the result of rdmabroker_try_reload().
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_list().
 * Returns:
 *   0; -EINVAL: another dry run or a reload came later; -EACCES: only observers may call this (policy operation
 *   "observe").
 * Notes:
 *   An entry with the member denied is what a reload with OnReload=enforce would end; of a session, of its devices, and
 *   of the multicast groups of an id only the first one that is not allowed is named. A connection whose rule depends on
 *   who the peer is, which nobody has asked, counts as allowed.
 */
int rdmabroker_get_list_tried(struct rdmabroker *session, uint64_t dry_run,
			      struct rdmabroker_list **ret);
struct rdmabroker_list *rdmabroker_free_list(struct rdmabroker_list *list);

/**
 * rdmabroker_kick - End another session, or one id of it.
 * @number: The session's number, from rdmabroker_get_list().
 * @id: 0: the whole session; its program gets RDMABROKER_EVENT_LOST.
 * Description:
 *   The effect depends on the state of the id. An established connection is disconnected, and both sides get
 *   DISCONNECTED. A connection that is being set up ends, and its program gets the event of a failed connection. A
 *   connection request that was not accepted yet is rejected, and its program gets CONNECT_ERROR. An id in the state
 *   addr-resolved, resolving-route or route-resolved, or an established one for datagrams, becomes failed: its
 *   program gets CONNECT_ERROR with status -EACCES. An id that is idle, bound, listening or resolving the address is
 *   revoked: its program gets DEVICE_REMOVAL with status -EACCES, and can only destroy the id. The daemon's journal
 *   names the caller. The client can connect again: only a rule prevents that.
 * Returns:
 *   0; -EBADF: there is no such session or id; -EINVAL: the id has ended already, or the session is the
 *   caller's own; -EACCES: only admins may call this (policy operation "admin").
 */
int rdmabroker_kick(struct rdmabroker *session, uint64_t number, uint32_t id);

/**
 * rdmabroker_drain - Make the daemon accept nothing new; existing ids and connections stay.
 * Description:
 *   Until rdmabroker_undrain(), or until the daemon ends, all clients get -ESHUTDOWN from create_id,
 *   resolve_addr, listen, connect, accept and join_multicast; peers are rejected with
 *   RDMABROKER_REJECT_DRAINING. rdmabroker_get_status() returns how many connections are left.
 * Returns:
 *   0; -EACCES: only admins may call this (policy operation "admin").
 */
int rdmabroker_drain(struct rdmabroker *session);
/** rdmabroker_undrain - End the draining, also if another admin began it. Returns as rdmabroker_drain(). */
int rdmabroker_undrain(struct rdmabroker *session);

/**
 * rdmabroker_get_metrics - The daemon's counters, as text in the format of OpenMetrics 1.0.
 * Ownership:
 *   *@ret is the caller's; free it with free(3).
 * Returns:
 *   0; -EACCES: only observers may call this (policy operation "observe").
 */
int rdmabroker_get_metrics(struct rdmabroker *session, char **ret);

/**
 * rdmabroker_watch - Request notices, from now on, of what happens to all clients of the daemon.
 * @filter: Selects notices; NULL: all. If the call is repeated the last filter applies.
 * Description:
 *   There is a notice for each decision of policy, each event of an id, and each session that is opened or closed:
 *   see rdmabroker_get_notice(). Watching ends with the session. Watch in a separate session, because the descriptor
 *   is readable for notices and for events alike.
 * Returns:
 *   0; -EINVAL: the filter is not valid; -EACCES: only observers may call this (policy operation "observe").
 */
int rdmabroker_watch(struct rdmabroker *session, const struct rdmabroker_filter *filter);
/**
 * rdmabroker_get_notice - Take the next notice.
 * @timeout_ms: How long to wait for one; 0: not at all.
 * @ret: The notice, on success; free it with rdmabroker_free_notice().
 * Description:
 *   While notices are queued, the descriptor of the session is readable. The daemon does not wait for slow
 *   readers: it drops notices that are not taken in time, and n_lost of the next notice is their number. Events and
 *   replies are not dropped.
 * Returns:
 *   0; -EAGAIN: no notice came within the time; -EINVAL: rdmabroker_watch() was not called; -ECONNRESET: the
 *   broker is gone, and all its notices were taken.
 */
int rdmabroker_get_notice(struct rdmabroker *session, int timeout_ms,
			  struct rdmabroker_notice **ret);
/** rdmabroker_free_notice - Free a notice. NULL is allowed. Returns NULL. */
struct rdmabroker_notice *rdmabroker_free_notice(struct rdmabroker_notice *notice);

/* An address of this host, about which another host asks. */
struct rdmabroker_peer_address {
	size_t size;
	bool listens; /* who listens on LOCAL? false: who connects, or is connected, from LOCAL to PEER? */
	uint8_t unused[3]; /* must be 0 */
	enum rdmabroker_port_space ps;
	const struct sockaddr *local; /* with its port */
	const struct sockaddr *peer; /* with its port; if LISTENS is set: NULL */
	uint32_t qp_num; /* as offered to PEER; 0: not known */
	uint32_t unused2; /* must be 0 */
};

/**
 * rdmabroker_serve_peers - Be the daemon's helper that asks other hosts who peers are.
 * Description:
 *   From now on this session gets notices of kind QUESTION when a rule depends on who a peer is. The daemon waits
 *   2 s for each answer. Another session that calls this ends the present helper's.
 * Returns:
 *   0; -EACCES: the caller's user is not Helper= of rdmabrokerd.conf.
 */
int rdmabroker_serve_peers(struct rdmabroker *session);
/**
 * rdmabroker_answer_peer - Answer a notice of kind QUESTION.
 * @who: Who the peer is; NULL: that is not known.
 * @why: If @who is NULL: why, for the journal; at most 159 bytes are used.
 * Returns:
 *   0; -EBADF: there is no such question, or it is too late; -EINVAL: @who is not valid; -EACCES: as
 *   rdmabroker_serve_peers().
 */
int rdmabroker_answer_peer(struct rdmabroker *session, uint64_t question,
			   const struct rdmabroker_peer_identity *who, const char *why);
/**
 * rdmabroker_find_peer - Who has an address of this host?
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_peer_identity().
 * Returns:
 *   0; -EBADF: nobody has it, or several sessions have it, or this host has no helper; -EINVAL: @address is not valid;
 *   -EACCES: as rdmabroker_serve_peers().
 */
int rdmabroker_find_peer(struct rdmabroker *session, const struct rdmabroker_peer_address *address,
			 struct rdmabroker_peer_identity **ret);
struct rdmabroker_peer_identity *
rdmabroker_free_peer_identity(struct rdmabroker_peer_identity *identity);

/**
 * rdmabroker_explain - How policy would decide about a policy request now, without carrying it out or counting it.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_explanation().
 * Returns:
 *   0; -EINVAL: the question is not valid; -EACCES: only observers may call this (policy operation "observe").
 */
int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret);
struct rdmabroker_explanation *
rdmabroker_free_explanation(struct rdmabroker_explanation *explanation);

/**
 * rdmabroker_reload - Make the daemon read its configuration and its policy again. Errors leave both unchanged.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_reload_result().
 * Returns:
 *   0: the result shows whether the reload succeeded; -EACCES: only admins may call this (policy operation "admin").
 */
int rdmabroker_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret);
/**
 * rdmabroker_try_reload - Make the daemon read its configuration and its policy, and change nothing.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_reload_result().
 * Returns:
 *   0: the result shows whether a reload would succeed, and its member n_rules is that of the rules that were read;
 *   -EACCES: only admins may call this (policy operation "admin"); -EOPNOTSUPP: the daemon is older than 0.2.0.
 */
int rdmabroker_try_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret);
struct rdmabroker_reload_result *
rdmabroker_free_reload_result(struct rdmabroker_reload_result *result);
