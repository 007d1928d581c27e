/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/admin.h"
#include "client/lib/admin/notices.h"
#include "client/lib/event/blocking.h"
#include "client/lib/event/lifetime.h"
#include "client/lib/event/queue.h"
#include "client/lib/event/receive.h"
#include "client/lib/id/idtable.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/pump.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"
#include "proto/kernelepoll.h"
#include "proto/packet.h"
#include "proto/proof.h"
#include "proto/version.h"

/*
 * How a session begins and ends: the socket, hello and the proof that it may require, adopting a released session,
 * goodbye. Nothing here waits longer than the options allow.
 */

#define TRIES 3 /* how often a session is opened, if the broker closes it at once */
#define ADOPT_SERIAL UINT32_MAX /* no request of the launcher has it */
#define DEFAULT_SOCKET "/run/rdmabroker/rdmabroker.sock"
#define ADMIN_SOCKET "/run/rdmabroker-admin/rdmabroker.sock"
#define HELPER_SOCKET "/run/rdmabroker-helper/rdmabroker.sock"
#define FLAGS                                                                            \
	((unsigned)(RDMABROKER_NONBLOCK | RDMABROKER_FORK_SAFE | RDMABROKER_RETRY_BUSY | \
		    RDMABROKER_FAIL_BY_EVENT | RDMABROKER_CONFIRM_DISCONNECT |           \
		    RDMABROKER_NO_POLL | RDMABROKER_AS_ADMIN | RDMABROKER_AS_HELPER |    \
		    RDMABROKER_TRUST_FD | RDMABROKER_AT_START))

/* All parts of a session, in one block of memory. */
struct parts {
	struct rdmabroker public;
	struct idtable ids;
	struct opendevices devices;
	struct queue queue;
	struct notices notices;
	uint8_t packet[PACKET_MAX]; /* see wire.packet */
};

const char *rdmabroker_get_version(void)
{
	return RDMABROKER_VERSION;
}

/* An orphan is no event for the program, but only the program's next call ends it. */
static bool has_news(const struct rdmabroker *session)
{
	if (wire_is_direct(&session->wire))
		return queue_count_free(session->queue) > 0;
	return !TAILQ_EMPTY(&session->queue->events) || notices_has_any(session->notices);
}

static const struct wire_ops ops = {
	.on_event = receive_event,
	.on_notice = notices_receive,
	.on_outcome = receive_outcome,
	.has_news = has_news,
	.settle = blocking_settle,
};

/*
 * If the broker's backlog is full, connect() fails with EAGAIN, and poll() does not report when there is room: retry.
 */
static int connect_socket(int sock, const char *path, int64_t deadline)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return fail(ENAMETOOLONG, "cannot connect to %s: the path is too long", path);
	strcpy(addr.sun_path, path);
	while (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return fail(errno, "no broker answers on %s: %s", path, strerror(errno));
		if (deadline_left(deadline) <= 0)
			return fail(ETIMEDOUT,
				    "the broker on %s did not accept the connection in time", path);
		poll(NULL, 0, 5);
	}
	return 0;
}

static int connect_to(struct wire *wire, const char *path, int64_t deadline)
{
	int sock = above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int r;

	if (sock < 0)
		return fail(errno, "cannot create a socket: %s", strerror(errno));
	r = connect_socket(sock, path, deadline);
	if (r < 0) {
		close(sock);
		return r;
	}
	wire->sock = ownfd_of(sock);
	return 0;
}

/* The descriptors that a program needs to poll the session. */
static int make_fds(struct wire *wire)
{
	struct epoll_event event = { .events = EPOLLIN };
	int r = wire_make_bell(wire);

	if (r == 0) {
		wire->epoll = kernel_epoll_create(EPOLL_CLOEXEC);
		if (wire->epoll < 0 ||
		    kernel_epoll_ctl(wire->epoll, EPOLL_CTL_ADD, wire->sock.fd, &event) < 0)
			r = -errno;
	}
	return r < 0 ? fail(-r, "cannot create the descriptors of a session: %s", strerror(-r)) : 0;
}

