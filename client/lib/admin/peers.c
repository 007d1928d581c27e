/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/admin.h"
#include "client/lib/admin/notices.h"
#include "client/lib/admin/peeridentity.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/message.h"
#include "client/lib/wire/sessionparts.h"
#include "client/lib/wire/sized.h"

/* The calls of the helper that asks other hosts who peers are. */

/* PUBLIC points into FRAME. */
struct identity {
	struct rdmabroker_peer_identity public;
	Rdmabroker__Frame *frame;
};

int rdmabroker_serve_peers(struct rdmabroker *session)
{
	REQUEST(request, m, ServePeers, SERVE_PEERS, serve_peers);
	int r = wire_check_process(&session->wire);

	return r < 0 ? r : notices_request(session, "serve_peers", &request);
}

int rdmabroker_answer_peer(struct rdmabroker *session, uint64_t question,
			   const struct rdmabroker_peer_identity *who, const char *why)
{
	REQUEST(request, m, AnswerPeer, ANSWER_PEER, answer_peer);
	Rdmabroker__PeerIdentity identity;
	Rdmabroker__Workload workload;
	int r = wire_check_process(&session->wire);

	m.question = question;
	m.why = message_put_text(why);
	if (r == 0 && who) {
		m.who = &identity;
		r = peeridentity_put(&identity, &workload, who, "answer_peer");
	}
	return r < 0 ? r : call_wait(&session->wire, "answer_peer", &request);
}

static int put_addresses(Rdmabroker__FindPeer *ret, Rdmabroker__Address *local,
			 Rdmabroker__Address *peer,
			 const struct rdmabroker_peer_address *from_program)
{
	struct rdmabroker_peer_address address = { .size = sizeof(address) };
	int r = SIZED_TAKE(&address, from_program, "find_peer", rdmabroker_peer_address, qp_num,
			   unused2);

	if (r == 0 && (!address.local || !address.peer != address.listens))
		r = fail(EINVAL, "find_peer: an address is missing, or there is one too many");
	if (r == 0)
		r = message_put_address(local, address.local);
	if (r == 0 && address.peer)
		r = message_put_address(peer, address.peer);
	if (r < 0)
		return r;
	ret->listens = address.listens;
	ret->port_space = (uint32_t)address.ps;
	ret->qpn = address.qp_num;
	ret->local = local;
	ret->peer = address.peer ? peer : NULL;
	return 0;
}

int rdmabroker_find_peer(struct rdmabroker *session, const struct rdmabroker_peer_address *address,
			 struct rdmabroker_peer_identity **ret)
{
	REQUEST(request, m, FindPeer, FIND_PEER, find_peer);
	Rdmabroker__Address local, peer;
	struct identity *identity;
	int r = wire_check_process(&session->wire);

	if (r == 0)
		r = put_addresses(&m, &local, &peer, address);
	if (r < 0)
		return r;
	identity = calloc(1, sizeof(*identity));
	if (!identity)
		return fail(ENOMEM, "find_peer: out of memory");
	r = call_wait_for(&session->wire, "find_peer", &request,
			  RDMABROKER__REPLY__RESULT_FIND_PEER, &identity->frame);
	if (r < 0) {
		free(identity);
		return r;
	}
	peeridentity_get(&identity->public, identity->frame->reply->find_peer);
	*ret = &identity->public;
	return 0;
}

struct rdmabroker_peer_identity *
rdmabroker_free_peer_identity(struct rdmabroker_peer_identity *public)
{
	struct identity *identity = (struct identity *)public;

	if (identity)
		frame_free(identity->frame);
	free(identity);
	return NULL;
}
