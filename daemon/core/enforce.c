/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

#include "core/conn.h"
#include "core/decide.h"
#include "core/group.h"
#include "core/id.h"
#include "core/listener.h"
#include "core/notify.h"
#include "core/walk.h"
#include "core/wish.h"

/*
 * OnReload=enforce: ends what the new policy does not allow, as far as the connection manager can end it. A
 * program that holds a device and a QP can go on using them; its peer gets a disconnect.
 */

#define SLICE 256 /* ids and sessions per turn of the loop */

static void tell_end(struct id *id, enum rdma_cm_event_type type)
{
	struct fabric_event none = { .type = type };
	struct session_event out = {
		.fabric = &none,
		.type = type,
		.status = -EACCES,
		.failure = &id->session->failure,
	};

	notify_event(id, &out);
}

static bool is_allowed(struct id *id, struct id_wish *wish)
{
	struct policy_verdict verdict;
	char object[WISH_OBJECT_LEN];

	decide_ask(id->session, &wish->wish, &verdict);
	if (verdict.answer == POLICY_ALLOW)
		return true;
	decide_audit(id->session, &wish->wish, &verdict, /* overflow= */ NULL);
	failure_set_denied(&id->session->failure, &verdict, "%s %s is not allowed any more",
			   wish->wish.what, wish_object(&wish->wish, object));
	return false;
}

