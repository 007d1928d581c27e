/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/admit/watch.h"
#include "core/object/id.h"
#include "core/object/notice.h"
#include "core/object/restriction.h"
#include "core/rule/admin.h"
#include "core/rule/judge.h"
#include "core/verbs/lease.h"
#include "proto/address.h"
#include "proto/names.h"
#include "proto/packet.h"
#include "proto/text.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "util/clock.h"

/* Requests to list and watch all sessions and ids, to end them, and to drain the broker. */

#define MAX_LISTED 24 /* sessions and ids in a reply */
#define LISTED_SIZE_MAX 2304 /* the longest session or id in a reply, packed */
#define MAX_EXAMINED \
	16384 /* comparisons of rules; the page ends after the session or id that has reached them */

struct out_listed_session {
	Rdmabroker__ListedSession session;
	struct out_workload workload;
	char unit[TEXT_MAX / 2];
	char rule[TEXT_MAX / 2];
	char restriction[TEXT_MAX / 2];
};

struct out_listed_id {
	Rdmabroker__ListedId id;
	struct out_id_info info;
	struct out_peerid peerid;
	char rule[TEXT_MAX / 2];
};

/* What the reply to list points to. */
struct space {
	Rdmabroker__ListResult list;
	struct listed {
		union {
			struct out_listed_session session;
			struct out_listed_id id;
		};
		char denied[TEXT_MAX / 2];
	} listed[MAX_LISTED];
	Rdmabroker__ListedSession *listed_sessions[MAX_LISTED];
	Rdmabroker__ListedId *listed_ids[MAX_LISTED];
};

static Rdmabroker__ListedSession *out_session(struct out_listed_session *space,
					      const struct session *session)
{
	Rdmabroker__ListedSession *out = &space->session;

	rdmabroker__listed_session__init(out);
	out->number = session_get_number(session);
	out->uid = session_get_uid(session);
	out->pid = (uint32_t)session_get_pid(session);
	out->unit = out_text(space->unit, sizeof(space->unit),
			     session_get_workload(session, WORKLOAD_UNIT));
	out->age_ms = clock_ms() - session_get_since_ms(session);
	out->ids = (uint32_t)session_count_ids(session);
	out->leases = lease_count(session);
	out->rule = out_rule_name(space->rule, sizeof(space->rule), session_get_rule(session));
	out->workload = out_workload(&space->workload, session);
	restriction_describe(session_get_restriction(session), space->restriction,
			     sizeof(space->restriction));
	out->restriction = space->restriction;
	out->lingers = session_lingers(session);
	out->charged_uid = out_charged(session_get_uid(session), session_get_owner(session));
	return out;
}

static Rdmabroker__ListedId *out_id(struct out_listed_id *space, const struct id *id)
{
	Rdmabroker__ListedId *out = &space->id;
	const struct peerid *peerid;

	rdmabroker__listed_id__init(out);
	out->session = session_get_number(id_get_session(id));
	out->id = id_get_handle(id);
	out->state = (char *)id_state_to_word(id_get_state(id));
	out->age_ms = clock_ms() - id_get_since_ms(id);
	if (!id_is_empty(id)) {
		out_id_info(&space->info, id);
		out->info = &space->info.info;
	}
	out->port_space = id_get_port_space(id);
	out->qp_num = id_get_qpn(id);
	out->tos = id_get_tos(id);
	out->rule = out_rule_name(space->rule, sizeof(space->rule), id_get_rule(id));
	if (id_get_partition(id))
		out->pkey = id_get_partition(id) | PKEY_FULL;
	if (id_get_peerid(id, &peerid))
		out_peerid(&space->peerid, peerid, &out->peer_identity, &out->peer_unknown);
	return out;
}

/* What POLICY would not allow of the entry, and why; empty: nothing. Returns the number of comparisons. */
static size_t judge(struct call *call, struct listed *space, struct session *session, struct id *id,
		    struct policy *policy)
{
	struct failure why = { 0 };
	bool allowed = id ? judge_all_of_id(id, policy, &why) :
			    judge_all_of_session(session, policy, &why);

	size_t n_examined = session_take_examined(session);

	/* Who asks pays. */
	session_count_examined(call->session, n_examined);
	text_copy(space->denied, sizeof(space->denied), allowed ? "" : why.text);
	return n_examined;
}

