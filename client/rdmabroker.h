/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef RDMABROKER_H
#define RDMABROKER_H

/*
 * librdmabroker: RDMA connection management through rdmabrokerd.
 *
 * The calls correspond to those of rdma_cma.h: a session is an event channel, an id is an rdma_cm_id. Not the program
 * but the broker opens /dev/infiniband/rdma_cm, and sets up the connections that policy allows. QPs and memory
 * regions belong to the program, in its own process.
 *
 * Forms of the calls
 *   Calls that return int return 0 or a negative errno, except rdmabroker_get_fd(). They do not report errors in
 *   errno. rdmabroker_last_failure() returns the reason of a failure as text. The order of parameters is: the object,
 *   the inputs, the timeout, the results.
 *
 *   A call that the broker answers at once (bind, listen, ...) waits for the reply, at most the session's
 *   call_timeout_ms. A call whose outcome takes time (resolve, connect, ...) returns once the broker has accepted the
 *   request, and an event reports the outcome. Its _wait form waits for the outcome, at most timeout_ms.
 *
 *   In a session with RDMABROKER_NONBLOCK a call returns once its request is sent, and an event
 *   RDMABROKER_EVENT_DONE reports the reply. If the call has an outcome event, DONE (of connect and accept: or
 *   CONNECT_ERROR) comes only on failure. For destroy_id and close_device no DONE comes. -EAGAIN: the socket is full,
 *   and nothing was sent; take events, then retry. librdmabroker(3) lists the calls that wait nevertheless.
 *
 *   A program that must not wait opens its session and its devices (get_devices) before its event loop begins, and
 *   keeps them open. Then a call without _wait that sets up or ends a connection waits only for QP attributes that no
 *   event has carried. destroy_id and get_event also wait while the socket is full. Opening a device, registering
 *   memory and destroying a QP are calls into the kernel, which can block.
 *
 *   Every wait ends: with the result, with -ETIMEDOUT at the deadline (get_event and get_notice: -EAGAIN), or with
 *   -ECONNRESET if the broker is gone. After -ECONNRESET, take the events that are left, and close the session.
 *
 * Structs and enums
 *   Every struct begins with its size, so that later versions of the library can append members to it. Initialize
 *   a struct that you pass to a call with the struct's macro, which sets size and the defaults:
 *   struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT. -EINVAL: size is not set. -EOPNOTSUPP: the
 *   program is newer than the library, and sets a member or a flag that the library does not know. In a struct that
 *   a call returns, size is the number of bytes that the call has set. If your program can run with a library older
 *   than its header, test new members with RDMABROKER_HAS(). Later versions can return further values of enums:
 *   handle unknown values by a default.
 *
 * Teardown
 *   Destroy in this order:
 *     1. the QP, with destroy_qp;
 *     2. the completion queues, memory regions and PDs that the program made on the device;
 *     3. the id, with destroy_id, which disconnects, and closes the device that get_verbs opened for the id;
 *     4. devices that the program opened, with close_device or free_devices;
 *     5. the session, with close, which destroys and frees all ids that are left.
 *   An event can be freed before or after its id is destroyed. Each CONNECT_REQUEST event has a new id, which the
 *   program has to destroy. Destroying the id rejects the request if it was not answered. If the program has to know
 *   that the connection has ended, it calls disconnect_wait before destroy_id.
 *
 * Threads
 *   Several threads can use a session and its ids. An id must not be destroyed while another thread is inside a
 *   call on the id. rdmabroker_get_event() does not count as a call on an id.
 *
 * Fork
 *   A session belongs to the process that opened it. In a child process its calls send nothing, and return -EPERM if
 *   they need the broker.
 */

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdmabroker;
struct rdmabroker_id;

/* Whether the running library knows MEMBER. STRUCT_ points to a struct that a call returned. */
#define RDMABROKER_HAS(struct_, member)                                                \
	((size_t)((const char *)(&(struct_)->member + 1) - (const char *)(struct_)) <= \
	 (struct_)->size)

/* In ms: the default of call_timeout_ms, and a timeout for programs that do not need another. */
#define RDMABROKER_TIMEOUT_DEFAULT 10000

/* The maximum size of the private data in each message, in bytes (InfiniBand and RoCE). */
#define RDMABROKER_CONNECT_DATA_MAX 56
#define RDMABROKER_ACCEPT_DATA_MAX 196
#define RDMABROKER_REJECT_DATA_MAX 148
/* The maximum size of the private data of datagram look-ups (SIDR) and of their answers, in bytes. */
#define RDMABROKER_LOOKUP_DATA_MAX 180
#define RDMABROKER_LOOKUP_ANSWER_DATA_MAX 136

enum rdmabroker_flags {
	RDMABROKER_NONBLOCK = 1 << 0, /* calls do not wait, except as in "Forms of the calls" */
	/*
	 * For programs that fork after they have registered memory: open calls ibv_fork_init() if the kernel needs
	 * it. RDMAV_FORK_SAFE or IBV_FORK_SAFE in the environment has the same effect, but open ignores a failure.
	 */
	RDMABROKER_FORK_SAFE = 1 << 1,
	/* If either host's broker rejects as busy, connect_wait retries until its deadline. */
	RDMABROKER_RETRY_BUSY = 1 << 2,
	/*
	 * If the library knows that the id's state allows a resolve, connect, accept, establish or disconnect, the
	 * call does not wait for its reply. A DONE event then reports a failure. For set_option see librdmabroker(3).
	 */
	RDMABROKER_FAIL_BY_EVENT = 1 << 3,
	/*
	 * The program replies to a peer's disconnect, by rdmabroker_disconnect() or by destroying the id, and the peer
	 * waits for that, as with librdmacm. Without the flag the broker replies at once.
	 */
	RDMABROKER_CONFIRM_DISCONNECT = 1 << 4,
	/* The program does not poll the session: rdmabroker_get_fd() returns -1, and the session takes one descriptor, not three. */
	RDMABROKER_NO_POLL = 1 << 5,
	/* 1 << 6 and 1 << 7 are for rdmabrokerctl and other programs of this package. */
	/*
	 * With options.replies: the program does not close the session's descriptor, and then open something else under its
	 * number, as librdmacm trusts it not to with a channel's. Without the flag the library looks before each use
	 * whether the descriptor is still its own, which takes one more system call each time.
	 */
	RDMABROKER_TRUST_FD = 1 << 8,
	/*
	 * The process starts, and it is not known whether it needs RDMA: rdmabroker_open(), and rdmabroker_lease_devices()
	 * without a name directly after it, wait at most 100 ms for an answer of the broker, and the latter sends no
	 * request after 600 ms; and the broker does not note if policy refuses them. Other calls are not concerned.
	 */
	RDMABROKER_AT_START = 1 << 9,
};

