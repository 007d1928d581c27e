/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RDMABROKER_H
#define RDMABROKER_H

/*
 * librdmabroker: RDMA connection management through rdmabrokerd.
 *
 * The calls are those of rdma_cma.h, with the broker in the place of /dev/infiniband/rdma_cm: a session
 * is an event channel, an id is an rdma_cm_id. QPs and memory belong to the program, in its own process;
 * the broker runs the connection manager for them and decides by policy what is allowed.
 *
 * Forms of the calls
 *   Every call that returns int returns 0 or a negative errno; errno itself is not set. Why a call
 *   failed is told in words by rdmabroker_get_failure().
 *
 *   Calls that the broker answers at once (bind, listen, ...) wait for that answer, at most the session's
 *   call_timeout_ms. Calls whose outcome takes time (resolve, connect, ...) return once the broker has
 *   taken them, and the outcome comes as an event. For each of these there is a form that ends in
 *   _wait, which returns with the outcome or at its deadline.
 *
 *   In a session opened with RDMABROKER_NONBLOCK a call returns once its request is on its way, and the
 *   answer comes as RDMABROKER_EVENT_DONE (always for calls without an outcome of their own, only on failure
 *   for the others). -EAGAIN: the socket is full, nothing was sent; take events, then try again. These wait
 *   all the same:
 *     - those that are given a deadline, until then: the _wait forms, wait_disconnected, get_request,
 *       get_event, get_notice, and create_ep of an address to connect to;
 *     - those that give back what only the broker knows, at most call_timeout_ms: open, open_device,
 *       get_devices, get_option, export_id, import_id, migrate_id, and for admins get_status, get_rules,
 *       get_list, kick, drain, get_metrics, watch, explain and reload;
 *     - get_verbs, get_pd and create_qp, where the id's device is not open in the session yet;
 *     - create_qp, set_qp, init_qp_attr and accept, where no event has told what the QP needs: of an id that
 *       listens, or was imported and is no request, and of a request after set_option;
 *     - destroy_id, close_device, free_devices, and get_event when it confirms a connection, as long as the
 *       socket is full;
 *     - getaddrinfo, for name servers.
 *   So a program that must not wait opens its session and its devices (get_devices) before its loop begins,
 *   and keeps them open: then nothing from resolve to destroy_id waits for the broker. Opening a device,
 *   registering memory and destroying a QP are calls into the kernel, which take their time.
 *
 *   Every wait ends: with the result, with -ETIMEDOUT at the deadline, or with -ECONNRESET when the
 *   broker is gone. After -ECONNRESET the session can only be closed.
 *
 * Teardown
 *   Destroy in this order:
 *     1. the QP, with destroy_qp;
 *     2. the completion queues, memory regions and PDs that the program made on the device;
 *     3. the id, with destroy_id: it disconnects, and closes the device that get_verbs opened for the id;
 *     4. devices that the program opened, with close_device or free_devices;
 *     5. the session, with close, which destroys and frees all ids that are left.
 *   An event may be freed before or after its id is destroyed. Each CONNECT_REQUEST event brings a new id,
 *   which has to be destroyed even if the program does not want it: that rejects the request. Call
 *   disconnect_wait before destroy_id where the program has to know that the peer was told.
 *
 * Threads
 *   A session and its ids can be used by several threads. An id must not be destroyed while another
 *   thread is inside a call on it; taking events is not a call on an id.
 *
 * Fork
 *   The session belongs to the process that opened it: in a child, calls return -EPERM and send nothing.
 */

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmabroker;
struct rdmabroker_id;

/* Deadlines are in milliseconds. There is no "for ever"; this is what a caller who does not care takes. */
#define RDMABROKER_TIMEOUT_DEFAULT 10000

/* Most private data that each message can carry, in bytes (InfiniBand and RoCE). */
#define RDMABROKER_CONNECT_DATA_MAX 56
#define RDMABROKER_ACCEPT_DATA_MAX 196
#define RDMABROKER_REJECT_DATA_MAX 148
/* The same for datagram look-ups (SIDR). */
#define RDMABROKER_LOOKUP_DATA_MAX 180
#define RDMABROKER_LOOKUP_ANSWER_DATA_MAX 136

enum rdmabroker_flags {
	RDMABROKER_NONBLOCK = 1 << 0, /* no call waits, see "Forms of the calls" */
	/*
	 * Call ibv_fork_init() first, as the environment variables RDMAV_FORK_SAFE and IBV_FORK_SAFE ask for
	 * too: the program forks, and its registered memory has to stay its own.
	 */
	RDMABROKER_FORK_SAFE = 1 << 1,
	/*
	 * connect_wait that is refused as busy, by this host's broker or by the peer's, comes again by
	 * itself, when it was told to and a little later by chance, until its deadline.
	 */
	RDMABROKER_RETRY_BUSY = 1 << 2,
};

struct rdmabroker_options {
	size_t size; /* sizeof(struct rdmabroker_options), so that the struct can grow */
	const char *socket; /* NULL: $RDMABROKER_SOCKET, else /run/rdmabroker/rdmabroker.sock */
	unsigned flags; /* of enum rdmabroker_flags; others are refused with -EINVAL */
	int call_timeout_ms; /* for calls that the broker answers at once; 0: the default */
};

enum rdmabroker_port_space {
	/* The numbers are rdma_cma.h's. */
	RDMABROKER_PS_IPOIB = 0x0002, /* datagrams and multicast with IPoIB's parameters */
	RDMABROKER_PS_TCP = 0x0106, /* reliable connections */
	RDMABROKER_PS_UDP = 0x0111, /* datagrams: look-ups instead of connections, and multicast */
	RDMABROKER_PS_IB = 0x013f, /* any QP type, addressed by service id */
};

enum rdmabroker_option {
	RDMABROKER_OPTION_TOS = 0, /* 0..255; the IP TOS / traffic class of the connection */
	RDMABROKER_OPTION_REUSEADDR = 1, /* 0: no, else yes */
	RDMABROKER_OPTION_AFONLY = 2, /* not 0: an IPv6 wildcard does not take the IPv4 port too */
	RDMABROKER_OPTION_ACK_TIMEOUT = 3, /* the QP's timeout is 4.096 us * 2^n; 0: for ever */
};

