/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The private calls of librdmabroker: for rdmabrokerctl, rdmabroker-exporter and rdmabroker-peerd of the same version.
 * Programs of others use rdmabrokerctl --json, or the metrics. The structs change as these programs need it.
 *
 * Calls fail as those of rdmabroker.h do; with -EACCES also if policy does not allow the caller the operation "observe",
 * or "admin" for calls that change something. What *RET is set to has to be freed with rdmabroker_free(). A pointer that is
 * NULL, an address that is AF_UNSPEC, and most numbers that are 0 mean that there is none, or that it is not known.
 */

#include "rdmabroker.h"

/*
 * Flags of struct rdmabroker_options. If no socket is named: connect to the socket for administration,
 * /run/rdmabroker-admin/rdmabroker.sock, if this process can. Only there root and the daemon's own user may administer and
 * observe without a rule.
 */
#define RDMABROKER_AS_ADMIN (1U << 6)
/* The same with /run/rdmabroker-helper/rdmabroker.sock, for the helper that answers who peers are. */
#define RDMABROKER_AS_HELPER (1U << 7)

/* Frees what a call has returned; NULL is allowed. */
void rdmabroker_free(void *result);

/* Who a process is. Not all have all members. */
struct rdmabroker_who {
	uint32_t uid; /* in the host's initial user namespace */
	/* whose quotas it uses: UID, or the owner of this subordinate uid, or the first uid of its container */
	uint32_t charged_uid;
	int pid;
	bool knows_workload; /* of a peer; false: the members below are not known */
	const char *unit, *container, *pod, *job, *cgroup; /* see rdmabroker.rules(5) */
	const uint32_t *gids; /* the primary and the supplementary groups */
	size_t n_gids; /* at most 1024 */
};

/* Who the peer is, without its groups, or WHY that is not known. Neither: it was not asked. */
struct rdmabroker_peer {
	bool is_known;
	struct rdmabroker_who who;
	const char *why;
};

/* The state of the daemon. */

/*
 * A process other than the daemon, or a module of the kernel, that has ids of the connection manager on a device. No rule
 * applies to these ids.
 */
struct rdmabroker_holder {
	int pid; /* 0: a module */
	uint32_t uid; /* the effective uid; (uint32_t)-1: not known, or a module */
	const char *name; /* of the module, or chosen by the process itself, printable */
	unsigned n_ids;
	/* Of one of the ids: a listener if there is one, else one that connects or is connected. */
	const char *state; /* as `rdma resource show cm_id` prints it, for example "LISTEN" */
	struct sockaddr_storage local, peer;
};

/* Ids on a device that are not the daemon's. */
struct rdmabroker_foreign_ids {
	uint64_t age_ms; /* time since the device was examined */
	size_t n_holders;
	struct rdmabroker_holder *holders; /* at most 32 for up to 64 devices together */
	unsigned n_more; /* number of ids of those that are not in holders */
	unsigned n_nameless; /* number of ids of ended threads, whose process is not known */
};

struct rdmabroker_device_status {
	const char *name, *node;
	unsigned n_leases;
	bool is_examined; /* FOREIGN is set */
	struct rdmabroker_foreign_ids foreign;
};

/* How much of what was refused, or allowed with a warning, is known. */
struct rdmabroker_learned {
	uint64_t
		since_ms; /* since 1970: it is kept since then; 0: the daemon is older, and does not say */
	unsigned n_rows;
	uint64_t n_left; /* rows that have left since then, because there were too many */
	uint64_t left_ms; /* when the first of them has left; 0: none has */
};

struct rdmabroker_status {
	const char *version; /* the daemon's */
	/* The first error of the last reload, or of the load at the start: "file:line:column: ...", or "file: ..." */
	const char *policy_error;
	bool no_policy; /* the daemon has loaded no policy since its start, and rejects everything */
	bool draining; /* the daemon accepts nothing new */
	unsigned n_rules, n_warn_rules; /* the latter of the former */
	unsigned n_missing_names; /* users and groups in the rules that cannot be looked up */
	unsigned n_sessions, n_listeners;
	unsigned n_connections; /* established connections */
	unsigned n_handshakes; /* connections requested or accepted, but not established yet */
	unsigned n_ids; /* ids in any state */
	unsigned n_fds; /* open file descriptors of the daemon */
	unsigned n_leases;
	uint64_t n_warned; /* what warn rules have allowed since the daemon started */
	size_t n_devices;
	struct rdmabroker_device_status *devices;
	size_t n_warnings;
	const char *const *warnings; /* problems for an admin to solve, in sentences for a person */
	/*
	 * The number of this process of the daemon: 1, plus 1 for each restart that has kept the sessions. 0: a
	 * restart would end all sessions, because systemd does not keep them.
	 */
	uint64_t generation;
	unsigned n_taken_sessions; /* sessions taken over from the previous process */
	unsigned n_ended_sessions; /* sessions that could not be taken over */
	uint64_t take_over_ms; /* the duration of the take-over */
	uint64_t take_over_age_ms; /* the time since the take-over */
	struct rdmabroker_learned learned;
};

