/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/lib/admin/who.h"
#include "client/lib/wire/message.h"

void who_get(struct rdmabroker_who *ret, uint32_t uid, const char *unit,
	     const Rdmabroker__Workload *workload)
{
	*ret = (struct rdmabroker_who){
		.uid = uid,
		.charged_uid = uid,
		.unit = message_get_text(unit),
	};
	if (!workload)
		return;
	ret->container = message_get_text(workload->container);
	ret->pod = message_get_text(workload->pod);
	ret->job = message_get_text(workload->job);
	ret->cgroup = message_get_text(workload->cgroup);
}

void who_get_identity(struct rdmabroker_who *ret, const Rdmabroker__PeerIdentity *in)
{
	who_get(ret, in->uid, in->unit, in->workload);
	ret->knows_workload = in->knows_workload;
	ret->gids = in->gids;
	ret->n_gids = in->n_gids;
}

void who_get_peer(struct rdmabroker_peer *ret, const Rdmabroker__PeerIdentity *who, const char *why)
{
	*ret = (struct rdmabroker_peer){ .is_known = who, .why = message_get_text(why) };
	if (who)
		who_get_identity(&ret->who, who);
}

Rdmabroker__Workload *who_put(Rdmabroker__Workload *ret, const struct rdmabroker_who *who)
{
	rdmabroker__workload__init(ret);
	ret->container = message_put_text(who->container);
	ret->pod = message_put_text(who->pod);
	ret->job = message_put_text(who->job);
	ret->cgroup = message_put_text(who->cgroup);
	return ret;
}

Rdmabroker__PeerIdentity *who_put_identity(Rdmabroker__PeerIdentity *ret,
					   Rdmabroker__Workload *space,
					   const struct rdmabroker_who *who)
{
	if (!who)
		return NULL;
	rdmabroker__peer_identity__init(ret);
	ret->uid = who->uid;
	ret->gids = (uint32_t *)who->gids;
	ret->n_gids = who->n_gids;
	ret->knows_workload = who->knows_workload;
	ret->unit = message_put_text(who->unit);
	ret->workload = who_put(space, who);
	return ret;
}