/* Returns the size that the entry adds to the packet. */
static size_t add(Rdmabroker__ListResult *result, struct listed *space, struct session *session,
		  struct id *id)
{
	Rdmabroker__ListedSession *out;
	Rdmabroker__ListedId *out_one;

	if (!id) {
		out = out_session(&space->session, session);
		out->denied = space->denied;
		result->sessions[result->n_sessions++] = out;
		return rdmabroker__listed_session__get_packed_size(out);
	}
	out_one = out_id(&space->id, id);
	out_one->denied = space->denied;
	result->ids[result->n_ids++] = out_one;
	return rdmabroker__listed_id__get_packed_size(out_one);
}

int do_list(struct call *call)
{
	const struct core *core = session_get_core(call->session);
	struct space *space = SPACE(call, struct space);
	Rdmabroker__ListResult *result = &space->list;
	struct admin_cursor cursor = {
		.session = call->request->list->session,
		.id = call->request->list->id,
	};
	uint64_t dry_run = call->request->list->dry_run;
	struct policy *policy = NULL;
	struct session *session;
	size_t size = 0, n_examined = 0;
	struct id *id;

	if (dry_run > 0) {
		policy = control_get_dry_policy(call->control, dry_run);
		if (!policy)
			return bad_request(call, "the rules were read again meanwhile");
	}
	rdmabroker__list_result__init(result);
	result->sessions = space->listed_sessions;
	result->ids = space->listed_ids;
	result->more = true;
	for (size_t n = 0;
	     n < MAX_LISTED && size < PACKET_MAX - 2 * LISTED_SIZE_MAX && n_examined < MAX_EXAMINED;
	     n++) {
		struct listed *entry = &space->listed[n];

		result->more = admin_next(&cursor, core, &session, &id);
		if (!result->more)
			break;
		entry->denied[0] = 0;
		if (policy)
			n_examined += judge(call, entry, session, id, policy);
		size += add(result, entry, session, id);
	}
	/* A full page is followed by another one, which is empty if the full one ends with the last object. */
	result->next_session = cursor.session;
	result->next_id = cursor.id;
	return REPLY(call, list, LIST, result);
}

int do_kick(struct call *call)
{
	const Rdmabroker__Kick *m = call->request->kick;

	return m->id > 0 ? admin_kick_id(call->session, m->session, m->id, &call->failure) :
			   admin_kick_session(call->session, m->session, &call->failure);
}

int do_drain(struct call *call)
{
	admin_set_draining(call->session, !call->request->drain->cancel);
	return 0;
}

/*
 * Sets *RET to the index of WORD among the first N of NAMES, or to -1 if WORD is empty. WHAT the names are is for the
 * message. Returns 0 or STATUS_BAD_REQUEST.
 */
static int in_word(struct call *call, const char *what, const char *word, const char *const *names,
		   int n, int *ret)
{
	*ret = word[0] ? names_find(names, word) : -1;
	if (word[0] && (*ret < 0 || *ret >= n))
		return failure_set(&call->failure, STATUS_BAD_REQUEST, "watch: unknown %s \"%s\"",
				   what, word);
	return 0;
}

int do_watch(struct call *call)
{
	const Rdmabroker__Watch *m = call->request->watch;
	struct watch_filter filter = {
		.by_uid = m->by_uid,
		.uid = m->uid,
		.session = m->session,
		.port = (uint16_t)m->port,
	};
	const char *wrong = NULL;
	int r = in_word(call, "kind", m->kind, notice_kind_names, NOTICE_KIND_WATCHED_MAX,
			&filter.kind);

	if (r == 0)
		r = in_word(call, "operation", m->operation, operation_names, _POLICY_OPERATION_MAX,
			    &filter.operation);
	if (r == 0)
		r = in_word(call, "outcome", m->outcome, outcome_names, _NOTICE_OUTCOME_MAX,
			    &filter.outcome);
	if (r != 0)
		return r;
	if (m->port > UINT16_MAX)
		return failure_set(&call->failure, STATUS_BAD_REQUEST,
				   "watch: port %u is out of range 0..65535", m->port);
	if (m->peer)
		wrong = address_unpack(&filter.peer, m->peer);
	if (wrong)
		return bad_request(call, wrong);
	return watch_start(call->session, &filter, &call->failure);
}