/* The numbers up to 15 are those of enum rdma_cm_event_type. */
enum rdmabroker_event_type {
	RDMABROKER_EVENT_ADDR_RESOLVED = 0,
	RDMABROKER_EVENT_ADDR_ERROR = 1,
	RDMABROKER_EVENT_ROUTE_RESOLVED = 2,
	RDMABROKER_EVENT_ROUTE_ERROR = 3,
	RDMABROKER_EVENT_CONNECT_REQUEST = 4,
	RDMABROKER_EVENT_CONNECT_RESPONSE = 5,
	RDMABROKER_EVENT_CONNECT_ERROR = 6,
	RDMABROKER_EVENT_UNREACHABLE = 7,
	RDMABROKER_EVENT_REJECTED = 8,
	RDMABROKER_EVENT_ESTABLISHED = 9,
	RDMABROKER_EVENT_DISCONNECTED = 10,
	RDMABROKER_EVENT_DEVICE_REMOVAL = 11,
	RDMABROKER_EVENT_MULTICAST_JOIN = 12,
	RDMABROKER_EVENT_MULTICAST_ERROR = 13,
	RDMABROKER_EVENT_ADDR_CHANGE = 14,
	RDMABROKER_EVENT_TIMEWAIT_EXIT = 15,
	RDMABROKER_EVENT_DONE = 64, /* the answer to a call, in a session that does not block */
	RDMABROKER_EVENT_LOST = 65, /* the broker is gone; no id; the last event of a session */
};

/* Who refused, on RDMABROKER_EVENT_REJECTED, and on UNREACHABLE where a look-up was refused. */
enum rdmabroker_rejecter {
	RDMABROKER_REJECTED_BY_NOBODY = 0, /* not a reject */
	RDMABROKER_REJECTED_BY_PEER, /* the peer's program: private data is its own */
	RDMABROKER_REJECTED_BY_POLICY, /* the peer's broker: code, retry_after_ms, text are set */
	RDMABROKER_REJECTED_NO_LISTENER, /* nobody listens there */
	RDMABROKER_REJECTED_STALE, /* the QP number is still in time wait at the peer */
	RDMABROKER_REJECTED_BY_TRANSPORT, /* any other reason of the connection manager, see status */
	RDMABROKER_REJECTED_ECE, /* the peer's program: no common enhanced connection options */
	RDMABROKER_REJECTED_TIMEOUT, /* the connection manager gave up on an answer */
};

/* Why the peer's broker refused. */
enum rdmabroker_reject_code {
	RDMABROKER_REJECT_NONE = 0,
	RDMABROKER_REJECT_DENIED = 1, /* a rule rejects it */
	RDMABROKER_REJECT_BUSY = 2, /* a limit is reached: try again after retry_after_ms */
	RDMABROKER_REJECT_NO_RULE = 3, /* no rule allows it */
	RDMABROKER_REJECT_DRAINING = 4, /* the broker is drained: it takes nothing new */
};

/*
 * Beware: a member that is left out is 0, and 0 is no default. { .private_data = ..., .private_data_len = ... }
 * asks for no retries, no RNR retries, and neither RDMA reads nor atomics. Where a call is given NULL instead of
 * this struct it takes responder_resources and initiator_depth 0xff, retry_count and rnr_retry_count 7.
 */
struct rdmabroker_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources; /* 0xff: as many as the device can */
	uint8_t initiator_depth; /* 0xff: as many as the device can */
	uint8_t flow_control;
	uint8_t retry_count; /* 0..7; more is 7 */
	uint8_t rnr_retry_count; /* 0..7, 7: for ever; more is 7 */
	uint8_t srq; /* for a QP that the library does not know */
	uint32_t qp_num; /* for a QP that the library does not know, else ignored */
};

/* What a datagram needs to reach the one who answered a look-up, or a multicast group. */
struct rdmabroker_ud_param {
	struct ibv_ah_attr ah_attr; /* for ibv_create_ah() */
	uint32_t qp_num;
	uint32_t qkey;
};

struct rdmabroker_event {
	enum rdmabroker_event_type type;
	int status; /* 0, a negative errno, or the transport's reason (REJECTED: enum ib_cm_rej_reason) */
	struct rdmabroker_id *id; /* on CONNECT_REQUEST the new id, the caller's to destroy */
	struct rdmabroker_id *listen_id; /* CONNECT_REQUEST only, else NULL */
	const char *call; /* DONE only: the name of the call that is answered, e.g. "bind_addr" */
	struct rdmabroker_conn_param conn; /* private_data is valid until the event is freed */
	struct rdmabroker_ud_param ud; /* ESTABLISHED of a look-up, MULTICAST_JOIN */
	void *join_context; /* MULTICAST_JOIN, MULTICAST_ERROR */
	struct ibv_ece remote_ece; /* CONNECT_REQUEST, CONNECT_RESPONSE; vendor_id 0: none */
	enum rdmabroker_rejecter rejected_by; /* REJECTED, and UNREACHABLE of a look-up */
	enum rdmabroker_reject_code reject_code; /* REJECTED_BY_POLICY only */
	unsigned retry_after_ms; /* with RDMABROKER_REJECT_BUSY */
	const char *text; /* words for a person; NULL: none; valid until the event is freed */
};

struct rdmabroker_failure {
	int error; /* negative errno, what the call returned */
	const char *text; /* what went wrong, for a person */
	const char *rule; /* the deciding rule as "file:line", or NULL where no rule decided */
	unsigned retry_after_ms; /* with -EBUSY: when to come again; else 0 */
};

struct rdmabroker_status {
	const char *version; /* of the daemon */
	const char *policy_error; /* "file:line:column: ..." of the last reload; NULL: none */
	unsigned n_rules;
	unsigned n_sessions;
	unsigned n_listeners;
	unsigned n_connections; /* established */
	unsigned n_ids; /* all, of any state */
	unsigned n_fds; /* open file descriptors of the daemon */
	unsigned n_leases;
	unsigned n_devices;
	const struct rdmabroker_device_status *devices;
	int draining; /* nothing new is taken, see rdmabroker_drain() */
	unsigned n_handshakes; /* asked for or accepted, not yet established */
	unsigned n_foreign_ids;
	const struct rdmabroker_foreign_ids *foreign_ids; /* of the devices that were looked at */
	unsigned n_warnings;
	const char *const *warnings; /* what an admin has to mend, in sentences for a person */
	int no_policy; /* none could be loaded since the start: everything is rejected */
	unsigned n_missing_names; /* of users and groups in the rules, which cannot be looked up */
};

struct rdmabroker_device_status {
	const char *name;
	const char *node;
	unsigned n_leases;
};

