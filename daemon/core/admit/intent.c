/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "core/admit/intent.h"
#include "core/facts/peerid.h"
#include "core/object/id.h"
#include "proto/addr.h"
#include "proto/text.h"

const char *intent_object(const struct intent *intent, char buf[INTENT_OBJECT_LEN])
{
	char from[ADDR_STRLEN], to[ADDR_STRLEN];

	if (intent->object || !intent->addrs[0])
		return intent->object ?: "";
	addr_to_string(intent->addrs[0], from);
	if (intent->addrs[1])
		snprintf(buf, INTENT_OBJECT_LEN, "%s to %s", from,
			 addr_to_string(intent->addrs[1], to));
	else
		text_copy(buf, INTENT_OBJECT_LEN, from);
	return buf;
}

static void fill_question(const struct fabric_id_info *info, struct policy_question *question)
{
	if (info->local.ss_family != AF_UNSPEC)
		question->local = (const struct sockaddr *)&info->local;
	if (info->peer.ss_family != AF_UNSPEC)
		question->peer = (const struct sockaddr *)&info->peer;
	question->device = info->device;
}

void intent_set_peerid(struct intent *intent, const struct peerid *peerid)
{
	intent->asked = true;
	intent->peerid = peerid;
	intent->question.who = peerid_who(peerid);
}

void intent_to_connect(struct id_intent *ret, struct id *id)
{
	struct policy_question *question = &ret->intent.question;

	ret->intent = (struct intent){
		.question = { .operation = POLICY_CONNECT, .port_space = id->ps },
		.what = "connect to",
		.id = id,
	};
	fabric_id_get_info(id->fabric, &ret->info);
	fill_question(&ret->info, question);
	question->port = question->peer ? addr_port(question->peer) : -1;
	ret->intent.addrs[0] = question->peer;
	ret->intent.was_asked = id->who.state != WHO_UNASKED;
	if (id->who.state == WHO_ANSWERED)
		intent_set_peerid(&ret->intent, id->who.peerid);
}

void intent_to_listen(struct id_intent *ret, struct id *id)
{
	struct policy_question *question = &ret->intent.question;

	ret->intent = (struct intent){
		.question = { .operation = POLICY_LISTEN, .port_space = id->ps },
		.what = "listen on",
		.id = id,
	};
	fabric_id_get_info(id->fabric, &ret->info);
	fill_question(&ret->info, question);
	question->peer = NULL;
	question->port = addr_port((struct sockaddr *)&ret->info.local);
	ret->intent.addrs[0] = (struct sockaddr *)&ret->info.local;
}

void intent_to_accept(struct id_intent *ret, struct fabric_id *request, enum rdma_port_space ps,
		      const struct fabric_event *event)
{
	struct policy_question *question = &ret->intent.question;

	ret->intent = (struct intent){
		.question = { .operation = POLICY_ACCEPT, .port_space = ps },
		.what = "request from",
	};
	fabric_id_get_info(request, &ret->info);
	fill_question(&ret->info, question);
	question->port = addr_port((struct sockaddr *)&ret->info.local);
	if (event) {
		question->knows_data = true;
		question->data = event->conn.private_data;
		question->data_len = event->conn.private_data_len;
		if (ps == RDMA_PS_TCP || ps == RDMA_PS_IB)
			ret->intent.peer_qpn = event->conn.qp_num;
	}
	ret->intent.addrs[0] = (struct sockaddr *)&ret->info.peer;
	ret->intent.addrs[1] = (struct sockaddr *)&ret->info.local;
}

void intent_to_accept_id(struct id_intent *ret, struct id *id)
{
	intent_to_accept(ret, id->fabric, id->ps, id->handshake.request);
	ret->intent.was_asked = id->who.state != WHO_UNASKED;
	if (id->who.state == WHO_ANSWERED)
		intent_set_peerid(&ret->intent, id->who.peerid);
}

void intent_to_join(struct id_intent *ret, struct id *id, const struct sockaddr *addr)
{
	ret->intent = (struct intent){
		.question = { .operation = POLICY_JOIN, .port = -1, .port_space = id->ps },
		.what = "join",
		.id = id,
	};
	fabric_id_get_info(id->fabric, &ret->info);
	fill_question(&ret->info, &ret->intent.question);
	ret->intent.question.peer = addr;
	ret->intent.addrs[0] = addr;
}
