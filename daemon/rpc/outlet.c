/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/object/core.h"
#include "core/facts/failure.h"
#include "core/object/quota.h"
#include "core/object/restriction.h"
#include "core/object/session.h"
#include "keep/ledger.h"
#include "keep/vault.h"
#include "proto/packet.h"
#include "proto/unixsock.h"
#include "rpc/outlet.h"
#include "util/log.h"
#include "util/util.h"

#define SOCKET_NAME "rdmabroker.sock"
#define BACKLOG 128
#define RANDOM_BYTES 16
#define NAME_LEN (2 * RANDOM_BYTES)

_Static_assert(NAME_LEN < LEDGER_NAME, "a name must fit into the ledger");

struct outlet {
	struct list link; /* outlets.list */
	struct outlets *outlets;
	struct session *session;
	uint64_t number; /* in the vault */
	char name[NAME_LEN + 1];
	char *path;
	int fd; /* -1: not opened yet */
	struct charge charge;
	struct ledger_outlet *row; /* NULL: not kept */
};

static int make_path(char **ret, const struct outlets *outlets, const char *name, const char *file)
{
	return asprintf(ret, "%s/%s%s%s", outlets->dir, name, file ? "/" : "", file ?: "") < 0 ?
		       -ENOMEM :
		       0;
}

/* Removes the socket NAME and its directory, as far as they exist. */
static void remove_files(const struct outlets *outlets, const char *name)
{
	_cleanup_free_ char *path = NULL, *dir = NULL;

	if (make_path(&path, outlets, name, SOCKET_NAME) < 0 ||
	    make_path(&dir, outlets, name, NULL) < 0)
		return;
	unlink(path);
	rmdir(dir);
}

struct outlet *outlet_free(struct outlet *outlet)
{
	struct outlets *outlets;

	if (!outlet)
		return NULL;
	outlets = outlet->outlets;
	/* Closing it would not remove it from the epoll instance, because the vault has copies. */
	if (outlet->fd >= 0)
		crowd_remove(&outlets->crowd, outlet->fd);
	remove_files(outlets, outlet->name);
	ledger_remove_outlet(core_get_ledger(outlets->core), outlet->row);
	vault_drop(core_get_vault(outlets->core), outlet->number);
	closep(&outlet->fd);
	charge_done(&outlet->charge);
	list_remove(&outlet->link);
	free(outlet->path);
	free(outlet);
	return NULL;
}

DEFINE_CLEANUP(struct outlet *, outlet_free)

/* The socket cannot be watched any more, for example because it was shut down. */
static void disable(struct outlet *outlet, int r)
{
	log_limited(session_log_limit(outlet->session), LOG_ERR,
		    "The socket %s cannot accept clients any more: %s.", outlet->path,
		    strerror(-r));
	crowd_remove(&outlet->outlets->crowd, outlet->fd);
}

static bool on_ready(void *object, uint32_t events)
{
	struct outlet *outlet = object;
	const struct outlets *outlets = outlet->outlets;
	int r = outlets->on_connection(outlets->userdata, outlet->fd,
				       session_get_restriction(outlet->session));

	if (r < 0)
		disable(outlet, r);
	return true;
}

/* Serves OUTLET's socket, and keeps it for the next process. */
static int start(struct outlet *outlet)
{
	struct outlets *outlets = outlet->outlets;
	int r;

	packet_pass_fds(outlet->fd, false);
	r = crowd_add(&outlets->crowd, outlet->fd, EPOLLIN, outlet);
	if (r < 0)
		return r;
	r = vault_put(core_get_vault(outlets->core), outlet->number, &outlet->fd, 1);
	if (r < 0) {
		log_limited(session_log_limit(outlet->session), LOG_WARNING,
			    "The socket %s will not survive a restart of the broker: %s.",
			    outlet->path, vault_strerror(r));
		return 0;
	}
	outlet->row = ledger_add_outlet(core_get_ledger(outlets->core));
	/* It would be gone after a restart, and nobody would be told. */
	if (!outlet->row)
		return session_get_row(outlet->session) ? -ENOSPC : 0;
	outlet->row->session = session_get_number(outlet->session);
	memcpy(outlet->row->name, outlet->name, sizeof(outlet->name));
	outlet->row->number = outlet->number;
	return 0;
}