int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret);
/* The daemon's counters, as text in the format of OpenMetrics 1.0; to be freed with free(3). */
int rdmabroker_get_metrics(struct rdmabroker *session, char **ret);

/* What a user can hold of a resource, in all sessions together. */
struct rdmabroker_limit {
	const char *what; /* for a person: "listeners" */
	const char *key; /* the key of rdmabrokerd.conf(5) that sets the limit; "": it is fixed */
	uint64_t used; /* what the user holds now */
	uint64_t
		limit; /* can be less than the key says: nobody gets more than half of what there is */
};

struct rdmabroker_limits {
	size_t n;
	struct rdmabroker_limit *list;
};

/* Of the session's user, or who is charged in his place. Needs no right. */
int rdmabroker_get_limits(struct rdmabroker *session, struct rdmabroker_limits **ret);

/* The policy. */

/* A rule, and its counters since the daemon started, or since a reload added or changed the rule. */
struct rdmabroker_rule {
	const char *file; /* NULL: the entry for everything that no rule matches */
	unsigned line;
	const char *text; /* as in the file, on one line; cut to 511 bytes */
	uint64_t n_allowed, n_rejected;
	uint64_t n_busy; /* allowed by the rule, but rejected because of a limit */
	uint64_t n_warned; /* allowed by this rule, which is a warn rule; not in n_allowed */
	unsigned n_now; /* number of existing objects that the rule has admitted */
	unsigned n_pending; /* those of n_now that are connection requests not accepted yet */
};

struct rdmabroker_rules {
	size_t n;
	struct rdmabroker_rule *list; /* in the order of the policy; the last one has no file */
};

/* If the policy is reloaded during the call, the list can have rules of the old and of the new policy. */
int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rules **ret);

struct rdmabroker_reload_result {
	bool ok; /* false: the reload failed, and nothing has changed */
	unsigned n_rules; /* in force now; of a dry run: that were read */
	size_t n_complaints;
	/* "file:line:column: text"; an error of a whole file: "file: text" */
	const char *const *complaints;
	uint64_t dry_run; /* for rdmabroker_get_list(); 0: it was none, or has failed */
};

/* The daemon reads its configuration and its policy. It changes nothing in a dry run, and if there are errors. */
int rdmabroker_reload(struct rdmabroker *session, bool dry_run,
		      struct rdmabroker_reload_result **ret);

/* A policy request. A rule that depends on an unknown member may or may not match. The workload and the groups are known. */
struct rdmabroker_question {
	const char *operation; /* see rdmabroker.rules(5) */
	struct rdmabroker_who who;
	const struct sockaddr *local, *peer; /* their ports are ignored */
	uint16_t port; /* the port of the service */
	const char *device;
	enum rdmabroker_port_space ps;
	const void *data; /* private data of a connection request */
	size_t data_len;
	const struct rdmabroker_who *peer_who;
	uint16_t pkey; /* the P_Key of the device, network device or connection request */
	uint16_t path_pkey; /* that of a path which the client has set itself */
};

struct rdmabroker_explanation {
	bool allow; /* false: reject */
	bool warns; /* ALLOW is set, but only by a warn rule */
	const struct rdmabroker_rule *rule; /* the rule that decides; NULL: none matches */
	const char *reason; /* on reject, or of a warn rule */
	size_t n_effects;
	const char *const *effects; /* settings and limits that would apply, such as "tos 104" */
	/* The first rule whose match depends on an unknown member, if that could change the decision; NULL: none. */
	const struct rdmabroker_rule *depends;
	/*
	 * DEPENDS only depends on who the peer is. The daemon would ask the peer's host. The other members are the
	 * decision if there is no answer.
	 */
	bool asks;
	uint32_t charged_uid; /* as in struct rdmabroker_who */
};

