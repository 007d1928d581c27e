/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/packet.h"
#include "rpc/control.h"
#include "rpc/peer.h"
#include "rpc/peers.h"
#include "rpc/server.h"
#include "rpc/takeover.h"
#include "util/closer.h"
#include "util/list.h"
#include "util/log.h"
#include "util/util.h"

#define PAUSE_USEC (1 * 1000000ULL)

struct server {
	sd_event *loop;
	struct core *core;
	int fd;
	sd_event_source *io;
	sd_event_source *resume; /* timer that ends a pause of accepting */
	size_t max_queued_bytes;
	struct peers peers;
	struct control control;
	struct ratelimit log_limit;
};

DEFINE_CLEANUP(struct server *, server_free)

static void set_accepting(void *userdata, bool accepting)
{
	struct server *server = userdata;

	sd_event_source_set_enabled(server->io, accepting ? SD_EVENT_ON : SD_EVENT_OFF);
	sd_event_source_set_enabled(server->resume, accepting ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
	if (!accepting)
		sd_event_source_set_time_relative(server->resume, PAUSE_USEC);
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;

	(void)source;
	(void)usec;
	set_accepting(server, true);
	peers_resume_all(&server->peers);
	return 0;
}

/*
 * Accepts a client. Returns its socket or a negative errno. The objects that will close the socket are created first,
 * so that each accepted socket can be closed.
 */
static int accept_client(struct server *server)
{
	int sock, r;

	r = peers_make_closings(&server->peers);
	if (r < 0)
		return r;
	/* Keep enough descriptors free to receive those of any packet. */
	if (account_is_full(core_get_account(server->core), ACCOUNT_FDS))
		return -EMFILE;
	sock = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return sock < 0 ? -errno : sock;
}

int server_add_client(struct server *server, int sock)
{
	struct lobby_place *surplus;
	int r = peers_make_closings(&server->peers);

	if (r < 0) {
		close(sock);
		return r;
	}
	r = peer_new(&server->peers, server->loop, server->core, TAKE_PTR(server->peers.next), sock,
		     server->max_queued_bytes);
	while ((surplus = lobby_surplus(&server->peers.lobby))) {
		lobby_leave(surplus);
		peer_drop(container_of(surplus, struct peer, place),
			  "it has not sent a hello, and too many clients are in this state");
	}
	return r;
}

/* Accepts one client per dispatch, so that connected clients are served during a flood of new ones. */
static int on_connection(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct server *server = userdata;
	int sock, r;

	(void)source;
	(void)fd;
	(void)events;
	sock = accept_client(server);
	switch (sock) {
	case -EAGAIN:
	case -EINTR:
	case -ECONNABORTED:
		return 0;
	default:
		if (sock >= 0)
			break;
		log_limited(&server->log_limit, LOG_WARNING,
			    "Cannot accept a client: %s. Trying again in a second.",
			    strerror(-sock));
		set_accepting(server, false);
		return 0;
	}
	r = server_add_client(server, sock);
	if (r < 0)
		log_limited(&server->log_limit, LOG_WARNING,
			    "Cannot serve a client: %s. Its connection is closed.", strerror(-r));
	return 0;
}

static void on_caught_up(void *userdata)
{
	peers_resume_all(userdata);
}

static const struct peers_ops peers_ops = {
	.on_io = peer_on_io,
	.go_on = peer_go_on,
	.reap = peer_reap,
	.resume = peer_resume,
	.set_accepting = set_accepting,
};

int server_new(struct server **ret, sd_event *loop, struct core *core, int fd,
	       size_t max_queued_bytes, const struct server_ops *ops, void *userdata)
{
	_cleanup_(server_freep) struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server) {
		close(fd);
		return -ENOMEM;
	}
	server->loop = sd_event_ref(loop);
	server->core = core;
	server->fd = fd;
	server->max_queued_bytes = max_queued_bytes;
	control_init(&server->control, ops->reload, userdata);
	r = peers_init(&server->peers, loop, core, &server->control, &peers_ops, server);
	if (r < 0)
		return r;
	closer_set_caught_up(core_get_closer(core), on_caught_up, &server->peers);
	/* From Linux 6.16 on, clients cannot send descriptors until peer.c enables that for their socket. */
	packet_pass_fds(fd, false);

	r = sd_event_add_io(loop, &server->io, fd, EPOLLIN, on_connection, server);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(loop, &server->resume, CLOCK_MONOTONIC, PAUSE_USEC, 0,
				       on_resume, server);
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
	list_for_each_safe(l, n, &server->peers.list)
		peer_free(container_of(l, struct peer, link));
	peers_done(&server->peers);
	control_done(&server->control);
	sd_event_source_disable_unref(server->io);
	sd_event_source_disable_unref(server->resume);
	close(server->fd);
	sd_event_unref(server->loop);
	free(server);
	return NULL;
}

int server_take_over(struct server *server, struct vault *vault, const struct old_ledger *old,
		     const void *busy, size_t busy_len)
{
	return takeover_run(&server->peers, server->max_queued_bytes, vault, old, busy, busy_len);
}

struct control *server_get_control(struct server *server)
{
	return &server->control;
}