struct rdmabroker_options {
	size_t size;
	const char *socket; /* NULL: $RDMABROKER_SOCKET, else /run/rdmabroker/rdmabroker.sock */
	unsigned flags; /* of enum rdmabroker_flags; others are refused with -EOPNOTSUPP */
	int call_timeout_ms; /* for calls that the broker answers at once; 0: RDMABROKER_TIMEOUT_DEFAULT */
	/*
	 * Another session of this process, by whose socket the replies come; NULL: by the session's own. The session
	 * then takes one descriptor, its socket, see rdmabroker_get_fd(). A program opens one session for replies,
	 * usually with RDMABROKER_NO_POLL, and one with these options for each event channel. Not with
	 * RDMABROKER_NONBLOCK or RDMABROKER_NO_POLL. rdmabroker_close() of the other session takes effect when all
	 * such sessions are closed.
	 */
	struct rdmabroker *replies;
};

#define RDMABROKER_OPTIONS_INIT                                     \
	{                                                           \
		sizeof(struct rdmabroker_options), NULL, 0, 0, NULL \
	}

enum rdmabroker_port_space {
	/* The values are those of rdma_cma.h. */
	RDMABROKER_PS_IPOIB = 0x0002, /* datagrams and multicast with IPoIB's parameters */
	RDMABROKER_PS_TCP = 0x0106, /* reliable connections */
	RDMABROKER_PS_UDP = 0x0111, /* datagrams: look-ups instead of connections, and multicast */
	RDMABROKER_PS_IB = 0x013f, /* reliable connections in InfiniBand's port space */
};

enum rdmabroker_option {
	RDMABROKER_OPTION_TOS = 0, /* 0..255; the IP TOS / traffic class of the connection */
	RDMABROKER_OPTION_REUSEADDR = 1, /* 0: no, else yes */
	RDMABROKER_OPTION_AFONLY = 2, /* not 0: the IPv6 wildcard address does not include IPv4 */
	RDMABROKER_OPTION_ACK_TIMEOUT = 3, /* n: QP timeout 4.096 us * 2^n; 0: no timeout */

	/* Options that librdmacm does not have. */
	RDMABROKER_OPTION_MIN_RNR_TIMER = 64, /* 0..31: enum ibv_rnr_timer of verbs.h */
	/*
	 * before the id is bound: IBV_QPT_RC, or IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV or, with RDMABROKER_PS_IB, IBV_QPT_UC or
	 * IBV_QPT_UD for connections of such QPs; then neither REUSEADDR nor AFONLY can be set. With IBV_QPT_UD it is a datagram id.
	 */
	RDMABROKER_OPTION_QP_TYPE = 65,
};

/* The values up to 15 are those of enum rdma_cm_event_type. */
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
	RDMABROKER_EVENT_USER = 18, /* from rdmabroker_write_event() */
	RDMABROKER_EVENT_INTERNAL = 19, /* the same, for a library above this one */
	RDMABROKER_EVENT_DONE = 64, /* the reply to a call that did not wait for it */
	RDMABROKER_EVENT_LOST = 65, /* the broker is gone; the session's last event; no id */
};

/* Who rejected. Set in REJECTED, and in UNREACHABLE if a look-up was rejected. */
enum rdmabroker_rejecter {
	RDMABROKER_REJECTED_BY_NOBODY = 0, /* not a reject */
	RDMABROKER_REJECTED_BY_PEER = 1, /* the peer's program; the private data is from it */
	RDMABROKER_REJECTED_BY_POLICY = 2, /* the peer's broker: reject_code and text are set */
	RDMABROKER_REJECTED_NO_LISTENER = 3, /* no listener at that address and port */
	RDMABROKER_REJECTED_STALE = 4, /* the peer still has a connection of this QP number */
	/* Any other reason, see status. On iWARP also a reject without private data, and a missing listener. */
	RDMABROKER_REJECTED_BY_TRANSPORT = 5,
	RDMABROKER_REJECTED_ECE = 6, /* the peer's program: there are no common ECE options */
	RDMABROKER_REJECTED_TIMEOUT = 7, /* the peer's connection manager timed out */
};

/* The reason why the peer's broker rejected. */
enum rdmabroker_reject_code {
	RDMABROKER_REJECT_NONE = 0,
	RDMABROKER_REJECT_DENIED = 1, /* a rule rejects the connection */
	RDMABROKER_REJECT_BUSY = 2, /* a limit is reached: retry after retry_after_ms */
	RDMABROKER_REJECT_NO_RULE = 3, /* no rule allows the connection */
	RDMABROKER_REJECT_DRAINING = 4, /* the broker is draining: it accepts nothing new */
};

struct rdmabroker_conn_param {
	size_t size;
	const void *private_data;
	size_t private_data_len; /* at most as in the _DATA_MAX macros; in an event at most 255 */
	uint32_t qp_num; /* for a QP that the library does not know, else ignored */
	uint8_t responder_resources; /* 0xff: the device's maximum; in an accept at most the request's value */
	uint8_t initiator_depth; /* 0xff: as for responder_resources */
	uint8_t retry_count; /* 0..7; higher values count as 7 */
	uint8_t rnr_retry_count; /* 0..7, 7: without a limit; higher values count as 7 */
	bool flow_control;
	bool srq; /* for a QP that the library does not know, else ignored */
	uint8_t unused[6]; /* must be 0 */
};

/* The defaults, also for a call with NULL: the device's maxima, and 7 for both retry counts. */
#define RDMABROKER_CONN_PARAM_INIT                                                                \
	{                                                                                         \
		sizeof(struct rdmabroker_conn_param), NULL, 0, 0, 0xff, 0xff, 7, 7, false, false, \
		{                                                                                 \
			0                                                                         \
		}                                                                                 \
	}

enum rdmabroker_join_flags {
	RDMABROKER_JOIN_FULL_MEMBER = 1 << 0,
	RDMABROKER_JOIN_SEND_ONLY = 1 << 1,
};

/* Where to send datagrams: to the peer that answered a look-up, or to a multicast group. */
struct rdmabroker_ud_param {
	size_t size;
	uint32_t qp_num;
	uint32_t qkey;
	struct ibv_ah_attr ah_attr; /* for ibv_create_ah() */
};

