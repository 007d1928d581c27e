/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/facts/failure.h"
#include "core/object/inquiry.h"
#include "core/object/restriction.h"
#include "proto/packet.h"
#include "proto/timer.h"
#include "rpc/arrivals.h"
#include "rpc/control.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "rpc/published.h"
#include "rpc/restore_peers.h"
#include "rpc/server.h"
#include "util/closer.h"
#include "util/list.h"
#include "util/log.h"
#include "util/util.h"

#define PAUSE_USEC (1 * 1000000ULL)
#define ACCEPTED_AT_ONCE 64
#define DROPPED_AT_ONCE 16

/* A listening socket. */
struct entrance {
	struct server *server;
	enum door door;
	int fd; /* -1: it does not exist */
	sd_event_source *io;
};

struct server {
	struct core *core;
	struct entrance entrances[_DOOR_MAX];
	sd_event_source *resume; /* timer that ends a pause of accepting */
	struct peers peers;
	struct arrivals arrivals;
	struct published_sockets published_sockets;
	struct control control;
	struct ratelimit log_limit;
};

DEFINE_CLEANUP(struct server *, server_free)

static void set_accepting(void *userdata, bool accepting)
{
	struct server *server = userdata;

	for (int i = 0; i < _DOOR_MAX; i++)
		if (server->entrances[i].io)
			sd_event_source_set_enabled(server->entrances[i].io,
						    accepting ? SD_EVENT_ON : SD_EVENT_OFF);
	published_sockets_set_accepting(&server->published_sockets, accepting);
	if (accepting)
		timer_stop(server->resume);
	else
		timer_start(server->resume, PAUSE_USEC);
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;

	set_accepting(server, true);
	peers_resume_all(&server->peers);
	return 0;
}

/*
 * Accepts a client. Returns its socket or a negative errno. The objects that will close the socket are created first,
 * so that each accepted socket can be closed.
 */
static int accept_client(struct server *server, int fd)
{
	int sock, r;

	r = peers_make_closings(&server->peers);
	if (r < 0)
		return r;
	/* Keep enough descriptors free to receive those of any packet. */
	if (account_is_full(core_get_account(server->core), ACCOUNT_FDS))
		return -EMFILE;
	sock = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return sock < 0 ? -errno : sock;
}

static int serve_client(struct server *server, struct closing *closing, int sock, enum door door,
			struct restriction *restriction, bool adopts)
{
	struct newcomers_place *surplus;
	int r = peer_new(&server->peers, closing, sock, door, restriction, adopts);

	while ((surplus = newcomers_surplus(&server->peers.newcomers))) {
		newcomers_leave(surplus);
		peer_drop(container_of(surplus, struct peer, place),
			  "it has not sent a hello, and too many clients are in this state");
	}
	return r;
}

int server_add_client(struct server *server, int sock, enum door door,
		      struct restriction *restriction, bool adopts)
{
	int r = peers_make_closings(&server->peers);

	if (r < 0) {
		close(sock);
		return r;
	}
	return serve_client(server, TAKE_PTR(server->peers.next), sock, door, restriction, adopts);
}

static void tell_unserved(struct server *server, int r)
{
	if (r == -EDQUOT)
		log_limited(&server->log_limit, LOG_WARNING,
			    "Cannot serve a client: too many of its user have connected at the "
			    "same time. Its connection is closed.");
	else if (r < 0)
		log_limited(&server->log_limit, LOG_WARNING,
			    "Cannot serve a client: %s. Its connection is closed.", strerror(-r));
}

/* While the hellos of the owner's newcomers wait for their turns, the newcomers must not become too many. */
static bool admit(void *userdata, struct arrival *arrival)
{
	struct server *server = userdata;
	struct peers *peers = &server->peers;

	if (newcomers_count(&peers->newcomers, arrival->owner) >= NEWCOMERS_PER_USER / 2 &&
	    turns_has_work(&peers->turns, arrival->owner))
		return false;
	tell_unserved(server, serve_client(server, arrival->closing, arrival->sock, arrival->door,
					   arrival->restriction, /* adopts= */ false));
	return true;
}

/*
 * Accepts some clients, which wait for their turns then, so that connected clients are served during a flood of new ones.
 * Returns 0, or a negative errno: FD is of no use any more.
 */
static int accept_clients(struct server *server, int fd, enum door door,
			  struct restriction *restriction)
{
	unsigned n_dropped = 0;

	for (unsigned i = 0; i < ACCEPTED_AT_ONCE && n_dropped < DROPPED_AT_ONCE &&
			     !arrivals_are_full(&server->arrivals);
	     i++) {
		int sock = accept_client(server, fd), r;

		switch (sock) {
		case -EAGAIN:
			return 0;
		case -EINTR:
		case -ECONNABORTED:
			continue;
		case -EINVAL: /* it was shut down */
			return sock;
		}
		if (sock < 0) {
			log_limited(&server->log_limit, LOG_WARNING,
				    "Cannot accept a client: %s. Trying again in a second.",
				    strerror(-sock));
			set_accepting(server, false);
			return 0;
		}
		r = arrivals_add(&server->arrivals, TAKE_PTR(server->peers.next), sock, door,
				 restriction);
		tell_unserved(server, r);
		n_dropped += r < 0;
	}
	return 0;
}

static int on_connection(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	const struct entrance *entrance = userdata;

	if (accept_clients(entrance->server, fd, entrance->door, /* restriction= */ NULL) < 0)
		set_accepting(entrance->server, false);
	return 0;
}