/* A process besides the daemon that holds ids of the connection manager on a device. No rule applies to these. */
struct rdmabroker_holder {
	int pid;
	uint32_t uid; /* its effective one; (uint32_t)-1: not known */
	const char *name; /* as it likes to call itself, printable; NULL: not known */
	unsigned n_ids;
	/* One of these ids: one that listens, if there is such, else one that connects or is connected. */
	const char *state; /* the kernel's word, as `rdma resource show cm_id` has it: "LISTEN" */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none */
};

/* Ids on a device that are not the daemon's. Those that the kernel uses itself are in none of the numbers. */
struct rdmabroker_foreign_ids {
	const char *device;
	uint64_t age_ms; /* since it was seen */
	size_t n_holders;
	const struct rdmabroker_holder *holders; /* of all devices together: the first 32 */
	unsigned n_more; /* ids of processes that are not listed */
	unsigned n_nameless; /* ids of threads that have ended: the kernel does not tell whose */
};

/* A rule, and what it has decided since the daemon started. */
struct rdmabroker_rule {
	const char *file; /* NULL: what is decided where no rule matches */
	unsigned line;
	const char *text; /* as written, on one line; cut to 511 bytes */
	uint64_t n_allowed, n_rejected;
	uint64_t n_busy; /* allowed, but refused for a limit */
	unsigned n_now; /* objects at a time that it has admitted */
	unsigned n_pending; /* of them: requests that wait for the client's accept */
};

/* A client of the daemon. */
struct rdmabroker_listed_session {
	uint64_t number; /* as the journal has it */
	uint32_t uid;
	int pid;
	const char *unit; /* of systemd; NULL: in none */
	const char *rule; /* "file:line" that admitted it; NULL: none, it is an admin's */
	uint64_t age_ms;
	unsigned n_ids;
	unsigned n_leases;
};

struct rdmabroker_listed_id {
	const struct rdmabroker_listed_session *session;
	uint32_t id; /* its number in the session */
	const char *state; /* one word, as "established"; see the man page */
	uint64_t age_ms; /* since it was made, or taken over */
	enum rdmabroker_port_space ps;
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none */
	const char *device; /* NULL: not bound to one */
	uint32_t qp_num; /* that was offered to the peer; 0: none */
	int tos; /* in force; -1: the kernel's default */
	const char *rule; /* "file:line" that admitted it; NULL: not decided yet */
};

struct rdmabroker_list {
	size_t n_sessions;
	const struct rdmabroker_listed_session *sessions; /* in the order they came */
	size_t n_ids;
	const struct rdmabroker_listed_id *ids; /* in the order of their sessions */
};

/* What to be told of: all to which everything here applies. To what is 0 or NULL anything does. */
struct rdmabroker_filter {
	size_t size; /* sizeof(struct rdmabroker_filter), so that the struct can grow */
	const char *kind; /* as in struct rdmabroker_notice */
	const char *operation; /* likewise; it does not apply to what has none */
	const char *outcome; /* likewise */
	const uint32_t *uid; /* whose it is */
	uint64_t session; /* likewise, by its number */
	const struct sockaddr *peer; /* its port does not count */
	uint16_t port; /* on this side or the other */
};

/* Something that happened. What is not known, or does not belong to the kind, is 0 or NULL. */
struct rdmabroker_notice {
	uint64_t n_lost; /* before this one: they were not taken in time */
	uint64_t time_ns; /* since 1970, by the daemon's clock */
	/*
	 * "decision": of policy; "cm": an event of the connection manager that a program is told; "session": one
	 * comes or goes; "lost": nothing but n_lost, where nothing else has come since
	 */
	const char *kind;
	/* Whose it is. */
	uint64_t session; /* its number */
	uint32_t uid;
	int pid;
	const char *unit; /* of systemd */
	uint32_t id; /* of whoever asks; of a request that comes the listener's */
	uint32_t request_id; /* "connect-request": the id that it brings */
	const char *operation; /* decision: a word of the rule language: "connect" */
	/* decision: "allowed", "rejected", or behind an "allowed" "busy": then a limit of the rule said no */
	const char *outcome;
	unsigned retry_after_ms; /* busy: when to come again */
	const char *event; /* cm: "established"; session: "opened", "closed"; see the man page */
	int status; /* cm: a negative errno, or the transport's reason */
	struct sockaddr_storage local, peer; /* AF_UNSPEC: none; the peer can be a group */
	const char *device;
	enum rdmabroker_port_space ps;
	uint32_t qp_num; /* that was offered to the peer */
	const char *rule; /* "file:line" that decided, or that admitted whom it is about */
	const char *rule_text; /* cut to 511 bytes */
	const char *reason; /* for a person */
};

/* Somebody's wish. What is 0 or NULL is not known; a rule that asks for it then may or may not match. */
struct rdmabroker_question {
	size_t size; /* sizeof(struct rdmabroker_question), so that the struct can grow */
	const char *operation; /* a word of the rule language: "connect" */
	uint32_t uid;
	const uint32_t *gids; /* primary and supplementary */
	size_t n_gids; /* at most 1024 */
	const char *unit; /* of systemd; NULL: in none */
	const struct sockaddr *local, *peer; /* their ports do not count */
	uint16_t port; /* the service's */
	const char *device;
	enum rdmabroker_port_space ps;
	const void *data; /* a request's private data */
	size_t data_len;
};

struct rdmabroker_explanation {
	int allow; /* 0: reject */
	const struct rdmabroker_rule *rule; /* that decides; NULL: none matches */
	const char *reason; /* on reject, else NULL */
	size_t n_effects;
	const char *const *effects; /* what would be set or limited: "tos 104" */
	/* What is not known could change the answer; the first rule that may match. NULL: it could not. */
	const struct rdmabroker_rule *depends;
};

struct rdmabroker_reload_result {
	int ok; /* 0: nothing has changed */
	unsigned n_rules; /* in force now */
	size_t n_complaints;
	const char *const *complaints; /* "file:line:column: text" */
};

/**
 * rdmabroker_open - Open a session with the broker.
 * @ret: The session, on success.
 * @options: NULL for the defaults.
 * Description:
 *   Connects to rdmabrokerd, which decides by policy operation "session" whether this user may talk to
 *   it. With socket activation the daemon is started by this call.
 * Ownership:
 *   The session is the caller's; close it with rdmabroker_close().
 * Returns:
 *   0; -ECONNREFUSED or -ENOENT where no broker runs; -EACCES where policy refuses the user; -EPROTO
 *   where the broker speaks another version; -EDQUOT at a limit of the user; -EBUSY at a limit of the
 *   rule; -EINVAL: options.size is too small, options.flags has a bit that this library does not know, or
 *   RDMABROKER_FORK_SAFE comes too late; -ETIMEDOUT.
 * Notes:
 *   Where it fails there is no session to ask: *@ret is left alone, and rdmabroker_open_error() has the
 *   words.
 * See also:
 *   rdma_create_event_channel, rdmabroker_close, rdmabroker_get_fd
 */
