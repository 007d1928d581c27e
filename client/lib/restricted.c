/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"

/* The calls restrict, publish and release, with which a launcher gives others less than it has. */

int rdmabroker_restrict(struct rdmabroker *session, const char *rules, unsigned max_ids)
{
	REQUEST(request, m, RestrictSession, RESTRICT_SESSION, restrict_session);

	m.rules = (char *)rules;
	m.max_ids = max_ids;
	return call_wait(&session->wire, "restrict", &request);
}

int rdmabroker_publish(struct rdmabroker *session, char *path, size_t size)
{
	REQUEST(request, m, PublishSocket, PUBLISH_SOCKET, publish_socket);
	Rdmabroker__Frame *frame;
	int r = call_wait_for(&session->wire, "publish", &request,
			      RDMABROKER__REPLY__RESULT_PUBLISH_SOCKET, &frame);

	if (r < 0)
		return r;
	if (strlen(frame->reply->publish_socket->path) >= size)
		r = fail(ERANGE, "publish: the path needs %zu bytes",
			 strlen(frame->reply->publish_socket->path) + 1);
	else
		strcpy(path, frame->reply->publish_socket->path);
	frame_free(frame);
	return r;
}

int rdmabroker_release(struct rdmabroker *session)
{
	REQUEST(request, m, ReleaseSession, RELEASE_SESSION, release_session);
	int r = rdmabroker_check(session), fd;

	if (r < 0)
		return r;
	fd = fcntl(session->wire.sock.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fail(errno, "release: cannot copy the descriptor: %s", strerror(errno));
	r = call_wait(&session->wire, "release", &request);
	if (r < 0) {
		close(fd);
		return r;
	}
	rdmabroker_close(session);
	return fd;
}