/* All members but size are 0. */
#define RDMABROKER_UD_PARAM_INIT                                    \
	{                                                           \
		sizeof(struct rdmabroker_ud_param), 0, 0,           \
		{                                                   \
			{ { { 0 } }, 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0 \
		}                                                   \
	}

/* conn, ud, call, text and paths are valid until the event is freed. */
struct rdmabroker_event {
	size_t size;
	enum rdmabroker_event_type type;
	int status; /* 0, a negative errno, or the transport's reason (REJECTED: enum ib_cm_rej_reason) */
	struct rdmabroker_id *id; /* CONNECT_REQUEST: the new id, which the caller has to destroy */
	struct rdmabroker_id *listen_id; /* CONNECT_REQUEST only, else NULL */
	const char *call; /* DONE only: the name of the call, e.g. "bind_addr" */
	/* conn and ud are never NULL. Members that the event does not have are 0. */
	const struct rdmabroker_conn_param *conn;
	struct rdmabroker_ud_param *ud; /* ESTABLISHED of a look-up, MULTICAST_JOIN */
	void *join_context; /* MULTICAST_JOIN, MULTICAST_ERROR */
	struct ibv_ece remote_ece; /* CONNECT_REQUEST, CONNECT_RESPONSE; vendor_id 0: none */
	enum rdmabroker_rejecter rejected_by; /* REJECTED, and UNREACHABLE of a look-up */
	enum rdmabroker_reject_code reject_code; /* REJECTED_BY_POLICY only */
	unsigned retry_after_ms; /* REJECT_BUSY, and -EBUSY in DONE and CONNECT_ERROR */
	const char *text; /* an explanation for a person; NULL: none */
	/*
	 * ROUTE_RESOLVED, CONNECT_REQUEST: the id's paths, as in rdma_cma.h's struct rdma_route. There are none on iWARP, for
	 * look-ups at their listener, and if the broker does not tell them.
	 */
	const struct ibv_sa_path_rec *paths; /* NULL: n_paths is 0 */
	size_t n_paths;
	uint64_t arg; /* USER, INTERNAL; else 0 */
};

struct rdmabroker_failure {
	size_t size;
	int error; /* negative errno, what the call returned; 0: no call of this thread has failed */
	unsigned retry_after_ms; /* with -EBUSY: the time after which to retry; else 0 */
	const char *text; /* what went wrong, for a person; never NULL */
	const char *rule; /* the rule that decided, as "file:line"; NULL: no rule decided */
};

/**
 * rdmabroker_open - Open a session with the broker.
 * @options: NULL for the defaults.
 * @ret: The session, on success; on failure *@ret is not changed.
 * Description:
 *   Connects to rdmabrokerd, which socket activation starts if necessary. Policy operation "session" decides whether
 *   this user gets a session.
 * Ownership:
 *   The session is the caller's; close it with rdmabroker_close().
 * Returns:
 *   0; -ECONNREFUSED or -ENOENT: no broker runs; -EACCES: policy or the socket's mode rejects the user; -EPROTO: the
 *   broker uses another protocol version; -EDQUOT: a limit of the user is reached; -EBUSY: a limit of the rule is
 *   reached; -EOPNOTSUPP: options.flags has a bit that this library does not know; -EINVAL: RDMABROKER_FORK_SAFE is
 *   set after memory was registered, or the kernel does not support it; -ETIMEDOUT.
 * See also: rdma_create_event_channel, rdmabroker_close, rdmabroker_get_fd
 */
int rdmabroker_open(const struct rdmabroker_options *options, struct rdmabroker **ret);

/**
 * rdmabroker_restrict - Narrow what a session can do.
 * @rules: Rules in the language of rdmabroker.rules(5), one a line; at most 32, with 1023 bytes. They say what can be
 *   done: the words are local, peer, port, device, ps, pkey, data and reason, and the operations device, listen, connect, accept,
 *   join, observe and admin. What no rule allows is rejected.
 * @max_ids: The most ids that all sessions with this restriction can have together; 0: no limit.
 * Description:
 *   From now on the broker rejects what these rules do not allow, and, as before, what its policy does not allow. A
 *   session can be restricted again, up to 4 times; nothing takes a restriction back. The session must not have ids,
 *   devices or a watch yet.
 * Returns:
 *   0; -EINVAL: a rule has an error, or the session has something already; -EDQUOT: the session was restricted 4
 *   times; -EOPNOTSUPP: the broker is too old.
 * See also: rdmabroker_publish, rdmabroker_release
 */
int rdmabroker_restrict(struct rdmabroker *session, const char *rules, unsigned max_ids);

/**
 * rdmabroker_publish - Make a socket whose sessions have this session's restrictions.
 * @path: The socket's path, on success.
 * @size: Of @path, in bytes; 108 are enough.
 * Description:
 *   For a container or a program that must not reach the broker's own socket, or that opens several sessions. Programs
 *   use the socket if the environment variable RDMABROKER_SOCKET, or options.socket, names it. A container gets the
 *   socket's directory, which has a name that nobody can guess, and nothing else in it. The broker decides by the user
 *   who connects, as for its own socket.
 * Ownership:
 *   The socket is the session's: it is gone when the session is closed, or its process ends. Sessions that were opened
 *   by it go on.
 * Returns:
 *   0; also if the session has a socket already, with the same path; -EINVAL: the session has no restriction; -ERANGE:
 *   @size is too small; -EDQUOT: a limit of the user is reached; or why the broker cannot make the socket.
 * See also: rdmabroker_restrict
 */
int rdmabroker_publish(struct rdmabroker *session, char *path, size_t size);

/**
 * rdmabroker_release - Give a restricted session to another program.
 * Description:
 *   The first process that calls rdmabroker_adopt() with the descriptor, usually a child, which inherits it, gets a
 *   session with the same restrictions. The broker takes that process's user, groups, unit and container for its
 *   decisions, not those of the caller. The session must have a restriction, and no ids, devices, watch or socket.
 * Ownership:
 *   On success the session is closed, and the descriptor is the caller's. It is close-on-exec. When its last copy is
 *   closed, the session ends.
 * Returns:
 *   A descriptor; -EINVAL: the session is not as described.
 * See also: rdmabroker_restrict, rdmabroker_adopt
 */
int rdmabroker_release(struct rdmabroker *session);

/**
 * rdmabroker_adopt - Open a session that another program has released.
 * @fd: The descriptor from rdmabroker_release().
 * @options: As for rdmabroker_open(); options.socket is not used.
 * @ret: The session, on success; on failure *@ret is not changed.
 * Ownership:
 *   The session is the caller's; close it with rdmabroker_close(). On success @fd is the session's. On failure it stays
 *   the caller's.
 * Returns:
 *   As rdmabroker_open(); -EINVAL: @fd is no session; -ECONNRESET: the session has ended; -EACCES: policy rejects this
 *   user, or the broker cannot verify which process this is, for example because it cannot see it.
 * See also: rdmabroker_open
 */
int rdmabroker_adopt(int fd, const struct rdmabroker_options *options, struct rdmabroker **ret);

/**
 * rdmabroker_close - Close a session.
 * @session: The session; NULL is allowed.
 * Description:
 *   Destroys all ids of the session, which disconnects them, and ends its leases of devices. Destroys the QPs that
 *   the library created, and closes the device contexts that the library opened, except contexts that a migrated id
 *   uses. So destroy your own CQs, PDs and memory regions first.
 * Returns:
 *   NULL, always.
 * See also: rdma_destroy_event_channel
 */
struct rdmabroker *rdmabroker_close(struct rdmabroker *session);

/**
 * rdmabroker_get_fd - The session's descriptor, for poll, select and epoll.
 * Description:
 *   Readable when rdmabroker_get_event() should be called. The call can still return -EAGAIN, because some received
 *   packets do not become events.
 *
 *   With options.replies it is the session's socket, on which only events come: readable when rdmabroker_get_event()
 *   returns an event, once for each. Its O_NONBLOCK flag, which the program may set, is for rdmabroker_await_event().
 * Ownership:
 *   The session's: do not read, write or close it.
 * Returns:
 *   The descriptor; -1: the session was opened with RDMABROKER_NO_POLL.
 */
int rdmabroker_get_fd(const struct rdmabroker *session);

/**
 * rdmabroker_set_epoll - Make an epoll instance of the program readable while there is an event.
 * @epoll: The instance, in the place of the one that was set before; -1: none.
 * Description:
 *   A program that needs a descriptor with flags and an end of its own, which is never writable, polls such an instance
 *   in place of rdmabroker_get_fd(). With options.replies it is readable when rdmabroker_get_event() returns an event,
 *   also one that was received during another call. rdmabroker_close() takes the session out of it.
 * Ownership:
 *   The instance stays the program's, which closes it after it has called this with -1, or rdmabroker_close().
 * Returns:
 *   0; -EBADF: the program has closed the session's descriptors; -EINVAL: the session has none.
 */
int rdmabroker_set_epoll(struct rdmabroker *session, int epoll);

/**
 * rdmabroker_await_event - Wait for an event as a read of the session's descriptor would.
 * Description:
 *   Waits without limit, or not at all if the descriptor has the flag O_NONBLOCK, until rdmabroker_get_event() with
 *   timeout 0 returns an event for this thread, or the loss of the session. With options.replies the wait is one system
 *   call. Without, there is perhaps no event, see rdmabroker_get_fd(). A cancellation point. A program that holds a lock
 *   of its own while it takes events waits here without that lock.
 * Returns:
 *   0; -EAGAIN: there is no event, and O_NONBLOCK is set; -EINTR: a signal came whose handler has no SA_RESTART;
 *   -EINVAL: the session has no descriptor.
 * See also: rdmabroker_get_event, rdma_get_cm_event
 */
int rdmabroker_await_event(struct rdmabroker *session);

/**
 * rdmabroker_check - Whether a session can still be used.
 * Description:
 *   Sends and receives nothing, so it does not notice a broker that has just ended. It does notice that the program has
 *   closed the session's socket, as programs do that close all descriptors from 3 up when they start. Then no call reads,
 *   writes or closes what the program has opened in the meantime under that number. The session's ids have ended with the
 *   socket. For a while the broker still keeps the devices open to the user, for the process's next session; see
 *   ResumeTimeoutSec= in rdmabrokerd.conf(5).
 * Returns:
 *   0; -ECONNRESET: the connection to the broker is lost: close the session, and open another one.
 */
int rdmabroker_check(struct rdmabroker *session);

/**
 * rdmabroker_last_failure - The last failure of a call of this library in this thread.
 * Returns:
 *   The failure, never NULL. It belongs to the thread, and is valid until the thread's next call of the library.
 *   A call that closes, destroys or frees something, and returns no errno, does not change the failure.
 */
const struct rdmabroker_failure *rdmabroker_last_failure(void);

/**
 * rdmabroker_get_event - Take the next event.
 * @timeout_ms: How long to wait for one; 0: not at all.
 * @ret: The event, on success; free it with rdmabroker_free_event().
 * Description:
 *   Moves a QP that the library knows, like librdmacm: on REJECTED to ERR. On CONNECT_RESPONSE moves the QP to RTR
 *   and RTS, confirms the connection, and returns ESTABLISHED, or on failure CONNECT_ERROR.
 * Returns:
 *   0; -EAGAIN: no event came within the time; -ECONNRESET: the broker is gone, and RDMABROKER_EVENT_LOST was
 *   taken before.
 * See also: rdma_get_cm_event, rdma_ack_cm_event
 */
int rdmabroker_get_event(struct rdmabroker *session, int timeout_ms, struct rdmabroker_event **ret);
/**
 * rdmabroker_write_event - Give the session's event loop an event of the program's own.
 * @id: The id that the event has.
 * @type: RDMABROKER_EVENT_USER, or RDMABROKER_EVENT_INTERNAL.
 * @status: The event's status, which can be any number.
 * @arg: The event's arg, which can be any number.
 * Description:
 *   The event comes after those that have been received, wakes a thread that waits for an event, and makes the
 *   session's descriptor readable. Any thread can write one. Peers do not see it.
 * Returns:
 *   0; -EINVAL: another type; -ECONNRESET: the broker is gone.
 * See also: rdma_write_cm_event, rdmabroker_get_event
 */
int rdmabroker_write_event(struct rdmabroker_id *id, enum rdmabroker_event_type type, int status,
			   uint64_t arg);
/** rdmabroker_free_event - Free an event. NULL is allowed. Returns NULL. */
struct rdmabroker_event *rdmabroker_free_event(struct rdmabroker_event *event);
/** rdmabroker_event_str - An event type's name, e.g. "RDMABROKER_EVENT_ESTABLISHED"; never NULL. */
const char *rdmabroker_event_str(enum rdmabroker_event_type type);

/**
 * rdmabroker_create_id - Create an id.
 * @ps: The port space.
 * @context: The program's own pointer, see rdmabroker_get_context().
 * Description:
 *   To save a round trip, the broker creates its part of the id with the first request about the id. If the creation
 *   fails, the call that sent this request returns the error: -EDQUOT: a limit of the broker is reached; -ENODEV: the
 *   host has no RDMA device; -ESHUTDOWN: the broker is draining. The next call on the id retries the creation. With
 *   RDMABROKER_NONBLOCK create_id sends the request itself, and an event DONE reports the reply.
 * Returns:
 *   0; -EDQUOT: the session's limit of ids is reached; -EINVAL: there is no such port space; -ECONNRESET: the session is
 *   known to be lost.
 * See also: rdma_create_id
 */
int rdmabroker_create_id(struct rdmabroker *session, enum rdmabroker_port_space ps, void *context,
			 struct rdmabroker_id **ret);
/**
 * rdmabroker_destroy_id - Destroy an id; NULL is allowed.
 * Description:
 *   Disconnects the id's connection, rejects a connection request that was not answered, drops events that were not
 *   taken, and destroys a QP that the library created. For a listening id in a session without RDMABROKER_NONBLOCK,
 *   the call waits for the broker's reply, at most call_timeout_ms, and rejects the connection requests that come
 *   before the reply. Otherwise it waits only while the socket is full.
 * Returns:
 *   NULL, always.
 * See also: rdma_destroy_id
 */
struct rdmabroker_id *rdmabroker_destroy_id(struct rdmabroker_id *id);
/**
 * rdmabroker_destroy_id_wait - Destroy an id, and wait until the broker has begun to destroy its part.
 * Description:
 *   A later bind to the id's port waits until the port is free. Even on failure the id is destroyed in this process.
 */
int rdmabroker_destroy_id_wait(struct rdmabroker_id *id, int timeout_ms);

void *rdmabroker_get_context(const struct rdmabroker_id *id);
void rdmabroker_set_context(struct rdmabroker_id *id, void *context);
struct rdmabroker *rdmabroker_get_session(const struct rdmabroker_id *id);
/** The addresses; sa_family 0: not known. Valid until the id is destroyed. */
const struct sockaddr *rdmabroker_get_local_addr(const struct rdmabroker_id *id);
const struct sockaddr *rdmabroker_get_peer_addr(const struct rdmabroker_id *id);
/** The ports, in host order; 0: not known. (rdma_get_src_port and rdma_get_dst_port use network order.) */
uint16_t rdmabroker_get_local_port(const struct rdmabroker_id *id);
uint16_t rdmabroker_get_peer_port(const struct rdmabroker_id *id);
/** The name of the device that the id is bound to ("rxe0"), or NULL; valid until the id is destroyed. */
const char *rdmabroker_get_device_name(const struct rdmabroker_id *id);
/**
 * rdmabroker_get_gids - The GIDs of both ends of an id on InfiniBand.
 * @ret_local, @ret_peer: The GIDs; all zero: not known yet. The local one is known when the id is bound to a device, the
 *   peer's when its address is resolved, or for a connection request.
 * Returns:
 *   0; -ENODATA: none is known, or they follow from the IP addresses, as on Ethernet.
 * See also: id->route.addr.addr.ibaddr in rdma_cma.h
 */
int rdmabroker_get_gids(const struct rdmabroker_id *id, union ibv_gid *ret_local,
			union ibv_gid *ret_peer);

/**
 * rdmabroker_set_option - Set an option of an id, usually before its address is bound or resolved.
 * Returns:
 *   0; -EACCES: policy rejects it; -ENOSYS: there is no such option; -EINVAL: the value is out of range, or it
 *   is too late to set this option.
 * Notes:
 *   A value that policy sets overrides the program's. With REUSEADDR, an id can listen if it shares its port with none.
 * See also: rdma_set_option
 */
int rdmabroker_set_option(struct rdmabroker_id *id, enum rdmabroker_option option, int value);
/**
 * rdmabroker_get_option - The value of an option that is in force, set by the program or by policy.
 * @ret: The value; -1: not set, the kernel's default applies.
 * Returns:
 *   0; -ENOSYS: there is no such option.
 */
int rdmabroker_get_option(struct rdmabroker_id *id, enum rdmabroker_option option, int *ret);

/**
 * rdmabroker_bind_addr - Bind an id to a local address.
 * @addr: sockaddr_in, sockaddr_in6 or, on InfiniBand, sockaddr_ib (infiniband/ib.h); the wildcard address and port 0 are
 *   allowed. The service id of a sockaddr_ib has to be one of the id's port space, or 0 with the mask 0.
 * Returns:
 *   0; -EADDRINUSE: the port is in use; -EADDRNOTAVAIL: the port is in use on a wildcard address, or @addr is a
 *   wildcard and the port is in use on some address, or the address is not this host's (the failure's text says
 *   which, if known); -ENODEV: no RDMA device has the address; -EACCES: policy allows neither to listen nor to
 *   connect from @addr, or the port is below 1024 and no listen rule names it; -EINVAL: the id is bound already.
 * See also: rdma_bind_addr
 */
int rdmabroker_bind_addr(struct rdmabroker_id *id, const struct sockaddr *addr);

/**
 * rdmabroker_listen - Listen for connection requests.
 * @backlog: How many connection requests can wait for an answer, but at least the broker's default. If the rule sets
 *   a backlog, it is the maximum instead, and 0 selects it. Further requests are rejected as busy.
 * Description:
 *   An id that is not bound is bound to the IPv4 wildcard address and a free port, which
 *   rdmabroker_get_local_port() returns.
 * Returns:
 *   0; -EACCES: policy rejects it; -EBUSY: a limit of the rule is reached; -EINVAL: the id listens or connects
 *   already; -EADDRINUSE, -EADDRNOTAVAIL: the port is in use.
 * See also: rdma_listen
 */
int rdmabroker_listen(struct rdmabroker_id *id, int backlog);

/**
 * rdmabroker_resolve_addr - Find the device and the address by which @dst is reached.
 * @src: The local address to bind to first; NULL: the broker chooses.
 * @timeout_ms: At least 1; capped by the broker's configuration.
 * Description:
 *   Outcome: ADDR_RESOLVED, or ADDR_ERROR (status -EACCES: policy rejects the address or device found).
 * Returns:
 *   0; -EACCES: no rule allows to connect there; -EINVAL; with _wait the outcome.
 * See also: rdma_resolve_addr
 */
int rdmabroker_resolve_addr(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms);
int rdmabroker_resolve_addr_wait(struct rdmabroker_id *id, const struct sockaddr *src,
				 const struct sockaddr *dst, int timeout_ms);
/**
 * rdmabroker_resolve_route - Resolve the route to the address that was resolved.
 * Description:
 *   Outcome: ROUTE_RESOLVED or ROUTE_ERROR; after an error the call can be repeated.
 * See also: rdma_resolve_route
 */
int rdmabroker_resolve_route(struct rdmabroker_id *id, int timeout_ms);
int rdmabroker_resolve_route_wait(struct rdmabroker_id *id, int timeout_ms);
/**
 * rdmabroker_set_path - Set the path to the address that was resolved, in place of resolve_route.
 * @path: A PathRecord of InfiniBand's subnet administration (infiniband/sa.h), in network order. It has to lead from the
 *   id's own GID to the GID of its peer; on InfiniBand with the LIDs and the service level that the subnet manager tells.
 *   Another P_Key than that of the network device needs a rule with 'pkey'.
 * Description:
 *   Outcome: ROUTE_RESOLVED or ROUTE_ERROR. If the broker restarts before the id connects, the broker resolves a route
 *   of its own.
 * Returns:
 *   0; -EACCES: the rule sets or limits the TOS, and a path has a traffic class of its own, or no rule allows the partition;
 *   -EINVAL: @path leads elsewhere, has another service level or no partition, or the address is not resolved.
 * See also: rdma_set_option with RDMA_OPTION_IB_PATH
 */
int rdmabroker_set_path(struct rdmabroker_id *id, const struct ibv_path_record *path,
			int timeout_ms);
/**
 * rdmabroker_resolve - Resolve the address and then the route, with one request to the broker.
 * @src, @timeout_ms: As for resolve_addr. The timeout is for each of the two steps, with _wait for both together.
 * Description:
 *   Outcome: ADDR_RESOLVED and then ROUTE_RESOLVED or ROUTE_ERROR; or ADDR_ERROR. After ROUTE_ERROR resolve_route can
 *   be called. Before resolve, set the options that the route depends on (TOS).
 * Returns:
 *   As resolve_addr.
 */
int rdmabroker_resolve(struct rdmabroker_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst, int timeout_ms);
int rdmabroker_resolve_wait(struct rdmabroker_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int timeout_ms);

/**
 * rdmabroker_open_device - Get access to a device, and open it in this process.
 * @name: e.g. "rxe0"; NULL: the first device of ibv_get_device_list().
 * @ret: The context; the same one if the session has the device open already.
 * Description:
 *   Policy operation "device" decides whether the session gets a lease, which gives access to the device's node.
 *   The context is this process's own: the data path does not involve the broker.
 * Ownership:
 *   The session's. The session closes it after one rdmabroker_close_device() for each open, or in
 *   rdmabroker_close().
 * Returns:
 *   0; -EACCES: policy rejects it; -ENODEV: no such device; -EDQUOT: the user has as many leases as the broker grants.
 * See also: ibv_open_device
 */
int rdmabroker_open_device(struct rdmabroker *session, const char *name, struct ibv_context **ret);
/**
 * rdmabroker_lease_devices - Get access to devices without opening them, for a part of the program that opens them itself.
 * @name: e.g. "rxe0"; NULL: all devices that have nodes in this process's /dev/infiniband, and that policy allows.
 * Description:
 *   The leases end with the session, or when the device is removed. A context that is open keeps a device from being
 *   removed on some hardware; a lease does not.
 * Returns:
 *   0; -EACCES: policy rejects the device; -ENODEV: no such device, or policy allows none; -EDQUOT: the user has as many
 *   leases as the broker grants. With @name NULL, some devices can be leased then.
 * See also: rdmabroker_open_device
 */
int rdmabroker_lease_devices(struct rdmabroker *session, const char *name);
/** rdmabroker_close_device - Undo one open_device. The last one ends the lease, unless an id uses the device. */
void rdmabroker_close_device(struct rdmabroker *session, struct ibv_context *context);
/**
 * rdmabroker_check_device - Whether a context can still be used.
 * @context: A context that the session has open.
 * Returns:
 *   0; -ENODEV: the device was removed; -EBADF: the program has closed a descriptor of the context, which cannot be used
 *   or closed any more; in both cases rdmabroker_open_device() opens the device anew; -EINVAL: the session does not have
 *   @context.
 */
int rdmabroker_check_device(struct rdmabroker *session, const struct ibv_context *context);
/**
 * rdmabroker_get_verbs - The context of the device that the id is bound to; opens the device if necessary.
 * Ownership:
 *   The id's, until the id is destroyed.
 * Returns:
 *   0; -ENODEV: the id is not bound to a device; otherwise as rdmabroker_open_device().
 */
int rdmabroker_get_verbs(struct rdmabroker_id *id, struct ibv_context **ret);

/**
 * rdmabroker_create_qp - Create a QP for the id, and move it to INIT, or for datagrams to RTS.
 * @pd: On the context of rdmabroker_get_verbs(); NULL: the PD of rdmabroker_get_pd().
 * @attr: As for ibv_create_qp(), which writes the actual values back.
 * Ownership:
 *   The id's: rdmabroker_destroy_qp() or rdmabroker_destroy_id() destroy it.
 * Returns:
 *   0; -ENODEV: the id is not bound to a device; -EINVAL: it has a QP already, or @pd is of another context;
 *   otherwise as rdmabroker_get_verbs().
 * See also: rdma_create_qp
 */
int rdmabroker_create_qp(struct rdmabroker_id *id, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr);
/**
 * rdmabroker_set_qp - Use a QP that the program created. The QP has to be in RESET, and is moved as by create_qp.
 * Ownership:
 *   The program's: the library moves the QP through its states, but does not destroy it.
 */
int rdmabroker_set_qp(struct rdmabroker_id *id, struct ibv_qp *qp);
void rdmabroker_destroy_qp(struct rdmabroker_id *id);
/**
 * rdmabroker_get_pd - The PD that all ids of the session on this device share.
 * Ownership:
 *   The session's: it is deallocated when the device is closed for the last time.
 * See also: rdma_cm_id's pd
 */
int rdmabroker_get_pd(struct rdmabroker_id *id, struct ibv_pd **ret);
/** rdmabroker_get_qp - The id's QP, or NULL. */
struct ibv_qp *rdmabroker_get_qp(const struct rdmabroker_id *id);
/**
 * rdmabroker_init_qp_attr - Get the attributes for moving a QP of this id to attr->qp_state.
 * Description:
 *   For programs that move their QPs themselves: to INIT, RTR or RTS.
 * See also: rdma_init_qp_attr
 */
int rdmabroker_init_qp_attr(struct rdmabroker_id *id, struct ibv_qp_attr *attr, int *mask);
/**
 * rdmabroker_move_qp - Move a QP of the program, which the library does not know, as the library moves those that it knows.
 * @state: IBV_QPS_INIT, after which a datagram QP goes on to RTS; or IBV_QPS_RTS, after CONNECT_RESPONSE or before accept
 * @responder_resources, @initiator_depth: For RTS: what accept is called with; negative: the connection manager's values,
 *   after CONNECT_RESPONSE. Both are reduced to the limits of the rule, as in what the peer gets.
 * Returns:
 *   0; -EINVAL: another @state; the error of ibv_modify_qp(), which can leave the QP in a state between.
 */
int rdmabroker_move_qp(struct rdmabroker_id *id, struct ibv_qp *qp, enum ibv_qp_state state,
		       int responder_resources, int initiator_depth);

/**
 * rdmabroker_connect - Send a connection request.
 * @param: NULL (the defaults, RDMABROKER_CONN_PARAM_INIT) only if the library knows the QP, or for datagrams.
 * Description:
 *   Outcome: ESTABLISHED if the library knows the QP, or for datagrams. Otherwise CONNECT_RESPONSE: then the program
 *   moves its QP, and calls rdmabroker_establish(). On failure: REJECTED, UNREACHABLE or CONNECT_ERROR. The _wait
 *   form retries after a stale reject, up to five times, 10 ms apart, within the deadline. While the last connection
 *   of the QP number to the same peer is in timewait, the broker holds the request back, for 4 seconds at most if it
 *   was another user's. Then it checks the QP number again: CONNECT_ERROR with -EPERM.
 * Returns:
 *   0; -EPERM: the QP number is not one of this process; -EACCES: policy rejects it; -EBUSY: a limit of the rule is
 *   reached; -EINVAL; -ESTALE: policy has changed, and no longer allows the traffic class of the route: resolve again
 *   with a new id; with _wait also -ECONNREFUSED: rejected (see rdmabroker_get_reject_event()), -EHOSTUNREACH: no
 *   answer.
 * See also: rdma_connect
 */
int rdmabroker_connect(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param);
int rdmabroker_connect_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			    int timeout_ms);