int rdmabroker_open(struct rdmabroker **ret, const struct rdmabroker_options *options);

/**
 * rdmabroker_open_error - Why this thread's last rdmabroker_open() failed.
 * Returns:
 *   A text for a person, never NULL; valid until the thread's next rdmabroker_open().
 */
const char *rdmabroker_open_error(void);

/**
 * rdmabroker_close - Close a session.
 * @session: The session; NULL is allowed.
 * Description:
 *   All ids of the session are destroyed, in the broker and here; connections are disconnected, leases
 *   of devices end. QPs that the library made are destroyed, and so are the device contexts it opened:
 *   destroy your own CQs, PDs and memory regions on them before.
 * Returns:
 *   NULL, always.
 * See also:
 *   rdma_destroy_event_channel
 */
struct rdmabroker *rdmabroker_close(struct rdmabroker *session);

/**
 * rdmabroker_get_fd - The session's descriptor, for poll, select and epoll.
 * Description:
 *   Readable when rdmabroker_get_event() has something to do. It may turn out that no event has come of
 *   it: then that call gives -EAGAIN.
 * Ownership:
 *   The session's: do not read, write or close it.
 */
int rdmabroker_get_fd(const struct rdmabroker *session);

/**
 * rdmabroker_get_failure - Why the session's last failed call of this thread failed.
 * @ret: Its pointers are valid until the thread's next call on the session.
 */
void rdmabroker_get_failure(struct rdmabroker *session, struct rdmabroker_failure *ret);

/**
 * rdmabroker_get_event - Take the next event.
 * @ret: The event, on success; free it with rdmabroker_free_event().
 * @timeout_ms: How long to wait for one; 0: not at all.
 * Description:
 *   As librdmacm does, this moves a QP that the library knows: on CONNECT_RESPONSE to RTR and RTS, then
 *   confirms the connection and reports ESTABLISHED; on REJECTED to ERR.
 * Returns:
 *   0; -EAGAIN: none within the time; -ECONNRESET: the broker is gone, and RDMABROKER_EVENT_LOST was
 *   taken before.
 * See also:
 *   rdma_get_cm_event, rdma_ack_cm_event
 */
int rdmabroker_get_event(struct rdmabroker *session, struct rdmabroker_event **ret, int timeout_ms);
/** rdmabroker_free_event - Give an event back. NULL is allowed. Returns NULL. */
struct rdmabroker_event *rdmabroker_free_event(struct rdmabroker_event *event);
/** rdmabroker_event_str - An event type's name, e.g. "RDMABROKER_EVENT_ESTABLISHED"; never NULL. */
const char *rdmabroker_event_str(enum rdmabroker_event_type type);

/**
 * rdmabroker_create_id - Make an id.
 * @context: The program's own, see rdmabroker_id_get_context().
 * @ps: The port space.
 * Description:
 *   The broker makes its part with the first call that asks something of the id, in one round trip, and what
 *   is wrong with that is what that call returns: -EDQUOT at a limit of the broker's, -ENODEV while the
 *   host has no RDMA device, -ESHUTDOWN while the broker is draining. The next call then tries again. With
 *   RDMABROKER_NONBLOCK it is asked at once, and an event DONE tells.
 * Returns:
 *   0; -EDQUOT at the session's limit of ids; -EINVAL: there is no such port space.
 * See also:
 *   rdma_create_id
 */
int rdmabroker_create_id(struct rdmabroker *session, struct rdmabroker_id **ret, void *context,
			 enum rdmabroker_port_space ps);
/**
 * rdmabroker_destroy_id - Destroy an id; NULL is allowed.
 * Description:
 *   Whatever is under way on it is ended: a connection is disconnected, a request that was not answered
 *   is rejected. Events of it that were not taken yet are dropped. A QP that the library made is
 *   destroyed. Does not wait for the broker, except for a listening id, at most call_timeout_ms, so that
 *   no request to it is left unanswered.
 * Returns:
 *   NULL, always.
 * See also:
 *   rdma_destroy_id
 */
struct rdmabroker_id *rdmabroker_destroy_id(struct rdmabroker_id *id);
/**
 * rdmabroker_destroy_id_wait - The same, and wait until the broker has let go of it.
 * Description:
 *   From then on its port is free for everybody. The id is destroyed here whatever is returned.
 */
int rdmabroker_destroy_id_wait(struct rdmabroker_id *id, int timeout_ms);

void *rdmabroker_id_get_context(const struct rdmabroker_id *id);
void rdmabroker_id_set_context(struct rdmabroker_id *id, void *context);
struct rdmabroker *rdmabroker_id_get_session(const struct rdmabroker_id *id);
/** The addresses as far as they are known; ss_family 0 where not. Valid while the id lives. */
const struct sockaddr *rdmabroker_id_get_local_addr(const struct rdmabroker_id *id);
const struct sockaddr *rdmabroker_id_get_peer_addr(const struct rdmabroker_id *id);
/** Ports in host order, 0 where not known (rdma_get_src_port, rdma_get_dst_port, but in host order). */
uint16_t rdmabroker_id_get_local_port(const struct rdmabroker_id *id);
uint16_t rdmabroker_id_get_peer_port(const struct rdmabroker_id *id);
/** The name of the device that the id is bound to ("rxe0"), or NULL; valid while the id lives. */
const char *rdmabroker_id_get_device(const struct rdmabroker_id *id);

/**
 * rdmabroker_set_option - Ask for an option before the address is bound or resolved.
 * Returns:
 *   0; -EACCES where policy forbids it; -ENOSYS: there is no such option; -EINVAL: out of range, or too
 *   late for it.
 * Notes:
 *   What policy forces is in force whatever is asked for here. An id with REUSEADDR cannot listen.
 * See also:
 *   rdma_set_option
 */
int rdmabroker_set_option(struct rdmabroker_id *id, enum rdmabroker_option option, int value);
/**
 * rdmabroker_get_option - What is in force, by the program's wish and by policy.
 * @ret: The value; -1: nothing was set, the kernel's default holds.
 * Returns:
 *   0; -ENOSYS: there is no such option.
 */