static int on_published_connection(void *userdata, int fd, struct restriction *restriction)
{
	return accept_clients(userdata, fd, DOOR_COMMON, restriction);
}

static bool has_option(int sock, int option, int value)
{
	int is;
	socklen_t len = sizeof(is);

	return getsockopt(sock, SOL_SOCKET, option, &is, &len) == 0 && is == value;
}

static bool has_no_name(int (*get)(int fd, struct sockaddr *addr, socklen_t *len), int sock)
{
	struct sockaddr_un addr;
	socklen_t len = sizeof(addr);

	return get(sock, (struct sockaddr *)&addr, &len) == 0 &&
	       len == offsetof(struct sockaddr_un, sun_path);
}

/*
 * Only both ends of a pair have no name. The credentials of its ends are those of the process that has made the pair.
 * Any other connected socket has those of the server to which it is connected.
 */
static bool is_end_of_a_pair(int sock)
{
	return has_option(sock, SO_DOMAIN, AF_UNIX) && has_option(sock, SO_TYPE, SOCK_SEQPACKET) &&
	       has_option(sock, SO_ACCEPTCONN, 0) && has_no_name(getsockname, sock) &&
	       has_no_name(getpeername, sock);
}

static int adopt(struct server *server, int sock, struct restriction *restriction,
		 struct failure *failure)
{
	int r, copy;

	if (!is_end_of_a_pair(sock))
		return failure_set(failure, STATUS_BAD_REQUEST,
				   "adopt: the descriptor is no end of a pair of SOCK_SEQPACKET "
				   "sockets");
	if (account_is_full(core_get_account(server->core), ACCOUNT_FDS))
		return failure_set(failure, STATUS_QUOTA,
				   "adopt: the broker has too many descriptors");
	copy = fcntl(sock, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return failure_errno(failure, -errno);
	r = server_add_client(server, copy, DOOR_COMMON, restriction, /* adopts= */ true);
	return failure_errno(failure, r);
}

static void on_caught_up(void *userdata)
{
	peers_resume_all(userdata);
}

static int open_entrance(struct entrance *entrance)
{
	int flags;

	if (entrance->fd < 0)
		return 0;
	/* systemd's sockets block, and accept_clients() goes on until nobody is left. */
	flags = fcntl(entrance->fd, F_GETFL);
	if (flags < 0 || fcntl(entrance->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	/* From Linux 6.16 on, clients cannot send descriptors until peer.c enables that for their socket. */
	packet_pass_fds(entrance->fd, false);
	return sd_event_add_io(core_get_loop(entrance->server->core), &entrance->io, entrance->fd,
			       EPOLLIN, on_connection, entrance);
}

int server_new(struct server **ret, struct core *core, const int fds[_DOOR_MAX],
	       const char *restricted_dir, size_t max_queued_bytes,
	       uint64_t (*reload)(void *userdata, bool dry_run), void *userdata)
{
	_cleanup_(server_freep) struct server *server = calloc(1, sizeof(*server));
	int r, q;

	if (!server) {
		for (int i = 0; i < _DOOR_MAX; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		return -ENOMEM;
	}
	server->core = core;
	for (int i = 0; i < _DOOR_MAX; i++)
		server->entrances[i] =
			(struct entrance){ .server = server, .door = (enum door)i, .fd = fds[i] };
	control_init(&server->control, reload, userdata);
	server->control.published_sockets = &server->published_sockets;
	server->control.adopt = adopt;
	server->control.server = server;
	/* Both are first, and whatever fails, because server_free() needs their lists. */
	r = arrivals_init(&server->arrivals, core_get_loop(core), core_get_account(core), admit,
			  server);
	q = peers_init(&server->peers, core, &server->control, max_queued_bytes, set_accepting,
		       server);
	if (r < 0 || q < 0)
		return r < 0 ? r : q;
	r = published_sockets_init(&server->published_sockets, core, restricted_dir,
				   on_published_connection, server);
	if (r < 0)
		return r;
	closer_set_caught_up(core_get_closer(core), on_caught_up, &server->peers);
	for (int i = 0; i < _DOOR_MAX; i++) {
		r = open_entrance(&server->entrances[i]);
		if (r < 0)
			return r;
	}
	if (fds[DOOR_HELPER] >= 0)
		inquiries_set_door(core);
	r = timer_new(&server->resume, core_get_loop(core), 0, on_resume, server);
	if (r < 0)
		return r;
	set_accepting(server, true);
	*ret = TAKE_PTR(server);
	return 0;
}

struct server *server_free(struct server *server)
{
	struct list *l, *n;

	if (!server)
		return NULL;
	closer_set_caught_up(core_get_closer(server->core), NULL, NULL);
	arrivals_done(&server->arrivals);
	list_for_each_safe(l, n, &server->peers.list)
		peer_free(container_of(l, struct peer, link));
	peers_done(&server->peers);
	published_sockets_done(&server->published_sockets);
	control_done(&server->control);
	for (int i = 0; i < _DOOR_MAX; i++) {
		sd_event_source_disable_unref(server->entrances[i].io);
		closep(&server->entrances[i].fd);
	}
	sd_event_source_disable_unref(server->resume);
	free(server);
	return NULL;
}

int server_take_over(struct server *server, struct socketstore *socketstore,
		     const struct old_ledger *old, const void *busy, size_t busy_len)
{
	int r = restore_peers(&server->peers, &server->published_sockets, socketstore, old, busy,
			      busy_len);

	published_sockets_sweep(&server->published_sockets);
	return r;
}

struct control *server_get_control(struct server *server)
{
	return &server->control;
}
