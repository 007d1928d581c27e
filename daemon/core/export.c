/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/id.h"
#include "util/util.h"

/*
 * An id's descriptor is one end of a socket pair whose other end is kept here. It is known again by the
 * kernel's cookie of the socket, which is never given twice, whatever the descriptor went through. When
 * the last copy of it is closed, our end says so, and the export is over.
 */
struct export
{
	struct list link; /* core.exports */
	struct id *id;
	uint64_t cookie;
	int sock;
	sd_event_source *io;
	struct charge charge;
};

/*
 * The one call that is made on a descriptor which a client sent. It takes no lock that its sender could hold, and
 * of what is no socket it asks nothing.
 */
static int get_cookie(int fd, uint64_t *ret)
{
	socklen_t len = sizeof(*ret);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret, &len) < 0 ? -errno : 0;
}

static int on_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)source;
	(void)fd;
	(void)events;
	export_free(userdata);
	return 0;
}

struct export *export_free(struct export *export)
{
	if (!export)
		return NULL;
	export->id->export = NULL;
	list_remove(&export->link);
	sd_event_source_disable_unref(export->io);
	closep(&export->sock);
	charge_done(&export->charge);
	free(export);
	return NULL;
}

DEFINE_CLEANUP(struct export *, export_free)

int id_export(struct id *id, int *ret_fd)
{
	_cleanup_(export_freep) struct export *export = NULL;
	struct core *core = id->session->core;
	_cleanup_close_ int theirs = -1;
	int pair[2], r;

	if (id_is_empty(id) || id->state == ID_REMOVED || id->export)
		return id->export ? failure_set(&id->session->failure, STATUS_BAD_STATE,
						"export: id %u is exported already", id->handle) :
				    id_refuse_state(id, "export");
	if (!list_is_empty(&id->groups)) {
		failure_set(&id->session->failure, STATUS_BAD_STATE,
			    "export: id %u has joined multicast groups", id->handle);
		id->session->failure.error = EBUSY;
		return STATUS_BAD_STATE;
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return -ENOMEM;
	list_init(&export->link);
	export->id = id;
	export->sock = -1;
	r = session_charge(id->session, &export->charge, ACCOUNT_FDS, 1, "descriptors",
			   "DescriptorsPerUser=");
	if (r != 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	export->sock = pair[0];
	theirs = pair[1];
	/* Nothing can be sent to our end from now on: to close it never waits for what a client has put there. */
	if (shutdown(export->sock, SHUT_RD) < 0)
		return -errno;
	r = get_cookie(theirs, &export->cookie);
	/* Without an event to wait for it is woken for the one it cannot but hear of: the other end is closed. */
	if (r == 0)
		r = sd_event_add_io(core->loop, &export->io, export->sock, 0, on_end, export);
	if (r < 0)
		return r;
	list_insert(&core->exports, &export->link);
	id->export = TAKE_PTR(export);
	*ret_fd = TAKE_FD(theirs);
	return 0;
}

int id_import(struct session *session, int fd, struct id **ret)
{
	struct export *export = NULL;
	uint64_t cookie;
	struct list *l;
	int r;

	if (get_cookie(fd, &cookie) == 0)
		list_for_each(l, &session->core->exports) {
			struct export *e = container_of(l, struct export, link);

			if (e->cookie == cookie)
				export = e;
		}
	if (!export)
		return failure_set(
			&session->failure, STATUS_NO_SUCH_ID,
			"import: the descriptor does not stand for an id, or not any more");
	r = id_new_moved(ret, session, export->id);
	if (r == 0)
		export_free(export);
	return r;
}