int rdmabroker_get_option(struct rdmabroker_id *id, enum rdmabroker_option option, int *ret);

/**
 * rdmabroker_bind_addr - Bind an id to a local address.
 * @addr: sockaddr_in or sockaddr_in6; the wildcard address and port 0 are allowed.
 * Returns:
 *   0; -EADDRINUSE: the port is taken; -EADDRNOTAVAIL: it is taken by a wildcard address, or @addr is a
 *   wildcard and it is taken on some address, or the address is not this host's (the failure's text says
 *   which, where that is known); -ENODEV: no RDMA device has the address; -EACCES: policy allows neither to
 *   listen nor to connect from there, or the port is below 1024 and no listen rule names it; -EINVAL: the
 *   id is bound already.
 * See also:
 *   rdma_bind_addr
 */
int rdmabroker_bind_addr(struct rdmabroker_id *id, const struct sockaddr *addr);

/**
 * rdmabroker_listen - Take requests from now on.
 * @backlog: Requests that may wait for their answer; what is past it is rejected as busy. 0: the broker's default, which
 *   is also the least. Policy may lower it.
 * Description:
 *   An id that is not bound takes the IPv4 wildcard address and a free port, which
 *   rdmabroker_id_get_local_port() tells.
 * Returns:
 *   0; -EACCES by policy; -EINVAL: bound with REUSEADDR, or it listens or connects already; -EADDRINUSE,
 *   -EADDRNOTAVAIL: the port is taken.
 * See also:
 *   rdma_listen
 */
int rdmabroker_listen(struct rdmabroker_id *id, int backlog);

/**
 * rdmabroker_resolve_addr - Find the device and the address by which @dst is reached.
 * @src: Bind to it first; NULL: the broker chooses.
 * @timeout_ms: When to give up; from 1, capped by the broker's configuration.
 * Description:
 *   Outcome: ADDR_RESOLVED, or ADDR_ERROR (status -EACCES where policy refuses what was found).
 * Returns:
 *   0; -EACCES: no rule allows to connect there; -EINVAL; with _wait the outcome.
 * See also:
 *   rdma_resolve_addr
 */
int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms);
int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms);
/**
 * rdmabroker_resolve_route - Find the route to the address that was resolved.
 * Description:
 *   Outcome: ROUTE_RESOLVED or ROUTE_ERROR; after an error it can be tried again.
 * See also:
 *   rdma_resolve_route
 */
int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms);
int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms);
/**
 * rdmabroker_resolve - Both of them, the address and then the route, with one request to the broker.
 * @src: As for resolve_addr.
 * @timeout_ms: As for resolve_addr, for each of the two; _wait gives up after it in all.
 * Description:
 *   Outcome: ADDR_RESOLVED and then ROUTE_RESOLVED or ROUTE_ERROR; or ADDR_ERROR. After ROUTE_ERROR the
 *   route can be tried again by itself. Options that the route depends on (TOS) are to be set before.
 * Returns:
 *   As resolve_addr.
 */
int rdmabroker_resolve(struct rdmabroker_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, int timeout_ms);
int rdmabroker_resolve_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms);

/**
 * rdmabroker_open_device - Get access to a device, and open it in this process.
 * @name: e.g. "rxe0"; NULL: the first that the broker has.
 * @ret: The context. A device that is open in this session already is given again.
 * Description:
 *   Policy operation "device". The context is this process's own: the data path does not touch the
 *   broker.
 * Ownership:
 *   The session's; rdmabroker_close_device() or rdmabroker_close() close it, once for each open.
 * Returns:
 *   0; -EACCES by policy; -ENODEV: no such device.
 * See also:
 *   ibv_open_device
 */
int rdmabroker_open_device(struct rdmabroker *session, const char *name, struct ibv_context **ret);
/** rdmabroker_close_device - End one rdmabroker_open_device(). The last one ends the lease. */
void rdmabroker_close_device(struct rdmabroker *session, struct ibv_context *context);
/**
 * rdmabroker_get_verbs - The context of the device that the id is bound to, opened if need be.
 * Ownership:
 *   The id's: it is given back when the id is destroyed.
 * Returns:
 *   0; -ENODEV: the id is not bound to a device; what rdmabroker_open_device() returns.
 */
int rdmabroker_get_verbs(struct rdmabroker_id *id, struct ibv_context **ret);

/**
 * rdmabroker_create_qp - Make a QP for the id and move it to INIT.
 * @pd: On the context of rdmabroker_get_verbs(); NULL: that of rdmabroker_get_pd().
 * @attr: As for ibv_create_qp(); what is in force is written back.
 * Ownership:
 *   The id's: rdmabroker_destroy_qp() or rdmabroker_destroy_id() destroy it.
 * Returns:
 *   0; -EINVAL: the id is not bound to a device, has a QP already, or @pd is of another context.
 * See also:
 *   rdma_create_qp
 */
int rdmabroker_create_qp(struct rdmabroker_id *id, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr);
/**
 * rdmabroker_set_qp - Use a QP that the program made, in state RESET; it is moved to INIT.
 * Ownership:
 *   Stays the program's: the library moves it and does not destroy it.
 */
int rdmabroker_set_qp(struct rdmabroker_id *id, struct ibv_qp *qp);
void rdmabroker_destroy_qp(struct rdmabroker_id *id);
/**
 * rdmabroker_get_pd - The PD that all ids of the session on this device share.
 * Ownership:
 *   The session's: it goes with the last rdmabroker_close_device() of its device.
 * See also:
 *   rdma_cm_id's pd
 */
int rdmabroker_get_pd(struct rdmabroker_id *id, struct ibv_pd **ret);
/** rdmabroker_get_qp - The id's QP, or NULL. */
struct ibv_qp *rdmabroker_get_qp(const struct rdmabroker_id *id);
/**
 * rdmabroker_init_qp_attr - What a QP of this id needs to go to attr->qp_state.
 * Description:
 *   For programs that move their QPs themselves: INIT, RTR or RTS.
 * See also:
 *   rdma_init_qp_attr
 */
int rdmabroker_init_qp_attr(struct rdmabroker_id *id, struct ibv_qp_attr *attr, int *mask);

