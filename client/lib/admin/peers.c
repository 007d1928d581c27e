/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/admin.h"
#include "client/lib/admin/notices.h"
#include "client/lib/admin/replies.h"
#include "client/lib/admin/who.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/message.h"

/* The calls of the helper that asks other hosts who peers are. */

int rdmabroker_serve_peers(struct rdmabroker *session)
{
	REQUEST(request, m, ServePeers, SERVE_PEERS, serve_peers);

	return notices_request(session, "serve_peers", &request);
}

int rdmabroker_answer_peer(struct rdmabroker *session, uint64_t question,
			   const struct rdmabroker_who *who, const char *why)
{
	REQUEST(request, m, AnswerPeer, ANSWER_PEER, answer_peer);
	Rdmabroker__PeerIdentity identity;
	Rdmabroker__Workload workload;

	m.question = question;
	m.why = message_put_text(why);
	m.who = who_put_identity(&identity, &workload, who);
	return call_wait(&session->wire, "answer_peer", &request);
}

int rdmabroker_find_peer(struct rdmabroker *session, const struct rdmabroker_peer_address *address,
			 struct rdmabroker_who **ret)
{
	REQUEST(request, m, FindPeer, FIND_PEER, find_peer);
	Rdmabroker__Address local, peer;
	struct rdmabroker_who *who;
	struct replies replies;
	int r = message_put_address(m.local = &local, address->local);

	if (r == 0 && address->peer)
		r = message_put_address(m.peer = &peer, address->peer);
	if (r < 0)
		return r;
	m.listens = address->listens;
	m.port_space = (uint32_t)address->ps;
	m.qpn = address->qp_num;
	r = replies_get(&replies, session, "find_peer", &request,
			RDMABROKER__REPLY__RESULT_FIND_PEER, NULL);
	if (r < 0)
		return r;
	who = replies_keep(&replies, sizeof(*who));
	if (!who)
		return -ENOMEM;
	who_get_identity(who, replies.list[0]->reply->find_peer);
	*ret = who;
	return 0;
}