/* How policy would decide now. Nothing is carried out or counted. */
int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret);

/*
 * What was refused, or allowed by a warn rule, in words that a rule could match. Requests that are alike share one; if the
 * peers of one are too many, it has a prefix that holds them.
 */
struct rdmabroker_refusal {
	const char *operation;
	/*
	 * "rejected" (by a rule or a restriction), "no-rule", "busy" or "warned"; "quota" (refused) or "quota-warned", with
	 * the quota in RULE and the operation "session"
	 */
	const char *outcome;
	struct rdmabroker_who who; /* the groups: those of all processes, at most 16 */
	/* the kernel has chosen the port of the service, so the next one is another; or peers' kernels have chosen several */
	bool any_port;
	uint16_t port; /* of the service */
	enum rdmabroker_port_space ps;
	unsigned
		peer_prefix; /* the length of the prefix that begins with PEER; 32 or 128: one address */
	const char *name; /* of the program, which has chosen it */
	const char *device;
	const char *rule; /* "file:line" when it decided, or "restriction"; NULL: no rule matched */
	struct sockaddr_storage local, peer; /* the ports are 0 */
	uint64_t count;
	uint64_t first_ms, last_ms; /* since 1970 */
	uint16_t pkey; /* that was named; 0: none, the partition was that of the address */
};

struct rdmabroker_refusals {
	size_t n;
	struct rdmabroker_refusal *list; /* in the order of their first occurrence */
	struct rdmabroker_learned learned;
};

int rdmabroker_get_refusals(struct rdmabroker *session, struct rdmabroker_refusals **ret);
/* Forgets them all. Needs the right to administer. */
int rdmabroker_clear_refusals(struct rdmabroker *session);

/*
 * Who has used RDMA without the broker, as samples have found while the device nodes were open. What differs between
 * units of one kind, as the number of a login, is "*".
 */

struct rdmabroker_sighting {
	struct rdmabroker_who who; /* only the uid and the unit */
	const char *name; /* of the program, which it has chosen itself */
	bool had_ids; /* false: it only had devices open, as programs of libibverbs alone */
	uint64_t first_ms, last_ms; /* since 1970 */
};

struct rdmabroker_sightings {
	uint64_t since_ms,
		sampled_ms; /* since 1970: the first and the last sample; 0: there was none */
	size_t n;
	struct rdmabroker_sighting *list;
};

int rdmabroker_get_sightings(struct rdmabroker *session, struct rdmabroker_sightings **ret);

/* The clients. */

struct rdmabroker_listed_session {
	uint64_t number; /* as in the journal */
	struct rdmabroker_who who; /* without its groups; the cgroup is cut to 255 bytes */
	const char *rule; /* "file:line" that admitted the session; NULL: none, e.g. for admins */
	uint64_t age_ms;
	unsigned n_ids, n_leases;
	const char *restriction; /* the rules that narrow it; cut to 255 bytes */
	bool lingers; /* the client has lost the socket, and only its leases are left */
	const char *denied; /* in a dry run: what the rules would not allow, and why */
};

struct rdmabroker_listed_id {
	const struct rdmabroker_listed_session *session;
	uint32_t id; /* its number in the session */
	const char *state; /* one word, see rdmabrokerctl(1) */
	uint64_t age_ms; /* time since the id was created, or taken over */
	enum rdmabroker_port_space ps;
	struct sockaddr_storage local, peer;
	const char *device;
	uint32_t qp_num; /* as offered to the peer */
	int tos; /* the value in force; -1: the kernel's default */
	const char *rule; /* "file:line" of the rule that admitted it; NULL: not decided yet */
	struct rdmabroker_peer who_peer;
	const char *denied; /* as in struct rdmabroker_listed_session */
	uint16_t pkey; /* of a full member of its partition; 0: not known yet */
};

struct rdmabroker_list {
	size_t n_sessions;
	struct rdmabroker_listed_session *sessions; /* in the order they were opened */
	size_t n_ids;
	struct rdmabroker_listed_id *ids; /* in the order of their sessions */
};

/*
 * All sessions, this one included, and their ids. What comes or goes while a long list is transferred may be missing.
 * DRY_RUN: that of a reload, whose rules tell what is DENIED; 0: none. -EINVAL: another reload came later.
 */
int rdmabroker_get_list(struct rdmabroker *session, uint64_t dry_run, struct rdmabroker_list **ret);

