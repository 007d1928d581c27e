/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/id.h"
#include "core/quota.h"
#include "core/token.h"
#include "util/util.h"

struct token {
	struct list link; /* core.tokens */
	struct id *id;
	uint64_t cookie;
	int sock;
	sd_event_source *io;
	struct charge charge;
};

/*
 * FD can be anything, so this call must not block: it takes no lock that the sender could hold, and runs no file
 * operation of a file that is no socket.
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
	token_free(userdata);
	return 0;
}

struct token *token_free(struct token *token)
{
	if (!token)
		return NULL;
	token->id->token = NULL;
	list_remove(&token->link);
	sd_event_source_disable_unref(token->io);
	closep(&token->sock);
	charge_done(&token->charge);
	free(token);
	return NULL;
}

DEFINE_CLEANUP(struct token *, token_free)

int token_new(struct id *id, int *ret_fd, struct failure *failure)
{
	_cleanup_(token_freep) struct token *token = calloc(1, sizeof(*token));
	struct core *core = id->session->core;
	_cleanup_close_ int theirs = -1;
	int pair[2], r;

	if (!token)
		return failure_errno(failure, -ENOMEM);
	list_init(&token->link);
	token->id = id;
	token->sock = -1;
	r = quota_charge(id->session, &token->charge, ACCOUNT_FDS, 1, "descriptors",
			 "DescriptorsPerUser=", failure);
	if (r != 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return failure_errno(failure, -errno);
	token->sock = pair[0];
	theirs = pair[1];
	/* Nothing can be sent to our end any more, so closing it never waits for what a client has queued. */
	if (shutdown(token->sock, SHUT_RD) < 0)
		return failure_errno(failure, -errno);
	r = failure_errno(failure, get_cookie(theirs, &token->cookie));
	/* With no events selected, epoll still reports EPOLLHUP: the other end was closed or shut down. */
	if (r == 0)
		r = failure_errno(failure, sd_event_add_io(core->loop, &token->io, token->sock, 0,
							   on_end, token));
	if (r < 0)
		return r;
	list_insert(&core->tokens, &token->link);
	id->token = TAKE_PTR(token);
	*ret_fd = TAKE_FD(theirs);
	return 0;
}

struct id *token_find(const struct core *core, int fd)
{
	uint64_t cookie;
	struct list *l;

	if (get_cookie(fd, &cookie) < 0)
		return NULL;
	list_for_each(l, &core->tokens) {
		struct token *token = container_of(l, struct token, link);

		if (token->cookie == cookie)
			return token->id;
	}
	return NULL;
}