/** rdmabroker_establish - Confirm a connection of a QP that the library does not know. */
int rdmabroker_establish(struct rdmabroker_id *id);
/**
 * rdmabroker_notify - Pass an asynchronous event of the QP to the connection manager.
 * @event: IBV_EVENT_COMM_EST, if the QP has received data before the peer has confirmed the connection.
 * See also: rdma_notify
 */
int rdmabroker_notify(struct rdmabroker_id *id, enum ibv_event_type event);

/**
 * rdmabroker_get_request - Wait for a connection request to a listening id.
 * @timeout_ms: How long to wait for one.
 * @ret: The id of the request, which the caller has to destroy.
 * Description:
 *   Takes the listener's next CONNECT_REQUEST or DEVICE_REMOVAL; other events stay queued.
 * Returns:
 *   0; -ETIMEDOUT; -ENODEV: the listener's device was removed; -EACCES: policy or an admin has ended the listener.
 * See also: rdma_get_request
 */
int rdmabroker_get_request(struct rdmabroker_id *listen, int timeout_ms,
			   struct rdmabroker_id **ret);
/** rdmabroker_get_request_event - The CONNECT_REQUEST event of an id from get_request or import_id, or NULL. */
const struct rdmabroker_event *rdmabroker_get_request_event(const struct rdmabroker_id *id);