/*
 * Ends another session, or one ID of it, as rdmabrokerctl(1) says. -EBADF: there is no such session or id; -EINVAL: the id has
 * ended already, or the session is the caller's own.
 */
int rdmabroker_kick(struct rdmabroker *session, uint64_t number, uint32_t id);
/* The daemon accepts nothing new, or, if CANCEL is set, everything again. Existing ids and connections stay. */
int rdmabroker_drain(struct rdmabroker *session, bool cancel);

/* Notices. */

/* Selects the notices that match all members. A member that is 0 or NULL matches every notice. */
struct rdmabroker_filter {
	const uint32_t *uid; /* the user of the session */
	uint64_t session; /* the session's number */
	const struct sockaddr *peer; /* only the address is compared, not the port */
	const char *kind; /* "decision", "cm" or "session" */
	const char *operation, *outcome; /* a notice without these does not match */
	uint16_t port; /* matches the local port or the peer's port */
};

/* Something that happened to a client. Members that do not belong to the kind are 0 or NULL. */
struct rdmabroker_notice {
	uint64_t n_lost; /* notices dropped before this one, because they were not taken in time */
	uint64_t time_ns; /* since 1970, by the daemon's clock */
	/*
	 * "decision": of policy. "cm": an event of an id, even if the daemon does not send it to the program. "session": one
	 * is opened or closed. "lost": no notice but N_LOST and the time. "question": who is the peer? Only the helper gets
	 * it. Operation "accept": who connects from the address PEER? "connect": who listens on PEER? SESSION is the
	 * one to whose id the question belongs.
	 */
	const char *kind;
	const char *operation, *outcome; /* decision: "allowed", "rejected", "busy" or "warned" */
	const char *event; /* cm: e.g. "established"; session: "opened" or "closed" */
	uint64_t session; /* the session's number */
	struct rdmabroker_who who; /* the session's */
	uint32_t id; /* the id's number; for a connection request: the listener's */
	uint32_t request_id; /* cm, connect-request: the number of the new id */
	unsigned retry_after_ms; /* decision, busy: the time after which to retry */
	int status; /* cm: a negative errno, or the transport's reason */
	struct sockaddr_storage local, peer; /* the peer can be a group */
	const char *device;
	enum rdmabroker_port_space ps;
	uint32_t qp_num; /* as offered to the peer */
	const char *rule; /* "file:line" that decided, or that admitted the session or the id */
	const char *rule_text; /* cut to 511 bytes */
	const char *reason; /* an explanation for a person */
	uint64_t question; /* its number, for rdmabroker_answer_peer() */
	uint32_t peer_qp_num; /* question: as offered by the peer */
	struct rdmabroker_peer who_peer; /* decision */
};

/*
 * From now on the session gets notices of what happens to all clients; FILTER NULL: all notices. Watch in a separate session,
 * because its descriptor is readable for notices and for events alike.
 */
int rdmabroker_watch(struct rdmabroker *session, const struct rdmabroker_filter *filter);
/*
 * Takes the next notice. -EAGAIN: none came within the time; -EINVAL: rdmabroker_watch() was not called; -ECONNRESET: the
 * broker is gone, and all its notices were taken. The daemon and the library drop notices that are not taken in time.
 */
int rdmabroker_get_notice(struct rdmabroker *session, int timeout_ms,
			  struct rdmabroker_notice **ret);

/* For the helper that asks other hosts who peers are. -EACCES: the caller's user is not Helper= of rdmabrokerd.conf. */

/* Be the helper, in place of another one: this session gets notices of the kind "question". The daemon waits 2 s for answers. */
int rdmabroker_serve_peers(struct rdmabroker *session);
/* WHO NULL: that is not known; WHY: why, for the journal. -EBADF: there is no such question, or it is too late. */
int rdmabroker_answer_peer(struct rdmabroker *session, uint64_t question,
			   const struct rdmabroker_who *who, const char *why);

/* An address of this host, about which another host asks. */
struct rdmabroker_peer_address {
	bool listens; /* who listens on LOCAL? false: who connects, or is connected, from LOCAL to PEER? */
	enum rdmabroker_port_space ps;
	const struct sockaddr *local, *peer; /* with their ports; LISTENS: PEER is NULL */
	uint32_t qp_num; /* as offered to PEER */
};

/* -EBADF: nobody has the address, or several sessions have it, or this host has no helper. */
int rdmabroker_find_peer(struct rdmabroker *session, const struct rdmabroker_peer_address *address,
			 struct rdmabroker_who **ret);
