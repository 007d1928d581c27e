/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/lib/admin/peeridentity.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sized.h"

#define GIDS_MAX 1024 /* rdmabroker.proto promises this number */

int peeridentity_put(Rdmabroker__PeerIdentity *ret, Rdmabroker__Workload *space,
		     const struct rdmabroker_peer_identity *from_program, const char *call)
{
	struct rdmabroker_peer_identity who = { .size = sizeof(who) };
	int r = SIZED_TAKE(&who, from_program, call, rdmabroker_peer_identity, cgroup, cgroup);

	if (r < 0)
		return r;
	if (who.n_gids > GIDS_MAX)
		return fail(EINVAL, "%s: the peer has more than %u groups", call, GIDS_MAX);
	rdmabroker__peer_identity__init(ret);
	rdmabroker__workload__init(space);
	ret->uid = who.uid;
	ret->gids = (uint32_t *)who.gids;
	ret->n_gids = who.n_gids;
	ret->knows_workload = who.knows_workload;
	ret->unit = message_put_text(who.unit);
	ret->workload = space;
	space->container = message_put_text(who.container);
	space->pod = message_put_text(who.pod);
	space->job = message_put_text(who.job);
	space->cgroup = message_put_text(who.cgroup);
	return 0;
}

void peeridentity_get(struct rdmabroker_peer_identity *ret, const Rdmabroker__PeerIdentity *in)
{
	*ret = (struct rdmabroker_peer_identity){
		.size = sizeof(*ret),
		.uid = in->uid,
		.gids = in->gids,
		.n_gids = in->n_gids,
		.knows_workload = in->knows_workload,
		.unit = message_get_text(in->unit),
	};
	if (!in->workload)
		return;
	ret->container = message_get_text(in->workload->container);
	ret->pod = message_get_text(in->workload->pod);
	ret->job = message_get_text(in->workload->job);
	ret->cgroup = message_get_text(in->workload->cgroup);
}