/**
 * rdmabroker_get_reject_event - The last reject that this id's connect_wait got.
 * Returns:
 *   The event, or NULL; valid until the id is destroyed, or a later connect of the id is rejected.
 */
const struct rdmabroker_event *rdmabroker_get_reject_event(const struct rdmabroker_id *id);

/**
 * rdmabroker_get_response_event - The event by which this id's last connection was established.
 * Returns:
 *   The event of the last connect_wait that succeeded, or NULL. Its conn has the parameters with
 *   which the peer accepted. Valid until the id is destroyed or connected again.
 */
const struct rdmabroker_event *rdmabroker_get_response_event(const struct rdmabroker_id *id);

/**
 * rdmabroker_accept - Accept a connection request.
 * @param: As for rdmabroker_connect(); for 0xff see struct rdmabroker_conn_param.
 * Description:
 *   Moves a QP that the library knows to RTR and RTS first. Outcome: ESTABLISHED; on failure usually CONNECT_ERROR. If
 *   the peer's confirmation gets lost and the peer disconnects, DISCONNECTED comes without ESTABLISHED: the connection
 *   was established, and the QP has received what the peer has sent. The _wait form then succeeds.
 *   Accepting a look-up has no outcome event; its _wait form waits for the broker's reply.
 * Returns:
 *   0; -EPERM: the QP number is not one of this process; -EINVAL; -EACCES or -EBUSY: policy has changed since
 *   the connection request came, and the broker has rejected it; -ESTALE: policy has changed and allows only
 *   other settings, and the broker has rejected the request as busy; with _wait the outcome.
 * See also: rdma_accept
 */
