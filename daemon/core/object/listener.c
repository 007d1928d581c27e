/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/object/id.h"
#include "core/object/listener.h"
#include "core/object/quota.h"
#include "util/util.h"

static struct backlog *backlog_unref(struct backlog *backlog)
{
	if (backlog && --backlog->n_refs == 0)
		free(backlog);
	return NULL;
}

void listener_add(struct listener *listener, struct id *request)
{
	listener->backlog->n_refs++;
	listener->backlog->n_waiting++;
	request->handshake.backlog = listener->backlog;
}

void listener_answered(struct id *request)
{
	if (request->handshake.backlog)
		request->handshake.backlog->n_waiting--;
	request->handshake.backlog = backlog_unref(request->handshake.backlog);
}

void listener_set_rule(struct listener *listener, const struct policy_rule *rule)
{
	int max = rule->settings.backlog;

	if (max > 0 && listener->backlog->max > (unsigned)max)
		listener->backlog->max = (unsigned)max;
}

DEFINE_CLEANUP(struct listener *, listener_free)

int listener_new(struct listener **ret, struct id *id, unsigned backlog, struct failure *failure)
{
	_cleanup_(listener_freep) struct listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return failure_errno(failure, -ENOMEM);
	listener->id = id;
	list_init(&listener->asked);
	listener->backlog = malloc(sizeof(*listener->backlog));
	if (!listener->backlog)
		return failure_errno(failure, -ENOMEM);
	*listener->backlog = (struct backlog){ .n_refs = 1, .max = backlog };
	r = quota_charge(id->session, &listener->charge, ACCOUNT_LISTENERS, 1, failure);
	if (r != 0)
		return r;
	*ret = TAKE_PTR(listener);
	return 0;
}

struct listener *listener_free(struct listener *listener)
{
	if (!listener)
		return NULL;
	charge_done(&listener->charge);
	backlog_unref(listener->backlog);
	free(listener);
	return NULL;
}

void listener_reject(struct fabric_id *request, bool is_datagram, enum refusal_code code,
		     uint32_t retry_after_ms, const char *text)
{
	uint8_t data[REFUSAL_MAX];
	size_t len = refusal_pack(data, is_datagram ? REFUSAL_MAX_LOOKUP : REFUSAL_MAX, code,
				  retry_after_ms, text);

	fabric_id_reject(request, data, (uint8_t)len, /* ece= */ false);
}

void listener_turn_away(struct id *request, enum refusal_code code, uint32_t retry_after_ms,
			const char *text)
{
	listener_reject(request->fabric, id_is_datagram(request), code, retry_after_ms, text);
}
