/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/facts/failure.h"
#include "core/object/core.h"
#include "core/object/quota.h"
#include "core/object/restriction.h"
#include "core/object/session.h"
#include "proto/packet.h"
#include "proto/unixsock.h"
#include "rpc/published.h"
#include "takeover/ledger.h"
#include "takeover/socketstore.h"
#include "util/log.h"
#include "util/util.h"

#define SOCKET_NAME "rdmabroker.sock"
#define BACKLOG 128
#define RANDOM_BYTES 16
#define NAME_LEN (2 * RANDOM_BYTES)

_Static_assert(NAME_LEN < LEDGER_NAME, "a name must fit into the ledger");

struct published {
	struct list link; /* published_sockets.list */
	struct published_sockets *published_sockets;
	struct session *session;
	uint64_t number; /* in the socket store */
	char name[NAME_LEN + 1];
	char *path;
	int fd; /* -1: not opened yet */
	struct charge charge;
	struct ledger_published *row; /* NULL: not kept */
};

static int make_path(char **ret, const struct published_sockets *published_sockets,
		     const char *name, const char *file)
{
	int n = asprintf(ret, "%s/%s%s%s", published_sockets->dir, name, file ? "/" : "",
			 file ?: "");

	return n < 0 ? -ENOMEM : 0;
}

/* Removes the socket NAME and its directory, as far as they exist. */
static void remove_files(const struct published_sockets *published_sockets, const char *name)
{
	_cleanup_free_ char *path = NULL, *dir = NULL;

	if (make_path(&path, published_sockets, name, SOCKET_NAME) < 0 ||
	    make_path(&dir, published_sockets, name, NULL) < 0)
		return;
	unlink(path);
	rmdir(dir);
}

struct published *published_free(struct published *published)
{
	struct published_sockets *published_sockets;

	if (!published)
		return NULL;
	published_sockets = published->published_sockets;
	/* Closing it would not remove it from the epoll instance, because the socket store has copies. */
	if (published->fd >= 0)
		crowd_remove(&published_sockets->crowd, published->fd);
	remove_files(published_sockets, published->name);
	ledger_remove_published(core_get_ledger(published_sockets->core), published->row);
	socketstore_drop(core_get_socketstore(published_sockets->core), published->number);
	closep(&published->fd);
	charge_done(&published->charge);
	list_remove(&published->link);
	free(published->path);
	free(published);
	return NULL;
}

DEFINE_CLEANUP(struct published *, published_free)

/* The socket cannot be watched any more, for example because it was shut down. */
static void disable(struct published *published, int r)
{
	log_limited(session_log_limit(published->session), LOG_ERR,
		    "The socket %s cannot accept clients any more: %s.", published->path,
		    strerror(-r));
	crowd_remove(&published->published_sockets->crowd, published->fd);
}

static bool on_ready(void *object, uint32_t events)
{
	struct published *published = object;
	const struct published_sockets *published_sockets = published->published_sockets;
	int r = published_sockets->on_connection(published_sockets->userdata, published->fd,
						 session_get_restriction(published->session));

	if (r < 0)
		disable(published, r);
	return true;
}

/* Serves PUBLISHED's socket, and keeps it for the next process. */
static int start(struct published *published)
{
	struct published_sockets *published_sockets = published->published_sockets;
	int r;

	packet_pass_fds(published->fd, false);
	r = crowd_add(&published_sockets->crowd, published->fd, EPOLLIN, published);
	if (r < 0)
		return r;
	r = socketstore_put(core_get_socketstore(published_sockets->core), published->number,
			    &published->fd, 1);
	if (r < 0) {
		log_limited(session_log_limit(published->session), LOG_WARNING,
			    "The socket %s will not survive a restart of the broker: %s.",
			    published->path, socketstore_strerror(r));
		return 0;
	}
	published->row = ledger_add_published(core_get_ledger(published_sockets->core));
	/* It would be gone after a restart, and nobody would be told. */
	if (!published->row)
		return session_get_row(published->session) ? -ENOSPC : 0;
	published->row->session = session_get_number(published->session);
	memcpy(published->row->name, published->name, sizeof(published->name));
	published->row->number = published->number;
	return 0;
}

static int published_new(struct published **ret, struct published_sockets *published_sockets,
			 struct session *session, const char *name, uint64_t number, int fd)
{
	struct published *published = calloc(1, sizeof(*published));

	if (!published) {
		closep(&fd);
		return -ENOMEM;
	}
	published->published_sockets = published_sockets;
	published->session = session;
	published->number = number;
	published->fd = fd;
	memcpy(published->name, name, NAME_LEN);
	list_insert(&published_sockets->list, &published->link);
	*ret = published;
	return make_path(&published->path, published_sockets, published->name, SOCKET_NAME);
}