int rdmabroker_accept(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param);
int rdmabroker_accept_wait(struct rdmabroker_id *id, const struct rdmabroker_conn_param *param,
			   int timeout_ms);
/**
 * rdmabroker_reject - Reject a connection request.
 * @data: Private data for the peer; at most RDMABROKER_REJECT_DATA_MAX bytes, for a look-up
 *   RDMABROKER_LOOKUP_ANSWER_DATA_MAX; must not begin with "RDBK", which marks rejects by a broker's policy.
 * Returns:
 *   0; -EINVAL; -E2BIG: too much private data.
 * See also: rdma_reject
 */
int rdmabroker_reject(struct rdmabroker_id *id, const void *data, size_t len);
/** rdmabroker_reject_ece - Reject because there are no common ECE options (rdma_reject_ece). */
int rdmabroker_reject_ece(struct rdmabroker_id *id, const void *data, size_t len);

/**
 * rdmabroker_get_remote_ece - The peer's enhanced connection establishment options.
 * @ret: From the connection request or response; vendor_id 0: the peer has none.
 * Returns:
 *   0; -EINVAL: the library knows the QP, and applies the options itself.
 * See also: rdma_get_remote_ece, ibv_query_ece
 */
int rdmabroker_get_remote_ece(const struct rdmabroker_id *id, struct ibv_ece *ret);
/**
 * rdmabroker_set_local_ece - Set the local ECE options, before accept or connect.
 * Notes:
 *   Only for a QP that the library does not know. For other QPs the library queries the device.
 * Returns:
 *   0; -EINVAL: the library knows the QP, or the vendor id is 0, or comp_mask is not 0.
 * See also: rdma_set_local_ece
 */
