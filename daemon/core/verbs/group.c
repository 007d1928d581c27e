/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/admit/intent.h"
#include "core/admit/notify.h"
#include "core/object/id.h"
#include "core/object/quota.h"
#include "core/object/wait.h"
#include "core/verbs/group.h"
#include "proto/addr.h"
#include "takeover/ledger.h"

#define KERNEL_ENOTSUPP 524

#define SLICE 32 /* groups that a request leaves in one turn */
/* librdmacm and the kernel walk over the groups that the id has joined later. So many of them are a unit of work. */
#define WALKED_OF_ONE 256
#define WORK_OF_END 4 /* of what an event, a line of the journal and to leave a group cost */

/*
 * A multicast group that an id has joined, or is joining. An id can have as many as its user may have ids, so a group is
 * looked up in a tree, and no turn of the loop handles all. A hash table would be as long to walk as the list: who chooses
 * the addresses can choose such that have the same hash.
 */
struct group {
	struct group_key {
		sa_family_t family;
		uint8_t host[ADDR_HOST_LEN];
	} key; /* must be the first member, see find_group() */
	struct list link; /* id.groups */
	struct id *id;
	uint32_t number; /* of the id's joins */
	struct sockaddr_storage addr;
	struct fabric_join *join;
	struct charge charge;
	struct admitted admitted;
	struct ledger_group *row; /* its row in the ledger; NULL: it is not kept */
};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct group_key));
}

static void set_key(struct group_key *ret, const struct sockaddr *addr)
{
	*ret = (struct group_key){ .family = addr->sa_family };
	addr_host(addr, ret->host);
}

static struct group *find_group(const struct id *id, const struct sockaddr *addr)
{
	struct group_key key;
	void *found;

	set_key(&key, addr);
	found = tfind(&key, &id->groups_by_addr, compare);
	return found ? *(struct group **)found : NULL;
}

/* NULL: out of memory. */
static struct group *group_new(struct id *id, const struct sockaddr *addr)
{
	struct group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	set_key(&group->key, addr);
	if (!tsearch(group, &id->groups_by_addr, compare)) {
		free(group);
		return NULL;
	}
	group->id = id;
	group->number = ++id->last_group;
	memcpy(&group->addr, addr, addr_len(addr));
	list_init(&group->link);
	list_insert(&id->groups, &group->link);
	return group;
}

/* NULL: there are no more. */
static struct group *next_group(const struct group *group)
{
	const struct list *next = group->link.next;

	return next == &group->id->groups ? NULL : container_of(next, struct group, link);
}

static void group_free(struct group *group)
{
	struct id *id = group->id;
	struct table_walk *walk = &id->session->walk;

	if (walk->group == group)
		walk->group = next_group(group);
	fabric_join_free(group->join);
	list_remove(&group->link);
	tdelete(group, &id->groups_by_addr, compare);
	admitted_done(&group->admitted);
	charge_done(&group->charge);
	ledger_remove_group(id->session->core->keep.ledger, group->row);
	free(group);
}

/* Leaves GROUP, and frees it. */
static void leave(struct group *group)
{
	struct id *id = group->id;

	session_count_work(id->session, (id->last_group - group->number) / WALKED_OF_ONE);
	group_free(group);
}

/* False: there is no room to keep GROUP. */
static bool record(struct group *group, uint32_t join_flags, enum ledger_answer answer)
{
	struct session *session = group->id->session;
	struct ledger_group *row = ledger_add_group(session->core->keep.ledger);

	if (!row)
		return !session->row;
	row->id = group->id->handle;
	row->join_flags = join_flags;
	row->answer = (uint8_t)answer;
	row->addr = group->addr;
	row->session = session->number;
	group->row = row;
	return true;
}

static int decide_join(struct id *id, const struct sockaddr *addr, const char *text,
		       struct admitted *ret, struct failure *failure)
{
	struct policy_verdict verdict;
	struct id_intent intent;

	intent_to_join(&intent, id, addr);
	if (!intent.info.device)
		return failure_set(failure, STATUS_BAD_STATE,
				   "join %s: id %u is not bound to a device", text, id->handle);
	decide(id->session, &intent.intent, &verdict);
	if (verdict.answer != POLICY_ALLOW)
		return decide_deny(id->session, &intent.intent, &verdict, failure);
	return decide_admit(id->session, &intent.intent, verdict.rule, /* pending= */ false, ret,
			    failure);
}

/* JOIN_FLAGS is the client's bit mask (1: full member, 2: send only). */
static int join_kernel(struct group *group, const struct sockaddr *addr, uint32_t join_flags)
{
	uint32_t flag = join_flags & 1 ? RDMA_MC_JOIN_FLAG_FULLMEMBER :
					 RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	int r = fabric_join_new(&group->join, group->id->fabric, addr, flag, group);

	/* For IPv6 groups on RoCE the kernel returns its internal ENOTSUPP (524), which programs do not know. */
	return r == -KERNEL_ENOTSUPP ? -EOPNOTSUPP : r;
}

int group_join(struct id *id, const struct sockaddr *addr, uint32_t join_flags,
	       struct failure *failure)
{
	char text[ADDR_STRLEN];
	struct group *group;
	int r;