static int outlet_new(struct outlet **ret, struct outlets *outlets, struct session *session,
		      const char *name, uint64_t number, int fd)
{
	struct outlet *outlet = calloc(1, sizeof(*outlet));

	if (!outlet) {
		closep(&fd);
		return -ENOMEM;
	}
	outlet->outlets = outlets;
	outlet->session = session;
	outlet->number = number;
	outlet->fd = fd;
	memcpy(outlet->name, name, NAME_LEN);
	list_insert(&outlets->list, &outlet->link);
	*ret = outlet;
	return make_path(&outlet->path, outlets, outlet->name, SOCKET_NAME);
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

static int listen_at(struct outlet *outlet)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_close_ int dirfd = -1;
	char path[64];
	int r = make_path(&dir, outlet->outlets, outlet->name, NULL);

	if (r < 0)
		return r;
	r = make_directory(dir, 0755);
	if (r == -ENOENT) {
		r = make_directory(outlet->outlets->dir, 0711);
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
	outlet->fd = r;
	return 0;
}

int outlets_publish(struct outlets *outlets, struct session *session, const char **ret_path,
		    struct failure *failure)
{
	_cleanup_(outlet_freep) struct outlet *outlet = NULL;
	const struct outlet *has = session_get_outlet(session);
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
		r = outlet_new(&outlet, outlets, session, name, core_next_number(outlets->core),
			       /* fd= */ -1);
	if (r < 0)
		return failure_errno(failure, r);
	r = quota_charge(session, &outlet->charge, ACCOUNT_FDS, 1, failure);
	if (r != 0)
		return r;
	r = listen_at(outlet);
	if (r == 0)
		r = start(outlet);
	if (r == -ENOSPC)
		return failure_set(
			failure, STATUS_QUOTA,
			"the broker has no room for further sockets that outlive its restart");
	if (r < 0) {
		log_limited(session_log_limit(session), LOG_ERR,
			    "Cannot make the socket %s (RestrictedDirectory=): %s.", outlet->path,
			    strerror(-r));
		failure_set(failure, STATUS_INTERNAL,
			    "publish: the broker cannot make a socket in %s: %s", outlets->dir,
			    strerror(-r));
		failure->error = -r;
		return STATUS_INTERNAL;
	}
	*ret_path = outlet->path;
	session_set_outlet(session, TAKE_PTR(outlet));
	return 0;
}

int outlets_restore(struct outlets *outlets, struct session *session,
		    const struct ledger_outlet *row, int fd)
{
	_cleanup_(outlet_freep) struct outlet *outlet = NULL;
	struct failure ignored;
	int r;

	if (session_get_outlet(session) || strnlen(row->name, LEDGER_NAME) != NAME_LEN) {
		close(fd);
		return -EEXIST;
	}
	r = outlet_new(&outlet, outlets, session, row->name, row->number, fd);
	if (r == 0)
		r = start(outlet);
	if (r < 0)
		return r;
	/* If the charge fails, because the limit is lower now, the outlet goes on without a charge. */
	quota_charge(session, &outlet->charge, ACCOUNT_FDS, 1, &ignored);
	session_set_outlet(session, TAKE_PTR(outlet));
	return 0;
}

static bool is_in_use(const struct outlets *outlets, const char *name)
{
	struct list *l;

	list_for_each(l, &outlets->list)
		if (strcmp(container_of(l, struct outlet, link)->name, name) == 0)
			return true;
	return false;
}

/* True: a process listens on the socket NAME. */
static bool is_served(const struct outlets *outlets, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || make_path(&path, outlets, name, SOCKET_NAME) < 0 ||
	    strlen(path) >= sizeof(addr.sun_path))
		return true;
	strcpy(addr.sun_path, path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 ||
	       (errno != ECONNREFUSED && errno != ENOENT);
}

/* Only what outlets_publish() could have made is removed, and not what belongs to another daemon that runs. */
void outlets_sweep(struct outlets *outlets)
{
	DIR *dir = opendir(outlets->dir);
	const struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (strlen(entry->d_name) == NAME_LEN &&
		    strspn(entry->d_name, "0123456789abcdef") == NAME_LEN &&
		    !is_in_use(outlets, entry->d_name) && !is_served(outlets, entry->d_name))
			remove_files(outlets, entry->d_name);
	closedir(dir);
}

void outlets_set_accepting(struct outlets *outlets, bool accepting)
{
	sd_event_source_set_enabled(outlets->crowd.io, accepting ? SD_EVENT_ON : SD_EVENT_OFF);
}

int outlets_init(struct outlets *outlets, sd_event *loop, struct core *core, const char *dir,
		 int (*on_connection)(void *userdata, int fd, struct restriction *restriction),
		 void *userdata)
{
	*outlets = (struct outlets){
		.core = core,
		.dir = strdup(dir),
		.on_connection = on_connection,
		.userdata = userdata,
	};
	list_init(&outlets->list);
	if (!outlets->dir)
		return -ENOMEM;
	return crowd_init(&outlets->crowd, loop, /* max= */ 1, on_ready);
}

void outlets_done(struct outlets *outlets)
{
	crowd_done(&outlets->crowd);
	free(outlets->dir);
}