int rdmabroker_set_local_ece(struct rdmabroker_id *id, const struct ibv_ece *ece);

/**
 * rdmabroker_join_multicast - Join a multicast group.
 * @addr: The group.
 * @join_flags: One of enum rdmabroker_join_flags.
 * @context: Returned in the event's join_context.
 * Description:
 *   Policy operation "join". The id has to be bound to a device. Outcome: MULTICAST_JOIN, whose ud has the
 *   parameters to send with, or MULTICAST_ERROR. A QP that the library knows is attached to the group before the
 *   program gets the event, unless the id joins as send only.
 * Returns:
 *   0; -EACCES: policy rejects it; -EEXIST: joined already; -EINVAL.
 * See also: rdma_join_multicast_ex
 */
int rdmabroker_join_multicast(struct rdmabroker_id *id, const struct sockaddr *addr,
			      unsigned join_flags, void *context);
int rdmabroker_join_multicast_wait(struct rdmabroker_id *id, const struct sockaddr *addr,
				   unsigned join_flags, int timeout_ms,
				   struct rdmabroker_ud_param *ret);
/** rdmabroker_leave_multicast - Leave a multicast group. -EADDRNOTAVAIL: it was not joined. */
int rdmabroker_leave_multicast(struct rdmabroker_id *id, const struct sockaddr *addr);