/* Nobody polls the socket, so a wait for a reply can be one system call. If that fails, it is two. */
static void let_block(struct wire *wire)
{
	const struct timeval timeout = { .tv_sec = wire->call_timeout_ms / 1000,
					 .tv_usec = wire->call_timeout_ms % 1000 * 1000 };

	if (setsockopt(wire->sock.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    fcntl(wire->sock.fd, F_SETFL, 0) == 0)
		wire->block_ms = wire->call_timeout_ms;
}

/* A program that polls the socket itself decides whether reading it blocks, as with librdmacm's descriptor. */
static int be_direct(struct rdmabroker *session, struct rdmabroker *replies)
{
	if (fcntl(session->wire.sock.fd, F_SETFL, 0) < 0)
		return fail(errno, "open: cannot make the socket block: %s", strerror(errno));
	session->wire.block_ms = -1;
	session->wire.trusts = session->flags & RDMABROKER_TRUST_FD;
	wire_lock(&replies->wire);
	replies->n_direct++;
	wire_unlock(&replies->wire);
	session->replies = replies;
	wire_be_direct(&session->wire, &replies->wire);
	return 0;
}

/* PROOF: the result of proof_new(), to be sent with the request; -1: none. */
static int call_hello(struct rdmabroker *session, const struct rdmabroker *replies, int proof,
		      int timeout_ms, Rdmabroker__Frame **ret)
{
	struct call call = { .name = "open", .send_fd = proof >= 0 ? &proof : NULL };
	REQUEST(request, m, Hello, HELLO, hello);
	int r;

	m.version = 1;
	m.features = RDMABROKER__FEATURE__FEATURE_PROOF | RDMABROKER__FEATURE__FEATURE_GOODBYE;
	if (session->flags & RDMABROKER_CONFIRM_DISCONNECT)
		m.features |= RDMABROKER__FEATURE__FEATURE_CONFIRMS_DISCONNECT;
	m.replies_to = replies ? replies->number : 0;
	m.at_start = session->flags & RDMABROKER_AT_START;
	r = call_wait_like(&session->wire, &call, &request, timeout_ms, ret);
	if (r == 0 && (*ret)->reply->result_case != RDMABROKER__REPLY__RESULT_HELLO) {
		frame_free(*ret);
		return fail(EPROTO, "the broker uses another version of the protocol");
	}
	return r;
}

/*
 * *RET: the proof NAME, or -1. Without the proof the broker would open the session, and later refuse all QPs of this
 * process. So a shortage fails now; a name of another kind is not answered, see proof.h.
 */
static int make_proof(const char *name, const char *kind, int *ret)
{
	*ret = proof_new(name, kind);
	if (*ret != -EMFILE && *ret != -ENFILE && *ret != -ENOBUFS && *ret != -ENOMEM)
		return 0;
	return fail(-*ret,
		    "cannot create the socket that shows the broker which process this is: %s",
		    strerror(-*ret));
}

/* KIND: the kind of proofs that the broker may require. */
static int say_hello(struct rdmabroker *session, struct rdmabroker *replies, const char *kind,
		     int timeout_ms)
{
	int64_t deadline = deadline_after(timeout_ms);
	Rdmabroker__Frame *frame;
	uint32_t max_ids;
	int r;

	r = call_hello(session, replies, -1, timeout_ms, &frame);
	if (r == 0 && frame->reply->hello->proof[0]) {
		int proof;

		r = make_proof(frame->reply->hello->proof, kind, &proof);
		frame_free(frame);
		/* The broker has answered. */
		if (session->flags & RDMABROKER_AT_START)
			deadline = deadline_after(START_MS);
		if (r == 0)
			r = call_hello(session, replies, proof, (int)deadline_left(deadline),
				       &frame);
		if (proof >= 0)
			close(proof);
	}
	if (r < 0)
		return r;
	if (frame->reply->hello->proof[0]) {
		r = fail(EPROTO, "the broker asks for a proof of this process twice");
	} else if (frame->reply->hello->version != 1) {
		r = fail(EPROTO,
			 "the broker uses version %u of the protocol, this library version 1: "
			 "install versions that fit",
			 frame->reply->hello->version);
	} else {
		max_ids = frame->reply->hello->max_ids;
		session->ids->max = max_ids < IDS_MAX ? max_ids : IDS_MAX;
		session->devices->had_any = frame->reply->hello->has_devices;
		session->number = frame->reply->hello->session;
		if (replies && frame->reply->hello->apart)
			r = be_direct(session, replies);
	}
	frame_free(frame);
	return r;
}

static struct rdmabroker *new_session(int call_timeout_ms, unsigned flags)
{
	struct parts *parts = calloc(1, sizeof(*parts));

	if (!parts)
		return NULL;
	parts->public = (struct rdmabroker){
		.flags = flags,
		.ids = &parts->ids,
		.devices = &parts->devices,
		.queue = &parts->queue,
		.notices = &parts->notices,
	};
	wire_init(&parts->public.wire, &ops, &parts->public, call_timeout_ms, parts->packet);
	LIST_INIT(&parts->devices.list);
	queue_init(&parts->queue);
	notices_init(&parts->notices);
	return &parts->public;
}

/*
 * Fork safety has to be set up before the first memory is registered. If only the environment requests it, libibverbs
 * itself warns of a failure.
 */
static int make_fork_safe(unsigned flags)
{
	bool by_program = flags & RDMABROKER_FORK_SAFE;

	/* IBV_FORK_UNNEEDED: the kernel copies registered pages at fork, so there is nothing to do. */
	if ((by_program || getenv("RDMAV_FORK_SAFE") || getenv("IBV_FORK_SAFE")) &&
	    ibv_is_fork_initialized() == IBV_FORK_DISABLED && ibv_fork_init() != 0 && by_program)
		return fail(EINVAL,
			    "open: ibv_fork_init() failed: memory is registered already, or the "
			    "kernel does not support it");
	return 0;
}

static const char *choose_socket(unsigned flags)
{
	const char *named = secure_getenv("RDMABROKER_SOCKET");

	if (named)
		return named;
	if (flags & RDMABROKER_AS_ADMIN && faccessat(AT_FDCWD, ADMIN_SOCKET, W_OK, AT_EACCESS) == 0)
		return ADMIN_SOCKET;
	if (flags & RDMABROKER_AS_HELPER &&
	    faccessat(AT_FDCWD, HELPER_SOCKET, W_OK, AT_EACCESS) == 0)
		return HELPER_SOCKET;
	return DEFAULT_SOCKET;
}

/* A session with RDMABROKER_NONBLOCK gets outcomes of calls by its own socket, and one without a descriptor needs none. */
static int check_replies(const struct rdmabroker_options *options)
{
	const unsigned others = RDMABROKER_NONBLOCK | RDMABROKER_NO_POLL;
	int r;

	if (options->flags & others || options->replies->flags & RDMABROKER_NONBLOCK)
		return fail(EINVAL,
			    "open: options.replies does not go with RDMABROKER_NONBLOCK and "
			    "RDMABROKER_NO_POLL");
	if (options->replies->replies)
		return fail(EINVAL,
			    "open: options.replies is a session that has options.replies itself");
	r = wire_check_process(&options->replies->wire);
	if (r < 0)
		return r;
	/* Notice here that its broker is gone: it is read only when a call waits. */
	wire_lock(&options->replies->wire);
	pump_drain(&options->replies->wire);
	wire_unlock(&options->replies->wire);
	return rdmabroker_check(options->replies);
}

static int take_options(struct rdmabroker_options *ret, const struct rdmabroker_options *options)
{
	int r = 0;

	*ret = (struct rdmabroker_options)RDMABROKER_OPTIONS_INIT;
	if (options)
		r = SIZED_TAKE(ret, options, "open", rdmabroker_options, call_timeout_ms, replies);
	if (r < 0)
		return r;
	if (ret->replies)
		r = check_replies(ret);
	else if (ret->flags & RDMABROKER_TRUST_FD)
		r = fail(EINVAL, "open: RDMABROKER_TRUST_FD is only for options.replies");
	if (r < 0)
		return r;
	if (ret->flags & ~FLAGS)
		return fail(EOPNOTSUPP, "open: options.flags has the unknown bits 0x%x",
			    ret->flags & ~FLAGS);
	if (!ret->socket)
		ret->socket = choose_socket(ret->flags);
	if (ret->call_timeout_ms <= 0)
		ret->call_timeout_ms = RDMABROKER_TIMEOUT_DEFAULT;
	return make_fork_safe(ret->flags);
}

/* SOCK: the socket of an adopted session, which is taken over, also on failure; -1: connects. */
static int open_once(const struct rdmabroker_options *options, int sock, int64_t deadline,
		     struct rdmabroker **ret)
{
	struct rdmabroker *session = new_session(options->call_timeout_ms, options->flags);
	struct rdmabroker *replies = sock < 0 ? options->replies : NULL;
	int r = 0;

	if (!session) {
		if (sock >= 0)
			close(sock);
		return fail(ENOMEM, "open: out of memory");
	}
	session->wire.sock = ownfd_of(sock);
	if (sock < 0)
		r = connect_to(&session->wire, options->socket, deadline);
	if (r == 0)
		r = say_hello(session, replies, sock < 0 ? PROOF_OPENS : PROOF_ADOPTS,
			      (int)deadline_left(deadline));
	/* Not direct with REPLIES: the broker does not know how, so replies come by the session's own socket. */
	if (r == 0 && !wire_is_direct(&session->wire) && !(session->flags & RDMABROKER_NO_POLL))
		r = make_fds(&session->wire);
	if (r < 0) {
		rdmabroker_close(session);
		return r;
	}
	if (session->flags & RDMABROKER_NO_POLL)
		let_block(&session->wire);
	*ret = session;
	return 0;
}

int rdmabroker_open(const struct rdmabroker_options *options, struct rdmabroker **ret)
{
	struct rdmabroker_options our;
	int64_t deadline;
	int r = take_options(&our, options);

	if (r < 0)
		return r;
	deadline = deadline_after(our.flags & RDMABROKER_AT_START ? START_MS : our.call_timeout_ms);
	/* A daemon that is restarted keeps all sessions but those whose hello is not answered yet. */
	for (unsigned i = 0; i < TRIES; i++) {
		r = open_once(&our, /* sock= */ -1, deadline, ret);
		if (r != -ECONNRESET || deadline_left(deadline) <= 0)
			break;
	}
	if (r == 0)
		(*ret)->is_starting = our.flags & RDMABROKER_AT_START;
	return r;
}

static bool is_seqpacket(int fd)
{
	int domain = -1, type = -1;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

/* Sends END to the broker, over the released session FD. Other packets can wait there, which the launcher has not read. */
static int ask_to_adopt(int fd, int end, int64_t deadline, uint8_t buf[PACKET_MAX])
{
	REQUEST(request, m, AdoptSession, ADOPT_SESSION, adopt_session);
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT, *reply;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[2], r = 0;
	size_t n_fds;
	ssize_t n;

	request.serial = ADOPT_SERIAL;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = &request;
	r = packet_send(fd, buf, rdmabroker__frame__pack(&frame, buf), &end, 1);
	if (r < 0)
		return fail(-r, "adopt: cannot send to the broker: %s", strerror(-r));
	for (;;) {
		if (poll(&p, 1, (int)deadline_left(deadline)) == 0)
			return fail(ETIMEDOUT, "adopt: the broker did not answer in time");
		n = packet_recv(fd, buf, fds, 2, &n_fds);
		while (n_fds > 0)
			close(fds[--n_fds]);
		if (n == -EAGAIN)
			continue;
		if (n < 0)
			return fail((int)-n, "adopt: the session has ended");
		reply = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
		if (reply && reply->body_case == RDMABROKER__FRAME__BODY_REPLY &&
		    reply->reply->serial == ADOPT_SERIAL)
			break;
		rdmabroker__frame__free_unpacked(reply, NULL);
	}
	if (reply->reply->failure)
		r = fail(reply->reply->failure->error ?: EIO, "%s", reply->reply->failure->text);
	rdmabroker__frame__free_unpacked(reply, NULL);
	return r;
}

int rdmabroker_adopt(int fd, const struct rdmabroker_options *options, struct rdmabroker **ret)
{
	struct rdmabroker_options our;
	int r = take_options(&our, options), pair[2];
	uint8_t *packet;
	int64_t deadline;

	if (r < 0)
		return r;
	deadline = deadline_after(our.call_timeout_ms);
	if (!is_seqpacket(fd))
		return fail(EINVAL, "adopt: descriptor %d is not a session that was released", fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(errno, "adopt: cannot make a pair of sockets: %s", strerror(errno));
	packet = malloc(PACKET_MAX);
	r = packet ? ask_to_adopt(fd, pair[1], deadline, packet) :
		     fail(ENOMEM, "adopt: out of memory");
	free(packet);
	close(pair[1]);
	if (r == 0)
		r = open_once(&our, above_stdio(pair[0]), deadline, ret);
	else
		close(pair[0]);
	if (r == 0)
		close(fd);
	return r;
}

/*
 * If the socket was just closed, the broker would let the user open the session's devices a while longer, because the
 * program could have lost the socket. It does so, too, if the socket has no room for the packet.
 */
static void say_goodbye(struct rdmabroker *session)
{
	REQUEST(request, m, Goodbye, GOODBYE, goodbye);
	struct call like = { .name = "goodbye", .answer = ANSWER_DROPPED };

	if (opendevice_had_any(session))
		call_post(&session->wire, &like, &request, 0);
}

static bool stays_open(struct rdmabroker *session)
{
	bool stays = session->n_direct > 0;

	if (wire_check_process(&session->wire) < 0)
		return stays;
	wire_lock(&session->wire);
	stays = session->n_direct > 0;
	session->closing = stays;
	wire_unlock(&session->wire);
	return stays;
}

/* A session that has got its replies by REPLIES is closed. True: REPLIES was to be closed, and it was the last one. */
static bool is_last(struct rdmabroker *replies)
{
	bool last;

	if (wire_check_process(&replies->wire) < 0)
		return false;
	wire_lock(&replies->wire);
	last = --replies->n_direct == 0 && replies->closing;
	wire_unlock(&replies->wire);
	return last;
}

struct rdmabroker *rdmabroker_close(struct rdmabroker *session)
{
	struct parts *parts = (struct parts *)session;
	struct rdmabroker *replies = session ? session->replies : NULL;
	struct failure_copy copy;

	if (!parts)
		return NULL;
	fail_save(&copy);
	/* It is closed with the last session whose replies it gets. */
	if (stays_open(session)) {
		fail_restore(&copy);
		return NULL;
	}
	say_goodbye(session);
	/* Send no more requests: when the socket is closed, the daemon destroys all ids and leases of the session. */
	if (!session->wire.dead)
		session->wire.dead = -ESHUTDOWN;
	lifetime_free_all(session);
	idtable_done(&parts->ids);
	opendevice_free_all(session);
	queue_done(&parts->queue);
	notices_done(&parts->notices);
	pending_free_all(&session->wire);
	wire_done(&session->wire);
	free(parts);
	if (replies && is_last(replies))
		rdmabroker_close(replies);
	fail_restore(&copy);
	return NULL;
}

int rdmabroker_get_fd(const struct rdmabroker *session)
{
	struct rdmabroker *s = (struct rdmabroker *)session;

	if (s->flags & RDMABROKER_NO_POLL)
		return -1;
	if (wire_check_process(&s->wire) == 0) {
		wire_lock(&s->wire);
		wire_be_polled(&s->wire);
		wire_unlock(&s->wire);
	}
	return wire_get_fd(&s->wire);
}

int rdmabroker_set_epoll(struct rdmabroker *session, int epoll)
{
	struct wire *wire = &session->wire;
	int r = wire_check_process(wire);

	if (r < 0)
		return r;
	if (session->flags & RDMABROKER_NO_POLL)
		return fail(EINVAL, "set_epoll: the session was opened with RDMABROKER_NO_POLL");
	wire_lock(wire);
	wire_be_polled(wire);
	r = wire_set_epoll(wire, epoll);
	wire_unlock(wire);
	return r < 0 ? fail(-r, "set_epoll: %s", strerror(-r)) : 0;
}

int rdmabroker_check(struct rdmabroker *session)
{
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	wire_lock(&session->wire);
	r = wire_check_own(&session->wire);
	if (r == 0 && wire_is_direct(&session->wire))
		r = wire_check_own(session->wire.replies);
	wire_unlock(&session->wire);
	return r;
}
