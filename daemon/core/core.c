/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/session.h"
#include "util/log.h"
#include "util/util.h"

static void on_device_added(void *userdata, struct fabric_device *device)
{
	(void)userdata;
	log_info("Device %s (%s) can be used.", fabric_device_name(device),
		 fabric_device_node(device));
}

static void on_device_removed(void *userdata, struct fabric_device *device)
{
	struct core *core = userdata;
	struct list *l;

	log_info("Device %s is gone.", fabric_device_name(device));
	list_for_each(l, &core->sessions)
		session_forget_device(container_of(l, struct session, link),
				      fabric_device_name(device));
}

static const struct fabric_ops fabric_ops = {
	.device_added = on_device_added,
	.device_removed = on_device_removed,
};

DEFINE_CLEANUP(struct core *, core_free)

int core_new(struct core **ret, sd_event *loop, enum fabric_access access, struct policy *policy)
{
	_cleanup_(core_freep) struct core *core = calloc(1, sizeof(*core));
	int r;

	if (!core)
		return -ENOMEM;
	core->loop = sd_event_ref(loop);
	list_init(&core->sessions);
	list_init(&core->exports);
	timewaits_init(&core->timewaits);
	account_init(&core->account);
	core->policy = policy_ref(policy);
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
	assert(list_is_empty(&core->sessions));
	assert(list_is_empty(&core->exports));
	timewaits_done(&core->timewaits);
	fabric_free(core->fabric);
	policy_unref(core->policy);
	account_done(&core->account);
	sd_event_unref(core->loop);
	free(core);
	return NULL;
}

struct ratelimit *core_log_limit(struct core *core, uid_t uid)
{
	return &core->log_limits[uid % CORE_N_LOG_LIMITS];
}

void core_set_policy(struct core *core, struct policy *policy)
{
	policy_ref(policy);
	policy_unref(core->policy);
	core->policy = policy;
}