/**
 * rdmabroker_export_id - Make a descriptor that stands for an id.
 * @ret_fd: The caller passes it on (SCM_RIGHTS) and has to close it.
 * Description:
 *   A process that has the descriptor can import the id once, with rdmabroker_import_id(). For example, a server
 *   passes a connection request to a worker, which creates the QP and accepts. The id must not have a QP that the
 *   library knows, and must not have joined a group. Until the import the id stays usable here. Afterwards it can
 *   only be destroyed, which does not affect the imported id.
 * Returns:
 *   0; -EINVAL: the id has a QP, or is exported already; -EBUSY: it has joined groups.
 * See also: rdma_migrate_id
 */
int rdmabroker_export_id(struct rdmabroker_id *id, int *ret_fd);
/**
 * rdmabroker_import_id - Take an exported id over into this session.
 * @fd: From rdmabroker_export_id(), in this process or another; the caller still has to close it.
 * @ret: The id; its context is NULL.
 * Description:
 *   From now on this session owns the id and gets its events, and the id is charged to the session's user.
 * Returns:
 *   0; -EBADF: @fd is no descriptor of an id, or was used before, or the id is gone; -EDQUOT; -EACCES or
 *   -EBUSY: policy does not allow this user the operation of the id; the id then stays with its owner.
 *   -ENOMEM: the id can be destroyed.
 */
int rdmabroker_import_id(struct rdmabroker *session, int fd, struct rdmabroker_id **ret);
/**
 * rdmabroker_migrate_id - Move an id to another session of this process.
 * Description:
 *   @id stays valid and keeps its QP. From now on its events come to @session, including those that were not
 *   taken yet. If @id listens, connection requests that were not taken are rejected.
 * Returns:
 *   0; otherwise as rdmabroker_export_id() (but a QP is allowed) and rdmabroker_import_id(): then nothing changes.
 * See also: rdma_migrate_id
 */
int rdmabroker_migrate_id(struct rdmabroker_id *id, struct rdmabroker *session);

/**
 * rdmabroker_disconnect - End a connection.
 * Description:
 *   A QP that the library knows is moved to ERR, so that its work requests are flushed. Outcome: DISCONNECTED,
 *   here and at the peer. The broker itself answers a peer's disconnect, so that the peer does not wait for this
 *   program; if DISCONNECTED was taken already, the call sends nothing. With RDMABROKER_CONFIRM_DISCONNECT the call
 *   answers the peer's disconnect, also after DISCONNECTED.
 * See also: rdma_disconnect
 */
int rdmabroker_disconnect(struct rdmabroker_id *id);
int rdmabroker_disconnect_wait(struct rdmabroker_id *id, int timeout_ms);
/**
 * rdmabroker_wait_disconnected - Wait until a connection has ended, by either side.
 * @timeout_ms: How long to wait; a server whose connections last longer repeats the call after -ETIMEDOUT.
 * Description:
 *   Sends nothing. Takes the id's DISCONNECTED event, or the event that reports its failure; other events stay
 *   queued. If DISCONNECTED was taken before, by any call, this returns at once. After DISCONNECTED the QP is in the
 *   same state as before: rdmabroker_disconnect() moves it to ERR, which flushes its work requests.
 * Returns:
 *   0; -ETIMEDOUT: the connection has not ended; -ENODEV: the device was removed; -ECONNREFUSED, -EHOSTUNREACH
 *   and the status of CONNECT_ERROR: the connection failed before it was established; -EINVAL: the id is one
 *   for datagrams; -EACCES: policy or an admin has ended the id.
 * See also: rdmabroker_get_request, rdmabroker_accept_wait
 */
int rdmabroker_wait_disconnected(struct rdmabroker_id *id, int timeout_ms);

/**
 * rdmabroker_get_devices - Open all devices of ibv_get_device_list() that policy allows this user.
 * @ret: An array of contexts that ends with NULL; free it with rdmabroker_free_devices().
 * @ret_n: The number of contexts; may be NULL.
 * Returns:
 *   0; -ENODEV: none; if none can be opened for another reason, what rdmabroker_open_device() returns.
 * See also: rdma_get_devices, rdmabroker_open_device
 */
int rdmabroker_get_devices(struct rdmabroker *session, struct ibv_context ***ret, size_t *ret_n);
/** rdmabroker_free_devices - Close the devices that rdmabroker_get_devices() opened, and free the array. */
void rdmabroker_free_devices(struct rdmabroker *session, struct ibv_context **devices);

struct addrinfo;

/**
 * rdmabroker_create_ep - Create an id and bind it, ready to listen, or resolve it, ready to connect.
 * @info: An entry of getaddrinfo(3); with AI_PASSIVE among its flags the id is bound, else resolved.
 * @pd: As for rdmabroker_create_qp(); ignored without @attr.
 * @attr: For the QP to create if the id is resolved; NULL: no QP.
 * @timeout_ms: For resolving the address and the route, for both together.
 * See also: rdma_create_ep
 */
int rdmabroker_create_ep(struct rdmabroker *session, const struct addrinfo *info,
			 enum rdmabroker_port_space ps, struct ibv_pd *pd,
			 struct ibv_qp_init_attr *attr, int timeout_ms, struct rdmabroker_id **ret);

/** rdmabroker_get_version - The library's version, e.g. "0.2.0". */
const char *rdmabroker_get_version(void);

#ifdef __cplusplus
}
#endif

#endif
