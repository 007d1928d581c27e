/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/handshake.h"
#include "fabric/fabric.h"
#include "takeover/ledger.h"
#include "util/util.h"

void handshake_move(struct handshake *to, struct handshake *from)
{
	to->passive = from->passive;
	to->request = TAKE_PTR(from->request);
	to->backlog = TAKE_PTR(from->backlog);
	to->qpn = from->qpn;
	to->qp_timeout = from->qp_timeout;
}

void handshake_save(const struct handshake *handshake, struct ledger_id *row)
{
	row->passive = handshake->passive;
	row->qpn = handshake->qpn;
	row->qp_timeout = handshake->qp_timeout;
	row->held = handshake->held != NULL;
	row->unconfirmed = handshake->unconfirmed;
	row->ended_from = (uint8_t)handshake->ended_from;
}

void handshake_load(struct handshake *handshake, const struct ledger_id *row)
{
	handshake->passive = row->passive;
	handshake->qpn = row->qpn;
	handshake->qp_timeout = row->qp_timeout;
}

void handshake_drop_request(struct handshake *handshake)
{
	free(handshake->request);
	handshake->request = NULL;
}

bool handshake_save_request(struct handshake *handshake, struct ledger *ledger, uint64_t session,
			    uint32_t id)
{
	const struct fabric_event *event = handshake->request;
	struct ledger_request *row = ledger_add_request(ledger);

	if (!row)
		return false;
	row->id = id;
	row->qpn = event->conn.qp_num;
	row->qkey = event->ud.qkey;
	row->ece_vendor = event->remote_ece.vendor_id;
	row->ece_options = event->remote_ece.options;
	row->responder_resources = event->conn.responder_resources;
	row->initiator_depth = event->conn.initiator_depth;
	row->flow_control = event->conn.flow_control;
	row->retry_count = event->conn.retry_count;
	row->rnr_retry_count = event->conn.rnr_retry_count;
	row->srq = event->conn.srq;
	if (event->conn.private_data) {
		row->data_len = event->conn.private_data_len;
		memcpy(row->data, event->private_data, row->data_len);
	}
	row->session = session;
	handshake->request_row = row;
	return true;
}

void handshake_forget_row(struct handshake *handshake, struct ledger *ledger)
{
	handshake->request_row = ledger_remove_request(ledger, handshake->request_row);
}

int handshake_load_request(struct handshake *handshake, const struct ledger_request *row,
			   struct fabric_id *fabric)
{
	struct fabric_event *event = calloc(1, sizeof(*event));

	if (!event)
		return -ENOMEM;
	event->type = RDMA_CM_EVENT_CONNECT_REQUEST;
	event->request = fabric;
	event->conn.qp_num = event->ud.qp_num = row->qpn;
	event->ud.qkey = row->qkey;
	event->remote_ece.vendor_id = row->ece_vendor;
	event->remote_ece.options = row->ece_options;
	event->conn.responder_resources = row->responder_resources;
	event->conn.initiator_depth = row->initiator_depth;
	event->conn.flow_control = row->flow_control;
	event->conn.retry_count = row->retry_count;
	event->conn.rnr_retry_count = row->rnr_retry_count;
	event->conn.srq = row->srq;
	if (row->data_len > 0) {
		memcpy(event->private_data, row->data, sizeof(event->private_data));
		event->conn.private_data = event->private_data;
		event->conn.private_data_len = row->data_len;
	}
	fabric_id_set_request(fabric, event);
	handshake->request = event;
	return 0;
}
