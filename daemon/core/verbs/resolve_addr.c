/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/rule_settings.h"
#include "core/object/inquiry.h"
#include "core/object/wait.h"
#include "core/verbs/bind.h"
#include "core/verbs/id_life.h"
#include "core/verbs/resolve_addr.h"
#include "core/verbs/resolve_route.h"
#include "proto/addr.h"
#include "util/clock.h"

/*
 * The kernel can miss a neighbour's reply, and then waits for its whole timeout. So the broker makes several attempts
 * of at most this length.
 */
#define RESOLVE_SLICE_MS 1000

unsigned resolve_cap_timeout(const struct id *id, unsigned timeout_ms)
{
	unsigned cap = id->session->core->settings.resolve_timeout_ms;

	return timeout_ms == 0 || timeout_ms > cap ? cap : timeout_ms;
}

static int resolve_slice(struct id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	uint64_t left = id->route.until_ms - clock_ms();

	return fabric_id_resolve_addr(id->fabric, src, dst,
				      left < RESOLVE_SLICE_MS ? (int)left : RESOLVE_SLICE_MS);
}

int resolve_start(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		  unsigned timeout_ms)
{
	int r;

	id->route.until_ms = clock_ms() + resolve_cap_timeout(id, timeout_ms);
	r = resolve_slice(id, src, dst);
	if (r == 0)
		id_set_state(id, ID_ADDR_QUERY);
	return r;
}

unsigned resolve_get_left_ms(const struct id *id)
{
	uint64_t now = clock_ms();

	return id->route.until_ms > now ? (unsigned)(id->route.until_ms - now) : 1;
}

bool resolve_again(struct id *id, int status)
{
	struct fabric_id_info info;

	if (id->state != ID_ADDR_QUERY || status != -ETIMEDOUT || clock_ms() >= id->route.until_ms)
		return false;
	fabric_id_get_info(id->fabric, &info);
	return resolve_slice(id, NULL, (struct sockaddr *)&info.peer) == 0;
}

const struct failure *resolve_explain(const struct id *id, int status, struct failure *failure)
{
	struct fabric_id_info info;

	if (status != -ENODEV)
		return NULL;
	fabric_id_get_info(id->fabric, &info);
	if (!addr_is_loopback((struct sockaddr *)&info.peer))
		return NULL;
	failure_set_error(failure, STATUS_FABRIC, ENODEV, "%s", failure_loopback);
	return failure;
}

static void on_destination_known(void *userdata, struct peerid *answer)
{
	struct fabric_event event = { .type = RDMA_CM_EVENT_ADDR_RESOLVED };
	struct id *id = userdata;

	id->who.inquiry = NULL;
	id_set_peerid(id, answer);
	/* Otherwise another event, such as DEVICE_REMOVAL, has come. */
	if (id->state == ID_ADDR_QUERY)
		id->session->core->on_event(id, &event);
}

bool resolve_asks(struct id *id)
{
	struct policy_verdict verdict;
	struct peerid *unknown;
	struct id_intent intent;

	if (!policy_asks(id->session->core->policy) || id->state != ID_ADDR_QUERY ||
	    id->who.state == WHO_ANSWERED || id->who.inquiry)
		return id->who.inquiry != NULL;
	intent_to_connect(&intent, id);
	intent.intent.question.can_ask = true;
	decide_ask(id->session, &intent.intent, &verdict);
	if (verdict.answer != POLICY_ASK)
		return false;
	id->who.inquiry = inquiry_new(id->session, &intent.intent.question, /* peer_qpn= */ 0,
				      on_destination_known, id, &unknown);
	if (!id->who.inquiry)
		id_set_peerid(id, unknown);
	return id->who.inquiry != NULL;
}

/* The source address with the traffic class that RULE gives it, as a copy in SPACE. NULL: the kernel chooses one. */
static const struct sockaddr *choose_source(struct sockaddr_storage *space, const struct id *id,
					    const struct sockaddr *src, const struct sockaddr *dst,
					    const struct policy_rule *rule)
{
	struct sockaddr_in6 *any = (struct sockaddr_in6 *)space;

	*space = (struct sockaddr_storage){ 0 };
	if (src) {
		memcpy(space, src, addr_len(src));
	} else if (id->state == ID_IDLE && dst->sa_family == AF_INET6) {
		/* What the kernel would make. */
		any->sin6_family = AF_INET6;
		any->sin6_scope_id = ((const struct sockaddr_in6 *)dst)->sin6_scope_id;
	}
	rule_settings_cap_address(rule, space);
	return src || addr_traffic_class((struct sockaddr *)space) > 0 ? (struct sockaddr *)space :
									 NULL;
}

int resolve_addr(struct id *id, const struct sockaddr *src, const struct sockaddr *dst,
		 unsigned timeout_ms, enum route_when route, struct failure *failure)
{
	struct policy_verdict verdict;
	struct sockaddr_storage own;
	int r;

	/* An id whose address is going to be resolved again keeps its peer. */
	if ((id->state != ID_IDLE && id->state != ID_BOUND) || id->route.plan == ROUTE_REBIND)
		return id_refuse_state(id, "resolve_addr", failure);
	r = bind_check_service(id, dst, /* is_peer= */ true, "resolve_addr", failure);
	if (r == 0 && src)
		r = bind_check_service(id, src, /* is_peer= */ false, "resolve_addr", failure);
	if (r != 0)
		return r;
	id_forget_peerid(id);
	r = decide_may_begin(id->session, "resolve_addr", failure);
	if (r == 0)
		r = wait_for_devices(id->session, "resolve_addr", failure);
	if (r != 0)
		return r;
	/* A bound id keeps its address, as in the kernel. */
	if (id->state == ID_BOUND)
		src = NULL;
	r = decide_connect(id, true, src, dst, &verdict, failure);
	if (r != 0)
		return r;
	if (src && addr_port(src) > 0) {
		r = bind_addr(id, src, failure);
		if (r != 0)
			return r;
		src = NULL;
	}
	src = choose_source(&own, id, src, dst, verdict.rule);
	r = resolve_start(id, src, dst, timeout_ms);
	if (r < 0)
		return failure_set_resolve(failure, r, src, dst);
	resolve_route_plan(id, route, timeout_ms);
	return 0;
}
