/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "core/admit/intent.h"
#include "core/facts/peerid.h"
#include "core/object/id.h"
#include "proto/addr.h"
#include "proto/pkey.h"

const char *intent_object(const struct intent *intent, char buf[INTENT_OBJECT_LEN])
{
	char from[ADDR_STRLEN], to[ADDR_STRLEN];
	int n;

	if (intent->object || !intent->addrs[0])
		return intent->object ?: "";
	n = snprintf(buf, INTENT_OBJECT_LEN, "%s", addr_to_string(intent->addrs[0], from));
	if (intent->addrs[1])
		n += snprintf(buf + n, INTENT_OBJECT_LEN - (size_t)n, " to %s",
			      addr_to_string(intent->addrs[1], to));
	if (intent->question.names_pkey)
		snprintf(buf + n, INTENT_OBJECT_LEN - (size_t)n, " in partition 0x%x",
			 intent->question.pkey | PKEY_FULL);
	return buf;
}

/*
 * What all intents about an id have, which has FABRIC. PATH_PKEY is the partition of a path that the client has set, if it
 * names another one than the id's; else 0. Returns the question.
 */
static struct policy_question *begin(struct id_intent *ret, enum policy_operation operation,
				     const char *what, const struct fabric_id *fabric,
				     int port_space, uint16_t path_pkey)
{
	struct policy_question *question = &ret->intent.question;
	const struct fabric_id_info *info = &ret->info;

	ret->intent = (struct intent){
		.question = { .operation = operation, .port = -1, .port_space = port_space },
		.what = what,
	};
	fabric_id_get_info(fabric, &ret->info);
	if (info->local.ss_family != AF_UNSPEC)
		question->local = (const struct sockaddr *)&info->local;
	if (info->peer.ss_family != AF_UNSPEC)
		question->peer = (const struct sockaddr *)&info->peer;
	question->device = info->device;
	policy_set_partition(question, info->pkey, path_pkey);
	return question;
}

void intent_set_peerid(struct intent *intent, const struct peerid *peerid)
{
	intent->asked = true;
	intent->peerid = peerid;
	intent->question.who = peerid_who(peerid);
}

static void add_who(struct intent *intent, const struct who *who)
{
	intent->was_asked = who->state != WHO_UNASKED;
	if (who->state == WHO_ANSWERED)
		intent_set_peerid(intent, who->peerid);
}

void intent_to_connect(struct id_intent *ret, struct id *id)
{
	struct policy_question *question =
		begin(ret, POLICY_CONNECT, "connect to", id->fabric, id->ps, id->route.path_pkey);

	if (question->peer)
		question->port = addr_port(question->peer);
	ret->intent.id = id;
	ret->intent.addrs[0] = question->peer;
	add_who(&ret->intent, &id->who);
}

void intent_to_listen(struct id_intent *ret, struct id *id)
{
	struct policy_question *question =
		begin(ret, POLICY_LISTEN, "listen on", id->fabric, id->ps, /* path_pkey= */ 0);

	question->peer = NULL;
	question->port = addr_port((struct sockaddr *)&ret->info.local);
	ret->intent.id = id;
	ret->intent.addrs[0] = (struct sockaddr *)&ret->info.local;
}

void intent_to_accept(struct id_intent *ret, struct fabric_id *request, enum rdma_port_space ps,
		      const struct fabric_event *event)
{
	struct policy_question *question =
		begin(ret, POLICY_ACCEPT, "request from", request, ps, /* path_pkey= */ 0);

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
	ret->intent.id = id;
	add_who(&ret->intent, &id->who);
}

void intent_to_join(struct id_intent *ret, struct id *id, const struct sockaddr *addr)
{
	struct policy_question *question =
		begin(ret, POLICY_JOIN, "join", id->fabric, id->ps, /* path_pkey= */ 0);

	question->peer = addr;
	ret->intent.id = id;
	ret->intent.addrs[0] = addr;
}
