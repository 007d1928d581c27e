/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/id.h"
#include "proto/address.h"
#include "proto/codec.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/event.h"

static bool has_param(const struct rdma_conn_param *conn)
{
	return conn->private_data_len || conn->qp_num || conn->responder_resources ||
	       conn->initiator_depth || conn->flow_control || conn->retry_count ||
	       conn->rnr_retry_count || conn->srq;
}

/* The id whose paths EVENT has; NULL: none. */
static const struct id *with_paths(const struct session_event *event)
{
	if (event->request)
		return event->request;
	return event->routed || event->type == RDMA_CM_EVENT_ROUTE_RESOLVED ? event->id : NULL;
}

size_t event_pack(const struct session_event *event, uint8_t buf[PACKET_MAX])
{
	static const struct fabric_event nothing;
	const struct fabric_event *fabric = event->fabric ?: &nothing;
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Event out = RDMABROKER__EVENT__INIT;
	Rdmabroker__ConnParam conn;
	Rdmabroker__Failure failure;
	struct out_id_info info;
	struct out_qp_attr qp;
	struct out_ud_param ud;
	Rdmabroker__Address group;
	Rdmabroker__Caps caps;
	Rdmabroker__Ece ece;
	uint8_t paths[PATHS_SIZE];

	out.id = id_get_handle(event->id);
	out.type = event->type;
	out.status = event->status;
	out.routed = event->routed;
	out.request_id = event->request ? id_get_handle(event->request) : 0;
	if (has_param(&fabric->conn)) {
		out_conn_param(&conn, &fabric->conn);
		out.conn = &conn;
	}
	if (event->with_info || event->request) {
		out_id_info(&info, event->request ? event->request : event->id);
		out.info = &info.info;
	}
	out.remote_ece = out_ece(&ece, &fabric->remote_ece);
	if (event->group)
		out.group = address_pack(&group, event->group);
	if (event->type == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    (event->type == RDMA_CM_EVENT_ESTABLISHED && id_is_datagram(event->id))) {
		out_ud_param(&ud, &fabric->ud);
		out.ud = &ud.param;
	}
	out.qp = out_qp_attrs(&qp, event);
	if (with_paths(event))
		out.paths = out_paths(paths, with_paths(event));
	if (event->failure) {
		out_failure(&failure, event->failure);
		out.failure = &failure;
	}
	if (event->caps)
		out.caps = out_caps(&caps, event->caps);
	frame.body_case = RDMABROKER__FRAME__BODY_EVENT;
	frame.event = &out;
	/* All parts together need at most an eighth of a packet. */
	return codec_pack(&frame, buf, PACKET_MAX);
}
