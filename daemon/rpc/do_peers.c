/* SPDX-License-Identifier: BSD-2-Clause */

#include <string.h>

#include "core/facts/peerid.h"
#include "core/object/inquiry.h"
#include "core/object/whois.h"
#include "proto/address.h"
#include "rpc/call.h"
#include "util/util.h"

/* Requests of rdmabroker-peerd, which asks other hosts who peers are, and answers them. */

/* What the reply to find_peer points to. */
struct space {
	Rdmabroker__PeerIdentity find_peer;
	struct out_workload workload;
	uint32_t gids[MAX_GIDS];
	char unit[TEXT_MAX / 2];
};

int do_serve_peers(struct call *call)
{
	return failure_errno(&call->failure, inquiries_serve(call->session));
}

int do_answer_peer(struct call *call)
{
	const Rdmabroker__AnswerPeer *m = call->request->answer_peer;
	struct policy_peer who;
	struct peerid *answer;
	const char *wrong = m->who ? in_peer_identity(&who, m->who) : NULL;

	if (wrong)
		return bad_request(call, wrong);
	answer = m->who ? peerid_new(&who) :
			  peerid_new_unknown("%s", *m->why ? m->why : "no reason was given");
	if (inquiry_answer(session_get_core(call->session), m->question, answer))
		return 0;
	return failure_set(&call->failure, STATUS_NO_SUCH_ID,
			   "answer_peer: there is no question %llu, or it is too late",
			   (unsigned long long)m->question);
}

/* What is not known must not be told as none: rules of the other host decide differently about the two. */
static bool knows_workload(const struct identity *identity)
{
	static const enum workload_name names[] = { WORKLOAD_UNIT, WORKLOAD_CONTAINER, WORKLOAD_POD,
						    WORKLOAD_JOB };

	for (size_t i = 0; i < ELEMENTS_OF(names); i++)
		if (!identity->workload.names[names[i]])
			return false;
	return true;
}

int do_find_peer(struct call *call)
{
	const Rdmabroker__FindPeer *m = call->request->find_peer;
	struct space *space = SPACE(call, struct space);
	Rdmabroker__PeerIdentity *result = &space->find_peer;
	struct sockaddr_storage local, peer;
	struct whois_question question = { .listens = m->listens,
					   .port_space = (int)m->port_space,
					   .local = (struct sockaddr *)&local,
					   .peer = (struct sockaddr *)&peer,
					   .qpn = m->qpn };
	const struct identity *identity;
	struct session *found;
	const char *wrong;

	if (!m->local || (!m->listens && !m->peer))
		return bad_request(call, "find_peer: an address is missing");
	wrong = address_unpack(&local, m->local);
	if (!wrong && m->peer)
		wrong = address_unpack(&peer, m->peer);
	if (wrong)
		return bad_request(call, wrong);
	found = whois_find(session_get_core(call->session), &question);
	if (!found)
		return failure_set(&call->failure, STATUS_NO_SUCH_ID,
				   "find_peer: no program has this address");
	identity = session_get_identity(found);
	if (identity->too_many_gids)
		return failure_set(&call->failure, STATUS_NO_SUCH_ID,
				   "find_peer: the program has more than %d groups",
				   IDENTITY_GIDS_MAX);
	rdmabroker__peer_identity__init(result);
	result->uid = identity->uid;
	result->gids = space->gids;
	result->n_gids = identity->n_gids;
	memcpy(space->gids, identity->gids, identity->n_gids * sizeof(*identity->gids));
	result->knows_workload = knows_workload(identity);
	result->unit = out_text(space->unit, sizeof(space->unit),
				session_get_workload(found, WORKLOAD_UNIT));
	result->workload = out_workload(&space->workload, found);
	return REPLY(call, find_peer, FIND_PEER, result);
}