/**
 * rdmabroker_connect - Send a connect request.
 * @param: May be NULL where the library knows the QP. Otherwise set all members, see
 *   struct rdmabroker_conn_param: 0 is no default.
 * Description:
 *   Outcome: ESTABLISHED where the library knows the QP, else CONNECT_RESPONSE, after which the program
 *   moves its QP and calls rdmabroker_establish(); or REJECTED, UNREACHABLE, CONNECT_ERROR. With _wait
 *   a stale reject is tried again up to five times, 10 ms apart, within the deadline.
 *   A QP number whose last connection is still in time wait is held back until that is over.
 * Returns:
 *   0; -EPERM: the QP number is not one of this process; -EACCES by policy; -EINVAL; -ESTALE: policy has
 *   changed, and the route was resolved with a traffic class that it does not allow: begin with a new id;
 *   with _wait also -ECONNREFUSED: rejected (see rdmabroker_get_reject()), -EHOSTUNREACH: no answer.
 * See also:
 *   rdma_connect
 */
int rdmabroker_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param);
int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms);

/**
 * rdmabroker_connect_to_wait - Resolve address and route, make a QP, and connect, in one go.
 * @id: One that nothing was done with yet, but for setting options. Not for datagrams.
 * @src: The local address, or NULL: the host's routes choose.
 * @dst: The peer's address and port.
 * @pd: Of the QP; NULL: the one that the session's ids share.
 * @attr: Of the QP. The device that its send_cq is of is the one that the way is believed to lead through.
 * @param: As with rdmabroker_connect().
 * @timeout_ms: For all of it; more than 0.
 * Description:
 *   One request to the broker where resolve, create_qp and connect take three or four, and four events.
 *   Where somebody of this host connected to @dst in the last 10 s the broker mostly has an address and a
 *   route for it already (SpareIds= in rdmabrokerd.conf(5)), and nothing is resolved. Policy decides as it
 *   does over rdmabroker_resolve_addr() and rdmabroker_connect(); what is tried again is the same.
 *
 *   It takes part in that from the second QP of a device in a session on; before it does the steps one by
 *   one. Of an id whose options were set, of a session with RDMABROKER_NONBLOCK, and where a rule sets
 *   ack-timeout, address and route are resolved each time. The first CQ of a session needs its device's
 *   context: rdmabroker_open_device(), or rdmabroker_get_verbs() of an id that has resolved an address.
 * Returns:
 *   0: the connection is established, and rdmabroker_get_qp() is its QP. -EXDEV: the way leads through
 *   another device, or the id is bound to another. What rdmabroker_resolve_addr(), rdmabroker_create_qp()
 *   and rdmabroker_connect_wait() return. After a failure there is no QP, and the id can be used again as
 *   if it had just been made.
 * See also:
 *   rdmabroker_resolve, rdmabroker_create_qp, rdmabroker_connect
 */
int rdmabroker_connect_to_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			       const struct sockaddr *dst, struct ibv_pd *pd,
			       struct ibv_qp_init_attr *attr,
			       const struct rdmabroker_conn_param *param, int timeout_ms);
/** rdmabroker_establish - Confirm a connection of a QP that the library does not know. */
int rdmabroker_establish(struct rdmabroker_id *id);
/**
 * rdmabroker_notify - Tell the connection manager what the QP's asynchronous events said.
 * @event: IBV_EVENT_COMM_EST: data came before the peer's confirmation.
 * See also:
 *   rdma_notify
 */
int rdmabroker_notify(struct rdmabroker_id *id, enum ibv_event_type event);

/**
 * rdmabroker_get_request - Wait for a connect request to a listening id.
 * @ret: The request, the caller's to destroy.
 * Description:
 *   Takes the id's next CONNECT_REQUEST; other events stay where they are.
 * Returns:
 *   0; -ETIMEDOUT; -ENODEV: the listener's device was removed.
 * See also:
 *   rdma_get_request
 */
int rdmabroker_get_request(struct rdmabroker_id *listen, struct rdmabroker_id **ret,
			   int timeout_ms);
/** rdmabroker_get_request_event - The event that brought a request of rdmabroker_get_request(). */
const struct rdmabroker_event *rdmabroker_get_request_event(const struct rdmabroker_id *id);

/**
 * rdmabroker_get_reject - The refusal that ended this id's rdmabroker_connect_wait().
 * Returns:
 *   The event, or NULL; valid while the id lives.
 */
const struct rdmabroker_event *rdmabroker_get_reject(const struct rdmabroker_id *id);

/**
 * rdmabroker_get_response - What the peer's program accepted this id's last connection with.
 * Description:
 *   Its conn has the private data and what else the peer said. Of rdmabroker_connect_wait() and
 *   rdmabroker_connect_to_wait() that succeeded; those that do not wait have it in their event.
 * Returns:
 *   The event, or NULL; valid while the id lives, until it is connected again.
 */
const struct rdmabroker_event *rdmabroker_get_response(const struct rdmabroker_id *id);

/**
 * rdmabroker_accept - Accept a connect request.
 * @param: As for rdmabroker_connect().
 * Description:
 *   A QP that the library knows is moved to RTR and RTS first. Outcome: ESTABLISHED, or CONNECT_ERROR.
 * Returns:
 *   0; -EPERM: the QP number is not one of this process; -EINVAL; -EACCES or -EBUSY: policy has changed since the
 *   request came, and its peer was told; -ESTALE: likewise, its peer is to ask again; with _wait the outcome.
 * See also:
 *   rdma_accept
 */
int rdmabroker_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param);
int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms);
/**
 * rdmabroker_reject - Reject a connect request.
 * @data: Goes to the peer; at most RDMABROKER_REJECT_DATA_MAX bytes; must not begin with "RDBK", by which
 *   a broker's own refusals are told apart.
 * Returns:
 *   0; -EINVAL; -E2BIG: too much private data.
 * See also:
 *   rdma_reject
 */
int rdmabroker_reject(struct rdmabroker_id *id, const void *data, uint8_t len);
/** rdmabroker_reject_ece - The same, for want of common enhanced connection options (rdma_reject_ece). */
int rdmabroker_reject_ece(struct rdmabroker_id *id, const void *data, uint8_t len);

/**
 * rdmabroker_get_remote_ece - The peer's enhanced connection establishment options.
 * @ret: From the request or the response; vendor_id 0: it has none.
 * Returns:
 *   0; -EINVAL: the library knows the QP, and so has dealt with it.
 * See also:
 *   rdma_get_remote_ece, ibv_query_ece
 */
