/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/packet.h"
#include "rpc/flight.h"
#include "rpc/lobby.h"
#include "rpc/peer.h"
#include "rpc/server.h"
#include "util/closer.h"
#include "util/diag.h"
#include "util/list.h"
#include "util/log.h"
#include "util/util.h"

#define PAUSE_USEC (1 * 1000000ULL)
#define BATCH 64 /* clients per turn */
#define REAPED_A_TURN 16 /* ending sessions per turn */
#define IDS_A_TURN 256 /* ids of an ending session per turn */

struct server {
	sd_event *loop;
	struct core *core;
	int fd;
	sd_event_source *io;
	sd_event_source *resume; /* ends a pause of accepting */
	int epoll; /* of all clients, see on_peers() */
	sd_event_source *peers_io;
	size_t max_queued_bytes;
	struct list peers; /* peer.link */
	struct list resumed; /* peer.resumed */
	sd_event_source *resumer; /* enabled while there is one */
	struct list reaping; /* peer.reaping */
	sd_event_source *reaper; /* enabled while there is one */
	struct lobby lobby; /* peer.place */
	struct flights flights;
	struct closing *next; /* will close the client accepted next; NULL: not created yet */
	struct closing *room; /* see server_get_room(); NULL: not created yet */
	bool has_no_room; /* there was no memory for it, so some clients are not read */
	struct closing *refused; /* bound to NOBODY, so that server_refuse() cannot fail to bind */
	const struct server_ops *ops;
	void *userdata;
	char *policy_error;
	struct list reloading; /* session.waiting: for a reload to be done */
	uint64_t reloaded_ticket; /* of the last reload that is done; 0: none */
	int reloaded_r;
	struct diag *reloaded_diag;
	struct ratelimit log_limit;
};

DEFINE_CLEANUP(struct server *, server_free)

static void set_accepting(struct server *server, bool accepting)
{
	sd_event_source_set_enabled(server->io, accepting ? SD_EVENT_ON : SD_EVENT_OFF);
	sd_event_source_set_enabled(server->resume, accepting ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
	if (!accepting)
		sd_event_source_set_time_relative(server->resume, PAUSE_USEC);
}

static void resume_peers(void *userdata)
{
	struct server *server = userdata;
	struct list *l;

	server->has_no_room = false;
	list_for_each(l, &server->peers)
		peer_resume(container_of(l, struct peer, link));
}

static int on_resume(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void)source;
	(void)usec;
	set_accepting(userdata, true);
	resume_peers(userdata);
	return 0;
}

#define NOBODY ((uid_t)-1)

void server_refuse(struct closing *closing, int sock)
{
	/* server.refused is bound to the same, so this cannot fail. */
	closing_bind(closing, NOBODY, CLOSER_STRANGER);
	closing_add(closing, sock);
	closing_go(closing);
}

static int make_closings(struct server *server)
{
	int r = 0;

	if (!server->next)
		r = closing_new(&server->next, core_get_closer(server->core), 1);
	if (r == 0 && !server->room)
		r = closing_new(&server->room, core_get_closer(server->core), PACKET_ALL_FDS);
	return r;
}

/*
 * What closing the client will need is created first, so that no client is accepted that could not be closed.
 */
static int accept_client(struct server *server)
{
	int sock, r;

	r = make_closings(server);
	if (r < 0)
		return r;
	/* Enough descriptors are kept free to receive those of any packet. */
	if (account_is_full(core_get_account(server->core), ACCOUNT_FDS))
		return -EMFILE;
	sock = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return sock < 0 ? -errno : sock;
}

int server_add_client(struct server *server, int sock)
{
	struct lobby_place *surplus;
	int r = make_closings(server);

	if (r < 0) {
		close(sock);
		return r;
	}
	r = peer_new(server, server->loop, server->core, TAKE_PTR(server->next), sock,
		     server->max_queued_bytes);
	while ((surplus = lobby_surplus(&server->lobby))) {
		lobby_leave(surplus);
		peer_drop(container_of(surplus, struct peer, place),
			  "it has not said hello, and others want to");
	}
	return r;
}

/* Accepts one client per dispatch, so that connected clients get their turns during a flood of new ones. */
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
		log_limited(&server->log_limit, LOG_WARNING, "Cannot serve a client: %s.",
			    strerror(-r));
	return 0;
}

/*
 * All clients are one source of the loop, an epoll descriptor. If each client were a source, sd-event would
 * process all sources that are ready in each turn, but dispatch only one: with many clients each turn would
 * be long. A peer that ends is freed in a turn of its own, so no peer in READY has been freed.
 */
static int on_peers(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct epoll_event ready[BATCH];
	int n;

	(void)source;
	(void)events;
	(void)userdata;
	n = epoll_wait(fd, ready, BATCH, 0);
	for (int i = 0; i < n; i++)
		peer_on_io(ready[i].data.ptr, ready[i].events);
	return 0;
}

