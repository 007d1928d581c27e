/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/admit/refused.h"
#include "core/admit/watch.h"
#include "core/facts/workload.h"
#include "core/object/inquiry.h"
#include "core/object/timewait.h"
#include "core/object/token.h"
#include "core/object/wait.h"
#include "core/rule/core_life.h"
#include "core/rule/dispatch.h"
#include "core/rule/enforce.h"
#include "core/rule/sampling.h"
#include "core/verbs/conn.h"
#include "core/verbs/lease.h"
#include "core/verbs/linger.h"
#include "core/verbs/resolve_route.h"
#include "takeover/ledger.h"
#include "util/closer.h"
#include "util/log.h"
#include "util/util.h"

/* The core, and what it refers to. Floors above core.h know their own part. */
struct whole {
	struct core core;
	struct route_holds route_holds;
	struct waits waits;
	struct tokens tokens;
	struct timewaits timewaits;
	struct inquiries inquiries;
	struct lingers lingers;
};

static void on_device_added(void *userdata, struct fabric_device *device)
{
	log_info("Device %s (%s) can be used.", fabric_device_name(device),
		 fabric_device_node(device));
}

static void on_device_removed(void *userdata, struct fabric_device *device)
{
	struct core *core = userdata;
	struct list *l;

	log_info("Device %s is gone.", fabric_device_name(device));
	list_for_each(l, &core->sessions)
		lease_forget_device(container_of(l, struct session, link),
				    fabric_device_name(device));
}

static void on_can_go_on(void *userdata, in_port_t port)
{
	struct core *core = userdata;

	waits_go_on(core->waits, port);
}

static void on_opened(void *userdata, int file)
{
	struct core *core = userdata;

	if (core->keep.opened)
		core->keep.opened(core->keep.userdata, file);
}

static void on_restores(void *userdata, int file)
{
	struct core *core = userdata;

	if (core->keep.restores)
		core->keep.restores(core->keep.userdata, file);
}

static const struct fabric_ops fabric_ops = {
	.device_added = on_device_added,
	.device_removed = on_device_removed,
	.can_go_on = on_can_go_on,
	.opened = on_opened,
	.restores = on_restores,
};

DEFINE_CLEANUP(struct core *, core_free)

int core_new(struct core **ret, sd_event *loop, enum fabric_access access, struct policy *policy)
{
	struct whole *whole = calloc(1, sizeof(*whole));
	_cleanup_(core_freep) struct core *core = whole ? &whole->core : NULL;
	int r;

	if (!whole)
		return -ENOMEM;
	core->route_holds = &whole->route_holds;
	core->waits = &whole->waits;
	core->tokens = &whole->tokens;
	core->timewaits = &whole->timewaits;
	core->inquiries = &whole->inquiries;
	core->lingers = &whole->lingers;
	core->loop = sd_event_ref(loop);
	core->on_event = dispatch_event;
	list_init(&core->sessions);
	list_init(&core->watches);
	r = lingers_init(core);
	if (r < 0)
		return r;
	log_limits_init(&core->log_limits);
	account_init(&core->account);
	core->account.limit[ACCOUNT_INQUIRIES] = INQUIRIES_MAX;
	core->account.limit_per_user[ACCOUNT_INQUIRIES] = INQUIRIES_OF_USER_MAX;
	core->account.limit[ACCOUNT_WATCHES] = WATCHES_MAX;
	core->account.limit[ACCOUNT_IDS] = LEDGER_IDS;
	core->account.limit[ACCOUNT_LEASES] = LEDGER_LEASES;
	core->account.limit[ACCOUNT_PACKETS] = LEDGER_PACKETS;
	core->account.limit_per_user[ACCOUNT_WATCHES] = WATCHES_OF_USER_MAX;
	core->policy = policy_ref(policy);
	r = timewaits_init(core->timewaits, loop, conn_resume);
	if (r == 0)
		r = enforce_init(core);
	if (r == 0)
		r = waits_init(core->waits, loop);
	if (r == 0)
		r = route_holds_init(core->route_holds, loop);
	if (r == 0)
		r = tokens_init(core->tokens, loop);
	if (r == 0)
		r = inquiries_init(core->inquiries, loop);
	if (r == 0)
		r = workloads_new(&core->workloads, loop);
	if (r == 0)
		r = refused_new(&core->refused);
	if (r == 0)
		r = sampling_init(core);
	if (r == 0)
		r = closer_new(&core->closer, loop, &core->account);
	if (r < 0)
		return r;
	r = admissions_new(&core->admissions, policy, NULL);
	if (r < 0)
		return r;
	r = fabric_new(&core->fabric, loop, access, &fabric_ops, core);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(core);
	return 0;
}

struct core *core_free(struct core *core)
{
	if (!core)
		return NULL;
	lingers_done(core);
	sampling_done(core);
	assert(list_is_empty(&core->sessions));
	assert(list_is_empty(&core->watches));
	sd_event_source_disable_unref(core->enforcer);
	timewaits_done(core->timewaits);
	log_limits_done(&core->log_limits);
	fabric_free(core->fabric);
	waits_done(core->waits);
	route_holds_done(core->route_holds);
	tokens_done(core->tokens);
	inquiries_done(core->inquiries);
	workloads_free(core->workloads);
	admissions_free(core->admissions);
	policy_unref(core->policy);
	refused_free(core->refused);
	closer_free(core->closer);
	account_done(&core->account);
	roster_done(&core->by_number);
	roster_done(&core->restrictions);
	sd_event_unref(core->loop);
	free(container_of(core, struct whole, core));
	return NULL;
}