int rdmabroker_get_remote_ece(const struct rdmabroker_id *id, struct ibv_ece *ret);
/**
 * rdmabroker_set_local_ece - Ours, before accept or connect.
 * Notes:
 *   Only for a QP that the library does not know; of one that it knows it asks the device.
 * Returns:
 *   0; -EINVAL: the library knows the QP, or the vendor id is 0.
 * See also:
 *   rdma_set_local_ece
 */
int rdmabroker_set_local_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);

/**
 * rdmabroker_join_multicast - Join a multicast group.
 * @addr: The group.
 * @join_flags: 1: full member; 2: send only.
 * @context: Comes back in the event's join_context.
 * Description:
 *   Policy operation "join". The id is bound to a device. Outcome: MULTICAST_JOIN, whose ud tells how to
 *   send, or MULTICAST_ERROR. A QP that the library knows is attached before the event is taken.
 * Returns:
 *   0; -EACCES by policy; -EEXIST: joined already; -EINVAL.
 * See also:
 *   rdma_join_multicast_ex
 */
int rdmabroker_join_multicast(struct rdmabroker_id *id, const struct sockaddr *addr,
			      unsigned join_flags, void *context);
int rdmabroker_join_multicast_wait(struct rdmabroker_id *id, const struct sockaddr *addr,
				   unsigned join_flags, struct rdmabroker_ud_param *ret,
				   int timeout_ms);
/** rdmabroker_leave_multicast - Leave a group. -EADDRNOTAVAIL: it was not joined. */
int rdmabroker_leave_multicast(struct rdmabroker_id *id, const struct sockaddr *addr);

/**
 * rdmabroker_export_id - Make a descriptor that stands for an id.
 * @ret_fd: The caller's to pass on (SCM_RIGHTS) and to close.
 * Description:
 *   Whoever holds the descriptor can take the id over with rdmabroker_import_id(), once. Meant for connect
 *   requests that are handed to a worker, which makes the QP and accepts; any id without a QP of the
 *   library's and without a joined group will do. Until it is taken over the id stays as it is;
 *   afterwards it can only be destroyed here, which does nothing to it there.
 * Returns:
 *   0; -EINVAL: the id has a QP, or is exported already; -EBUSY: it has joined groups.
 * See also:
 *   rdma_migrate_id
 */
int rdmabroker_export_id(struct rdmabroker_id *id, int *ret_fd);
/**
 * rdmabroker_import_id - Take an id over.
 * @fd: Of rdmabroker_export_id(), in this process or another; stays the caller's to close.
 * @ret: The id; its context is NULL.
 * Description:
 *   The id is this session's from now on, and charged to its user; its events come here.
 * Returns:
 *   0; -EBADF: not a descriptor of an id, used before, or the id is gone; -EDQUOT; -EACCES or -EBUSY: policy does
 *   not let this user do what the id is for; then it stays whose it was.
 */
int rdmabroker_import_id(struct rdmabroker *session, int fd, struct rdmabroker_id **ret);
/**
 * rdmabroker_migrate_id - Move an id to another session of this process.
 * Description:
 *   The id stays what it is, with its QP; its events come to @session from now on, those included that
 *   were not taken yet. Requests that a listening id was sent and nobody took are rejected.
 * Returns:
 *   0; what rdmabroker_export_id() and rdmabroker_import_id() return: then nothing has changed.
 * See also:
 *   rdma_migrate_id
 */
int rdmabroker_migrate_id(struct rdmabroker_id *id, struct rdmabroker *session);

/**
 * rdmabroker_disconnect - End a connection.
 * Description:
 *   A QP that the library knows is moved to ERR, so that its work requests are flushed. Outcome:
 *   DISCONNECTED, here and at the peer. Where that has come already nothing more is done: the broker has
 *   answered the peer, whose own call does not wait for this program.
 * See also:
 *   rdma_disconnect
 */
int rdmabroker_disconnect(struct rdmabroker_id *id);
int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms);
/**
 * rdmabroker_wait_disconnected - Wait until a connection has ended, by whichever side.
 * @timeout_ms: How long; a connection may last, so a server calls it again after -ETIMEDOUT.
 * Description:
 *   Nothing is asked of the peer. Takes the id's DISCONNECTED; other events stay where they are. Where
 *   that was taken before, also by rdmabroker_get_event(), it returns at once. The QP is left as it is:
 *   rdmabroker_disconnect() moves it to ERR, which flushes its work requests, and
 *   rdmabroker_destroy_qp() destroys it.
 * Returns:
 *   0; -ETIMEDOUT: it has not ended; -ENODEV: the device was removed; -ECONNREFUSED, -EHOSTUNREACH and what
 *   CONNECT_ERROR says, where the connection failed before it was made; -EINVAL: the id is one for
 *   datagrams.
 * See also:
 *   rdmabroker_get_request, rdmabroker_accept_wait
 */
int rdmabroker_wait_disconnected(struct rdmabroker_id *id, int timeout_ms);

/**
 * rdmabroker_get_devices - Open all devices that policy lets this user have.
 * @ret: An array of contexts that ends with NULL; free it with rdmabroker_free_devices().
 * @ret_n: How many; may be NULL.
 * Returns:
 *   0; -ENODEV: none.
 * See also:
 *   rdma_get_devices, rdmabroker_open_device
 */
int rdmabroker_get_devices(struct rdmabroker *session, struct ibv_context ***ret, size_t *ret_n);
/** rdmabroker_free_devices - Close what rdmabroker_get_devices() opened. */
void rdmabroker_free_devices(struct rdmabroker *session, struct ibv_context **devices);

struct addrinfo;

/**
 * rdmabroker_getaddrinfo - Addresses for a name and a service, as getaddrinfo(3) and for its flags.
 * Description:
 *   Uses ordinary name resolution, not the broker. Free the list with freeaddrinfo(3).
 * Returns:
 *   0, or a negative errno, -ENOENT for an unknown name.
 * See also:
 *   rdma_getaddrinfo
 */
int rdmabroker_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			   struct addrinfo **ret);
/**
 * rdmabroker_create_ep - An id that is ready: bound to be listened on, or resolved to be connected.
 * @info: Of rdmabroker_getaddrinfo(); with AI_PASSIVE among its flags the id is bound, else resolved.
 * @pd: As for rdmabroker_create_qp(); ignored without @attr.
 * @attr: The QP to make for an id that is resolved; NULL: none.
 * @timeout_ms: For the whole of it.
 * See also:
 *   rdma_create_ep
 */