static void run_soon(sd_event_source *source)
{
	sd_event_source_set_time_relative(source, 0);
	sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/*
 * Frees in slices, because a session can have thousands of ids. The source is a timer that is due at once: it
 * is dispatched after the clients that are ready by then, whereas a deferred source would be dispatched
 * before them again and again.
 */
static int on_reaper(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct list *l;

	(void)usec;
	for (unsigned i = 0; i < REAPED_A_TURN && (l = list_first(&server->reaping)); i++)
		if (!peer_reap(container_of(l, struct peer, reaping), IDS_A_TURN)) {
			list_remove(l);
			list_insert(&server->reaping, l);
			break;
		}
	if (!list_is_empty(&server->reaping))
		run_soon(source);
	return 0;
}

void server_reap(struct server *server, struct peer *peer)
{
	list_remove(&peer->reaping);
	list_insert(&server->reaping, &peer->reaping);
	if (sd_event_source_get_enabled(server->reaper, NULL) == 0)
		run_soon(server->reaper);
}

/* Resumes one peer per turn, because each one processes a request. */
static int on_resumed(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;
	struct list *l = list_first(&server->resumed);

	(void)usec;
	if (l) {
		list_remove(l);
		peer_go_on(container_of(l, struct peer, resumed));
	}
	if (!list_is_empty(&server->resumed))
		run_soon(source);
	return 0;
}

void server_resume(struct server *server, struct peer *peer)
{
	list_remove(&peer->resumed);
	list_insert(&server->resumed, &peer->resumed);
	if (sd_event_source_get_enabled(server->resumer, NULL) == 0)
		run_soon(server->resumer);
}

int server_await(struct server *server, struct peer *peer, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = peer };
	int op = !peer->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (peer->events == events)
		return 0;
	if (epoll_ctl(server->epoll, op, peer->sock, &event) < 0)
		return -errno;
	peer->events = events;
	return 0;
}

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
	server->epoll = -1;
	server->max_queued_bytes = max_queued_bytes;
	server->ops = ops;
	server->userdata = userdata;
	list_init(&server->peers);
	list_init(&server->resumed);
	list_init(&server->reloading);
	list_init(&server->reaping);
	lobby_init(&server->lobby);
	r = flights_init(&server->flights, loop);
	if (r < 0)
		return r;
	r = closing_new(&server->refused, core_get_closer(core), 0);
	if (r == 0)
		r = closing_bind(server->refused, NOBODY, CLOSER_STRANGER);
	if (r < 0)
		return r;
	closer_set_caught_up(core_get_closer(core), resume_peers, server);
	/* peer.c enables this for the socket of each client that may send descriptors. */
	packet_pass_fds(fd, false);

	server->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll < 0)
		return -errno;
	r = sd_event_add_io(loop, &server->peers_io, server->epoll, EPOLLIN, on_peers, server);
	if (r < 0)
		return r;
	r = sd_event_add_io(loop, &server->io, fd, EPOLLIN, on_connection, server);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(loop, &server->resume, CLOCK_MONOTONIC, PAUSE_USEC, 0,
				       on_resume, server);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(loop, &server->reaper, CLOCK_MONOTONIC, 0, 1, on_reaper,
				       server);
	if (r >= 0)
		r = sd_event_source_set_enabled(server->reaper, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_time_relative(loop, &server->resumer, CLOCK_MONOTONIC, 0, 1,
					       on_resumed, server);
	if (r >= 0)
		r = sd_event_source_set_enabled(server->resumer, SD_EVENT_OFF);
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
	list_for_each_safe(l, n, &server->peers)
		peer_free(container_of(l, struct peer, link));
	flights_done(&server->flights);
	lobby_done(&server->lobby);
	closing_free(server->next);
	closing_free(server->room);
	closing_free(server->refused);
	sd_event_source_disable_unref(server->io);
	sd_event_source_disable_unref(server->peers_io);
	sd_event_source_disable_unref(server->resume);
	sd_event_source_disable_unref(server->resumer);
	sd_event_source_disable_unref(server->reaper);
	closep(&server->epoll);
	close(server->fd);
	sd_event_unref(server->loop);
	diag_free(server->reloaded_diag);
	free(server->policy_error);
	free(server);
	return NULL;
}

int server_add_peer(struct server *server, struct peer *peer, uid_t uid)
{
	list_insert(&server->peers, &peer->link);
	return lobby_enter(&server->lobby, &peer->place, uid);
}

void server_remove_peer(struct server *server, struct peer *peer)
{
	lobby_leave(&peer->place);
	list_remove(&peer->link);
	/* Its descriptors and its memory are free now, or will be soon. */
	set_accepting(server, true);
	if (server->has_no_room)
		resume_peers(server);
}

struct closing *server_get_room(struct server *server)
{
	if (make_closings(server) == 0)
		return TAKE_PTR(server->room);
	/* The peer is read again after a second, or when another peer was freed. */
	server->has_no_room = true;
	set_accepting(server, false);
	return NULL;
}

void server_put_room(struct server *server, struct closing *room)
{
	if (server->room)
		closing_free(room);
	else
		server->room = room;
}

struct flights *server_get_flights(struct server *server)
{
	return &server->flights;
}

void server_set_policy_error(struct server *server, const char *error)
{
	free(server->policy_error);
	server->policy_error = error ? strdup(error) : NULL;
	if (error && !server->policy_error)
		log_error("Out of memory: the status will not show what is wrong with the policy.");
}

const char *server_get_policy_error(const struct server *server)
{
	return server->policy_error ?: "";
}

void server_reloaded(struct server *server, uint64_t ticket, int r, struct diag *diag)
{
	server->reloaded_ticket = ticket;
	server->reloaded_r = r;
	diag_free(server->reloaded_diag);
	server->reloaded_diag = diag;
	/* Sessions that wait for a later reload go on waiting. */
	session_resume_all(&server->reloading);
}

int server_reload(struct server *server, struct session *session, uint64_t *ticket, bool again,
		  const struct diag **ret_diag)
{
	if (!again)
		*ticket = server->ops->reload(server->userdata);
	if (server->reloaded_ticket < *ticket) {
		session_wait(session, &server->reloading);
		return -EINPROGRESS;
	}
	*ret_diag = server->reloaded_diag;
	return server->reloaded_r;
}

uint32_t server_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the directory's own */
}