/* Ends an id that has no connection. */
static void take_away(struct id *id)
{
	/* A group or an import would use the fabric's id, which is freed below. */
	group_leave_all(id);
	export_free(id->export);
	/* DEVICE_REMOVAL is the only event of rdma_cma.h after which an id can only be destroyed. */
	id->fabric = fabric_id_free(id->fabric);
	id_set_state(id, ID_REVOKED);
	tell_end(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

/* TEXT is sent to the peer if ID is a connection request. */
static void end_connection(struct id *id, const char *text)
{
	switch (id->state) {
	case ID_REQUEST:
		listener_turn_away(id, REFUSAL_DENIED, /* retry_after_ms= */ 0, text);
		break;
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_ACCEPTED:
	case ID_ESTABLISHED:
		/* Both sides are notified as of any other disconnect. */
		if (id_is_datagram(id) || conn_disconnect(id) != 0)
			break;
		if (id->state == ID_DISCONNECTING)
			return;
		break;
	default:
		break;
	}
	id_set_state(id, ID_FAILED);
	tell_end(id, RDMA_CM_EVENT_CONNECT_ERROR);
}

static void enforce_listener(struct id *id)
{
	struct id_wish wish;

	wish_to_listen(&wish, id);
	if (!is_allowed(id, &wish))
		take_away(id);
}

static void enforce_connection(struct id *id)
{
	struct id_wish wish;

	if (id->passive)
		wish_to_accept(&wish, id->fabric, id->ps, id->request);
	else
		wish_to_connect(&wish, id);
	wish.wish.id = id;
	if (!is_allowed(id, &wish))
		end_connection(id, "policy has changed");
}

static void enforce_id(struct id *id)
{
	switch (id->state) {
	case ID_LISTENING:
		enforce_listener(id);
		break;
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_QUERY:
	case ID_ROUTE_RESOLVED:
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_REQUEST:
	case ID_ACCEPTED:
	case ID_ESTABLISHED:
		enforce_connection(id);
		break;
	default:
		break; /* policy will decide at its next step, or it has ended */
	}
	if (!id_is_empty(id) && id->state != ID_REMOVED)
		group_enforce(id);
}

/*
 * Admins and observers keep their session, without which they could not see what policy has done; as clients they are
 * treated like all others. False: the session ends, or is no client; its ids are not checked.
 */
static bool enforce_session(struct session *session)
{
	struct wish wish = { .question = { .operation = POLICY_SESSION, .port = -1 },
			     .what = "session" };
	bool is_client = session->permits & SESSION_PERMIT_CLIENT, was_client = is_client;
	struct policy_verdict verdict;

	/* It has not been greeted. */
	if (!session->permits)
		return false;
	if (is_client) {
		decide_ask(session, &wish, &verdict);
		is_client = verdict.answer == POLICY_ALLOW;
	}
	if (was_client && !is_client) {
		decide_audit(session, &wish, &verdict, /* overflow= */ NULL);
		admitted_done(&session->admitted);
	}
	session->permits = session_permits_over_others(session, /* counts= */ false) |
			   (is_client ? SESSION_PERMIT_CLIENT : 0);
	if (!session->permits) {
		session->ops->end(session->userdata, "policy does not allow it any more");
		return false;
	}
	if (was_client)
		session_enforce_leases(session);
	return was_client;
}

/* Checks at most MAX ids. Returns how many of MAX are left. */
static unsigned enforce_some(struct session *session, unsigned max)
{
	struct id *id;

	if (session->walk.request == 0 && session->walk.id == 0 && !enforce_session(session)) {
		list_remove(&session->enforcing);
		return max;
	}
	while (max > 0) {
		id = session_next_id(session, &session->walk);
		if (!id) {
			list_remove(&session->enforcing);
			break;
		}
		enforce_id(id);
		max--;
	}
	return max;
}

/* Checks one slice. The rest follows after the clients that are ready by then. */
static int on_enforce(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct core *core = userdata;
	unsigned left = SLICE;
	struct list *l;

	(void)usec;
	/* A session counts too, because it has leases and may have no ids. */
	while (left > 0 && (l = list_first(&core->enforcing)))
		left = enforce_some(container_of(l, struct session, enforcing), left - 1);
	if (!list_is_empty(&core->enforcing)) {
		sd_event_source_set_time_relative(source, 0);
		sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	return 0;
}

int core_init_enforcing(struct core *core)
{
	int r;

	list_init(&core->enforcing);
	r = sd_event_add_time_relative(core->loop, &core->enforcer, CLOCK_MONOTONIC, 0, 1,
				       on_enforce, core);
	if (r >= 0)
		r = sd_event_source_set_enabled(core->enforcer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

void core_enforce(struct core *core)
{
	struct list *l;

	list_for_each(l, &core->sessions) {
		struct session *session = container_of(l, struct session, link);

		if (session->ending)
			continue;
		session->walk = (struct session_walk){ 0 };
		list_remove(&session->enforcing);
		list_insert(&core->enforcing, &session->enforcing);
	}
	on_enforce(core->enforcer, 0, core);
}

/* Requests of an admin */

int core_kick_session(struct session *by, uint64_t number)
{
	struct session *session = core_find_session(by->core, number);
	char why[96];

	if (session == by)
		return failure_set(&by->failure, STATUS_BAD_REQUEST,
				   "session %llu is the one that asks", (unsigned long long)number);
	if (!session)
		return failure_set(&by->failure, STATUS_NO_SUCH_ID, "there is no session %llu",
				   (unsigned long long)number);
	snprintf(why, sizeof(why), "uid %u, pid %d has ended it", by->identity.uid,
		 by->identity.pid);
	/* Lines that a client causes are rate-limited; what an admin does is always logged. */
	log_notice("Session %llu, uid %u, pid %d is ended by uid %u, pid %d.",
		   (unsigned long long)number, session->identity.uid, session->identity.pid,
		   by->identity.uid, by->identity.pid);
	session->ops->end(session->userdata, why);
	return 0;
}

static int find_id(struct session *by, uint64_t number, uint32_t handle, struct id **ret)
{
	struct session *session = core_find_session(by->core, number);
	int r;

	if (!session)
		return failure_set(&by->failure, STATUS_NO_SUCH_ID, "there is no session %llu",
				   (unsigned long long)number);
	r = session_get_id(session, handle, ret);
	if (r != 0)
		return failure_set(&by->failure, STATUS_NO_SUCH_ID, "session %llu has no id %u",
				   (unsigned long long)number, handle);
	return 0;
}

int core_kick_id(struct session *by, uint64_t number, uint32_t handle)
{
	struct session *session;
	struct id *id;
	int r = find_id(by, number, handle, &id);

	if (r != 0)
		return r;
	session = id->session;
	switch (id->state) {
	case ID_DISCONNECTING:
	case ID_DISCONNECTED:
	case ID_FAILED:
	case ID_REMOVED:
	case ID_MOVED:
	case ID_REVOKED:
		return failure_set(&by->failure, STATUS_BAD_STATE, "kick: id %u is %s already",
				   handle, id_state_to_string(id->state));
	default:
		break;
	}
	log_notice("Session %llu, uid %u, pid %d: id %u, %s, is ended by uid %u, pid %d.",
		   (unsigned long long)number, session->identity.uid, session->identity.pid, handle,
		   id_state_to_string(id->state), by->identity.uid, by->identity.pid);
	failure_set(&session->failure, STATUS_DENIED, "an admin has ended it");
	group_leave_all(id);
	switch (id->state) {
	case ID_IDLE:
	case ID_BOUND:
	case ID_LISTENING:
	case ID_ADDR_QUERY:
		take_away(id);
		break;
	default:
		end_connection(id, "ended by an admin");
		break;
	}
	return 0;
}

void core_set_draining(struct session *by, bool draining)
{
	struct core *core = by->core;

	if (core->draining == draining)
		return;
	core->draining = draining;
	if (draining)
		log_notice(
			"Draining: nothing new is taken, by uid %u, pid %d; %u connections are left.",
			by->identity.uid, by->identity.pid, core->n_connections);
	else
		log_notice("Draining is taken back by uid %u, pid %d.", by->identity.uid,
			   by->identity.pid);
}