int rdmabroker_create_ep(struct rdmabroker *session, struct rdmabroker_id **ret,
			 const struct addrinfo *info, enum rdmabroker_port_space ps,
			 struct ibv_pd *pd, struct ibv_qp_init_attr *attr, int timeout_ms);

/**
 * rdmabroker_get_fork_status - Whether fork(2) is safe for registered memory.
 * Returns:
 *   What ibv_is_fork_initialized() says, an enum ibv_fork_status.
 */
int rdmabroker_get_fork_status(void);

/**
 * rdmabroker_get_status - What the daemon is doing, for its admin.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_status().
 * Returns:
 *   0; -EACCES: only observers may ask: root, the daemon's own user, and whom policy allows the operation
 *   "observe" or "admin".
 */
int rdmabroker_get_status(struct rdmabroker *session, struct rdmabroker_status **ret);
struct rdmabroker_status *rdmabroker_free_status(struct rdmabroker_status *status);

/**
 * rdmabroker_get_rules - The rules in force, in their order, and what they have decided.
 * @ret: @ret_n of them. The last one is not of the files: it stands for what no rule matches.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_rules().
 * Returns:
 *   0; -EACCES: only observers may ask (policy operation "observe").
 * Notes:
 *   A reload in between can leave rules of both policies in the list.
 */
int rdmabroker_get_rules(struct rdmabroker *session, struct rdmabroker_rule **ret, size_t *ret_n);
struct rdmabroker_rule *rdmabroker_free_rules(struct rdmabroker_rule *rules);

/**
 * rdmabroker_get_list - All sessions with the daemon, this one included, and their ids.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_list().
 * Returns:
 *   0; -EACCES: only observers may ask (policy operation "observe").
 * Notes:
 *   What comes and goes while a long list is told may be missing in it.
 */
int rdmabroker_get_list(struct rdmabroker *session, struct rdmabroker_list **ret);
struct rdmabroker_list *rdmabroker_free_list(struct rdmabroker_list *list);

/**
 * rdmabroker_kick - End somebody's session, or one id of it.
 * @number: The session, as rdmabroker_get_list() tells it.
 * @id: 0: the whole session; its program gets RDMABROKER_EVENT_LOST.
 * Description:
 *   A connection is disconnected: both sides get DISCONNECTED. A request that waits to be accepted is
 *   rejected, and so is known to its program by CONNECT_ERROR, as is the end of a connection that was not
 *   made yet. Anything else is taken away, which is DEVICE_REMOVAL with status -EACCES. The daemon's
 *   journal says who did it. Nobody is kept from coming again: that is for a rule.
 * Returns:
 *   0; -EBADF: there is none such; -EINVAL: the id is at its end already, or the session is the caller's
 *   own; -EACCES: only admins may (policy operation "admin").
 */
int rdmabroker_kick(struct rdmabroker *session, uint64_t number, uint32_t id);

/**
 * rdmabroker_drain - Have the daemon take nothing new; what exists goes on.
 * @cancel: Not 0: take it back.
 * Description:
 *   Until it is taken back, or the daemon ends, all clients get -ESHUTDOWN from create_id, resolve_addr,
 *   listen, connect, accept and join_multicast; peers are rejected with RDMABROKER_REJECT_DRAINING. How
 *   many connections are left is in rdmabroker_get_status().
 * Returns:
 *   0; -EACCES: only admins may (policy operation "admin").
 */
int rdmabroker_drain(struct rdmabroker *session, int cancel);

/**
 * rdmabroker_get_metrics - What the daemon has counted, as text in the format of OpenMetrics 1.0.
 * Ownership:
 *   *@ret is the caller's; free it with free(3).
 * Returns:
 *   0; -EACCES: only observers may ask (policy operation "observe").
 */
int rdmabroker_get_metrics(struct rdmabroker *session, char **ret);

/**
 * rdmabroker_watch - Be told of what happens, to all clients of the daemon, from now on.
 * @filter: Of what; NULL: of all. Called again, the last filter counts.
 * Description:
 *   Each decision of policy, each event of the connection manager that a program is told, and each session
 *   that comes or goes is a notice: see rdmabroker_get_notice(). It ends with the session; use one that does
 *   nothing else, for notices wait in the place of events.
 * Returns:
 *   0; -EINVAL: the filter makes no sense; -EACCES: only observers may (policy operation "observe").
 */
int rdmabroker_watch(struct rdmabroker *session, const struct rdmabroker_filter *filter);
/**
 * rdmabroker_get_notice - Take the next notice.
 * @ret: The notice, on success; free it with rdmabroker_free_notice().
 * @timeout_ms: How long to wait for one; 0: not at all.
 * Description:
 *   While notices wait, rdmabroker_get_fd() is readable. Who is too slow loses some, and nothing else: the
 *   next one says how many. The daemon does not wait.
 * Returns:
 *   0; -EAGAIN: none within the time; -EINVAL: rdmabroker_watch() comes first; -ECONNRESET: the broker is
 *   gone, and all that it said was taken.
 */
int rdmabroker_get_notice(struct rdmabroker *session, struct rdmabroker_notice **ret,
			  int timeout_ms);
/** rdmabroker_free_notice - Give a notice back. NULL is allowed. Returns NULL. */
struct rdmabroker_notice *rdmabroker_free_notice(struct rdmabroker_notice *notice);

/**
 * rdmabroker_explain - What policy would say, now, to somebody's wish. Nothing is done or counted.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_explanation().
 * Returns:
 *   0; -EINVAL: there is no such operation, or the question makes no sense; -EACCES: only observers
 *   may ask (policy operation "observe").
 */
int rdmabroker_explain(struct rdmabroker *session, const struct rdmabroker_question *question,
		       struct rdmabroker_explanation **ret);
struct rdmabroker_explanation *
rdmabroker_free_explanation(struct rdmabroker_explanation *explanation);

/**
 * rdmabroker_reload - Have the daemon read its configuration and its policy again, all or nothing.
 * Ownership:
 *   *@ret is the caller's; free it with rdmabroker_free_reload_result().
 * Returns:
 *   0: see the result for how it went; -EACCES: only admins may (policy operation "admin").
 */
int rdmabroker_reload(struct rdmabroker *session, struct rdmabroker_reload_result **ret);
struct rdmabroker_reload_result *
rdmabroker_free_reload_result(struct rdmabroker_reload_result *result);

/** rdmabroker_version - The library's version, e.g. "0.1.0". */
const char *rdmabroker_version(void);

#ifdef __cplusplus
}
#endif

#endif