/* A name that nobody can guess. */
static int choose_name(char ret[NAME_LEN + 1])
{
	uint8_t random[RANDOM_BYTES];

	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		return -EAGAIN;
	for (size_t i = 0; i < RANDOM_BYTES; i++)
		snprintf(ret + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* The daemon's umask denies others everything, so the modes are set afterwards. */
static int make_directory(const char *path, mode_t mode)
{
	if (mkdir(path, 0700) < 0)
		return -errno;
	return chmod(path, mode) < 0 ? -errno : 0;
}

static int listen_at(struct published *published)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_close_ int dirfd = -1;
	char path[64];
	int r = make_path(&dir, published->published_sockets, published->name, NULL);

	if (r < 0)
		return r;
	r = make_directory(dir, 0755);
	if (r == -ENOENT) {
		r = make_directory(published->published_sockets->dir, 0711);
		if (r == 0)
			r = make_directory(dir, 0755);
	}
	if (r < 0)
		return r;
	dirfd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dirfd < 0)
		return -errno;
	/* The kernel shows everybody the path at which a socket was bound. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d/" SOCKET_NAME, dirfd);
	r = unixsock_listen(path, SOCK_SEQPACKET, 0666, BACKLOG);
	if (r < 0)
		return r;
	published->fd = r;
	return 0;
}

int published_sockets_add(struct published_sockets *published_sockets, struct session *session,
			  const char **ret_path, struct failure *failure)
{
	_cleanup_(published_freep) struct published *published = NULL;
	const struct published *has = session_get_published(session);
	char name[NAME_LEN + 1];
	int r;

	if (has) {
		*ret_path = has->path;
		return 0;
	}
	if (!session_get_restriction(session))
		return failure_set(failure, STATUS_BAD_STATE,
				   "publish: the session has no restriction");
	r = choose_name(name);
	if (r == 0)
		r = published_new(&published, published_sockets, session, name,
				  core_next_number(published_sockets->core),
				  /* fd= */ -1);
	if (r < 0)
		return failure_errno(failure, r);
	r = quota_charge(session, &published->charge, ACCOUNT_FDS, 1, failure);
	if (r != 0)
		return r;
	r = listen_at(published);
	if (r == 0)
		r = start(published);
	if (r == -ENOSPC)
		return failure_set(
			failure, STATUS_QUOTA,
			"the broker has no room for further sockets that outlive its restart");
	if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Cannot make the socket %s (RestrictedDirectory=): %s.",
			    published->path, strerror(-r));
		failure_set(failure, STATUS_INTERNAL,
			    "publish: the broker cannot make a socket in %s: %s",
			    published_sockets->dir, strerror(-r));
		failure->error = -r;
		return STATUS_INTERNAL;
	}
	*ret_path = published->path;
	session_set_published(session, TAKE_PTR(published));
	return 0;
}

int published_sockets_restore(struct published_sockets *published_sockets, struct session *session,
			      const struct ledger_published *row, int fd)
{
	_cleanup_(published_freep) struct published *published = NULL;
	struct failure ignored;
	int r;

	if (session_get_published(session) || strnlen(row->name, LEDGER_NAME) != NAME_LEN) {
		close(fd);
		return -EEXIST;
	}
	r = published_new(&published, published_sockets, session, row->name, row->number, fd);
	if (r == 0)
		r = start(published);
	if (r < 0)
		return r;
	/* If the charge fails, because the limit is lower now, the published socket goes on without a charge. */
	quota_charge(session, &published->charge, ACCOUNT_FDS, 1, &ignored);
	session_set_published(session, TAKE_PTR(published));
	return 0;
}

static bool is_in_use(const struct published_sockets *published_sockets, const char *name)
{
	struct list *l;

	list_for_each(l, &published_sockets->list)
		if (strcmp(container_of(l, struct published, link)->name, name) == 0)
			return true;
	return false;
}

/* True: a process listens on the socket NAME. */
static bool is_served(const struct published_sockets *published_sockets, const char *name)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (make_path(&path, published_sockets, name, SOCKET_NAME) < 0)
		return true;
	fd = unixsock_connect(path, SOCK_SEQPACKET);
	return fd != -ECONNREFUSED && fd != -ENOENT;
}

/* Only what published_sockets_add() could have made is removed, and not what belongs to another daemon that runs. */
void published_sockets_sweep(struct published_sockets *published_sockets)
{
	DIR *dir = opendir(published_sockets->dir);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (strlen(entry->d_name) == NAME_LEN &&
		    strspn(entry->d_name, "0123456789abcdef") == NAME_LEN &&
		    !is_in_use(published_sockets, entry->d_name) &&
		    !is_served(published_sockets, entry->d_name))
			remove_files(published_sockets, entry->d_name);
	closedir(dir);
}

void published_sockets_set_accepting(struct published_sockets *published_sockets, bool accepting)
{
	sd_event_source_set_enabled(published_sockets->crowd.io,
				    accepting ? SD_EVENT_ON : SD_EVENT_OFF);
}

int published_sockets_init(struct published_sockets *published_sockets, struct core *core,
			   const char *dir,
			   int (*on_connection)(void *userdata, int fd,
						struct restriction *restriction),
			   void *userdata)
{
	*published_sockets = (struct published_sockets){
		.core = core,
		.dir = strdup(dir),
		.on_connection = on_connection,
		.userdata = userdata,
	};
	list_init(&published_sockets->list);
	if (!published_sockets->dir)
		return -ENOMEM;
	return crowd_init(&published_sockets->crowd, core_get_loop(core), /* max= */ 1, on_ready);
}

void published_sockets_done(struct published_sockets *published_sockets)
{
	crowd_done(&published_sockets->crowd);
	free(published_sockets->dir);
}