	addr_to_string(addr, text);
	if (id_is_empty(id) || id->state == ID_REMOVED || id->token)
		return id_refuse_state(id, "join_multicast", failure);
	if (find_group(id, addr)) {
		return failure_set_error(failure, STATUS_BAD_STATE, EEXIST,
					 "join %s: joined already", text);
	}
	r = decide_may_begin(id->session, "join_multicast", failure);
	if (r != 0)
		return r;
	group = group_new(id, addr);
	if (!group)
		return failure_errno(failure, -ENOMEM);
	r = decide_join(id, addr, text, &group->admitted, failure);
	if (r == 0)
		r = quota_charge(id->session, &group->charge, ACCOUNT_IDS, 1, failure);
	if (r == 0 && !record(group, join_flags, LEDGER_UNANSWERED))
		r = failure_set_not_kept(failure, "multicast groups");
	if (r == 0) {
		r = join_kernel(group, addr, join_flags);
		if (r < 0)
			r = failure_set_fabric(failure, r, "join %s", text);
	}
	if (r != 0)
		group_free(group);
	return r;
}

/* If the policy allows the group no longer, group_enforce() decides what becomes of it. */
static void admit_again(struct group *group)
{
	struct session *session = group->id->session;
	struct policy_verdict verdict;
	struct id_intent intent;

	intent_to_join(&intent, group->id, (struct sockaddr *)&group->addr);
	decide_ask(session, &intent.intent, &verdict);
	if (verdict.answer == POLICY_ALLOW)
		decide_admit_again(session, &intent.intent, verdict.rule, /* pending= */ false,
				   &group->admitted);
}

int group_restore(struct id *id, const struct ledger_group *row, bool untold)
{
	bool answered = row->answer == LEDGER_ANSWERED ||
			(row->answer == LEDGER_BEING_ANSWERED && !untold);
	const struct sockaddr *addr = (const struct sockaddr *)&row->addr;
	struct group *group = find_group(id, addr) ? NULL : group_new(id, addr);
	struct failure ignored;
	int r;

	/* In a ledger that is damaged, a group can be twice. */
	if (!group)
		return -ENOMEM;
	quota_charge(id->session, &group->charge, ACCOUNT_IDS, 1, &ignored);
	/* A join whose outcome was not told is joined once more, because its event may be lost. */
	r = answered ? fabric_join_restore(&group->join, id->fabric, addr, group) :
		       join_kernel(group, addr, row->join_flags);
	if (r < 0) {
		group_free(group);
		return r;
	}
	admit_again(group);
	record(group, row->join_flags, answered ? LEDGER_ANSWERED : LEDGER_UNANSWERED);
	return 0;
}

void group_answered(const struct fabric_join *join, bool told)
{
	struct group *group = fabric_join_get_userdata(join);

	if (group->row)
		group->row->answer = told ? LEDGER_ANSWERED : LEDGER_BEING_ANSWERED;
}

int group_leave(struct id *id, const struct sockaddr *addr, struct failure *failure)
{
	struct group *group = find_group(id, addr);
	char text[ADDR_STRLEN];

	if (!group) {
		return failure_set_error(failure, STATUS_BAD_STATE, EADDRNOTAVAIL,
					 "leave %s: not joined", addr_to_string(addr, text));
	}
	leave(group);
	return 0;
}

/* The one that was joined last is the first in the lists of librdmacm and the kernel. */
unsigned group_leave_some(struct id *id, unsigned max)
{
	unsigned n = 0;

	for (; n < max && !list_is_empty(&id->groups); n++)
		leave(container_of(id->groups.prev, struct group, link));
	return n;
}

int group_leave_all(struct id *id, struct session *session)
{
	session_count_work(session, group_leave_some(id, SLICE));
	return list_is_empty(&id->groups) ? 0 : wait_for_turn(session);
}

const struct sockaddr *group_addr(const struct fabric_join *join)
{
	const struct group *group = fabric_join_get_userdata(join);

	return (const struct sockaddr *)&group->addr;
}

const struct sockaddr *group_next(const struct id *id, const struct list **at)
{
	*at = (*at ?: &id->groups)->next;
	return *at == &id->groups ?
		       NULL :
		       (const struct sockaddr *)&container_of(*at, struct group, link)->addr;
}

void group_walk(struct id *id)
{
	struct list *first = list_first(&id->groups);

	id->session->walk.group = first ? container_of(first, struct group, link) : NULL;
}

void group_enforce(struct session *session)
{
	struct group *group = session->walk.group;
	struct id *id = group->id;
	struct session_event out = {
		.type = RDMA_CM_EVENT_MULTICAST_ERROR,
		.status = -EACCES,
		.group = (struct sockaddr *)&group->addr,
	};
	struct policy_verdict verdict;
	struct id_intent intent;

	session->walk.group = next_group(group);
	if (id_is_empty(id) || id->state == ID_REMOVED)
		return;
	intent_to_join(&intent, id, out.group);
	decide_ask(session, &intent.intent, &verdict);
	if (verdict.answer == POLICY_ALLOW)
		return;
	decide_audit(session, &intent.intent, &verdict, /* overflow= */ NULL);
	notify_event(id, &out);
	session_count_work(session, WORK_OF_END);
	leave(group);
}
