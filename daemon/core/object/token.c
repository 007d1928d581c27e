/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/object/id.h"
#include "core/object/quota.h"
#include "core/object/token.h"
#include "util/hash.h"
#include "util/util.h"

#define ENDS_A_TURN 64 /* exports whose ends are handled in one turn of the loop */

struct token {
	UT_hash_handle hh; /* tokens.by_cookie */
	struct id *id;
	uint64_t cookie;
	int sock;
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

static bool on_end(void *object, uint32_t events)
{
	token_free(object);
	return true;
}

int tokens_init(struct tokens *tokens, sd_event *loop)
{
	return crowd_init(&tokens->crowd, loop, ENDS_A_TURN, on_end);
}

void tokens_done(struct tokens *tokens)
{
	assert(!tokens->by_cookie);
	crowd_done(&tokens->crowd);
}

struct token *token_free(struct token *token)
{
	struct tokens *tokens;

	if (!token)
		return NULL;
	tokens = token->id->session->core->tokens;
	token->id->token = NULL;
	if (token->hh.tbl)
		HASH_DEL(tokens->by_cookie, token);
	/* No other process has a copy, so closing it ends the watch. */
	closep(&token->sock);
	charge_done(&token->charge);
	free(token);
	return NULL;
}

DEFINE_CLEANUP(struct token *, token_free)

int token_new(struct id *id, int *ret_fd, struct failure *failure)
{
	_cleanup_(token_freep) struct token *token = calloc(1, sizeof(*token));
	struct tokens *tokens = id->session->core->tokens;
	_cleanup_close_ int theirs = -1;
	int pair[2], r;

	if (!token)
		return failure_errno(failure, -ENOMEM);
	token->id = id;
	token->sock = -1;
	r = quota_charge(id->session, &token->charge, ACCOUNT_FDS, 1, failure);
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
		r = failure_errno(failure, crowd_add(&tokens->crowd, token->sock, 0, token));
	if (r < 0)
		return r;
	HASH_ADD(hh, tokens->by_cookie, cookie, sizeof(token->cookie), token);
	if (!token->hh.tbl)
		return failure_errno(failure, -ENOMEM);
	id->token = TAKE_PTR(token);
	*ret_fd = TAKE_FD(theirs);
	return 0;
}

struct id *token_find(const struct core *core, int fd)
{
	struct token *token;
	uint64_t cookie;

	if (get_cookie(fd, &cookie) < 0)
		return NULL;
	HASH_FIND(hh, core->tokens->by_cookie, &cookie, sizeof(cookie), token);
	return token ? token->id : NULL;
}
