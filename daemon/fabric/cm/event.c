/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/device/device.h"

/*
 * Events: an event is copied, acknowledged at once, and passed to its id; what the event says of the id's stage is noted
 * here.
 */

static void copy(struct fabric_event *ret, const struct rdma_cm_event *event, bool is_datagram)
{
	const struct rdma_conn_param *conn = &event->param.conn;
	const struct rdma_ud_param *ud = &event->param.ud;
	const void *data = is_datagram ? ud->private_data : conn->private_data;
	uint8_t len = is_datagram ? ud->private_data_len : conn->private_data_len;

	*ret = (struct fabric_event){ .type = event->event, .status = event->status };
	if (is_datagram) {
		ret->ud = *ud;
		ret->conn.qp_num = ud->qp_num;
	} else {
		ret->conn = *conn;
	}
	ret->ud.private_data = ret->conn.private_data = NULL;
	ret->ud.private_data_len = ret->conn.private_data_len = 0;
	if (event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    event->event == RDMA_CM_EVENT_MULTICAST_ERROR) {
		/* librdmacm puts the context of rdma_join_multicast_ex() into private_data. */
		ret->join = (struct fabric_join *)data;
		return;
	}
	if (data && len > 0) {
		memcpy(ret->private_data, data, len);
		ret->conn.private_data = ret->private_data;
		ret->conn.private_data_len = len;
	}
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		rdma_get_remote_ece(event->id, &ret->remote_ece);
}

static void note_stage(struct fabric_id *id, enum rdma_cm_event_type type)
{
	if (id->stage == STAGE_NONE)
		return;
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		id->stage = STAGE_ANSWERED;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		id->stage = STAGE_ESTABLISHED;
		break;
	/*
	 * There is nothing to disconnect any more. If the peer must still be notified, the kernel does so
	 * when the id is destroyed.
	 */
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		id->stage = STAGE_NONE;
		break;
	/*
	 * Since Linux 6.0 also said of an established connection, whose peer has a new hardware address. It goes on, or
	 * its QP fails: it is still there to be disconnected.
	 */
	case RDMA_CM_EVENT_UNREACHABLE:
		if (id->stage != STAGE_ESTABLISHED)
			id->stage = STAGE_NONE;
		break;
	default:
		break;
	}
}

/*
 * Makes the opener release the device of ID, in case it is gone already. If it goes later, a uevent starts the
 * opener. Each id of the device gets DEVICE_REMOVAL, but one run of the opener is enough.
 */
static void note_removal(struct fabric *fabric, const struct fabric_id *id)
{
	struct fabric_device *device = fabric_find_device(fabric, id->device);

	if (!device || device->is_going)
		return;
	device->is_going = true;
	fabric_look_for_devices(fabric);
}

void fabric_id_on_event(struct fabric_id *id, struct fabric_event *event)
{
	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		note_removal(id->fabric, id);
	if (fabric_id_is_dying(id)) {
		fabric_id_free(event->request);
		return;
	}
	if (!event->request)
		fabric_id_note_device(id);
	note_stage(id, event->type);
	if (iwarp_wants_disconnect(id, event->type))
		fabric_id_disconnect(id);
	if (id->leaving_timer)
		fabric_leaving_on_event(id, event->type);
	else if (id->on_event)
		id->on_event(id->userdata, event);
	else
		fabric_id_free(event->request);
}

/*
 * Acks EVENT and delivers a copy. Once EVENT is acked, a thread that waits in rdma_destroy_id() can free the
 * rdma_cm_id, but struct fabric_id still exists.
 */
void fabric_take_event(struct fabric *fabric, struct rdma_cm_event *event)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct fabric_id *id = is_request ? event->listen_id->context : event->id->context;
	struct rdma_cm_id *request = is_request ? event->id : NULL;
	struct fabric_event copied;

	copy(&copied, event,
	     event->id->qp_type == IBV_QPT_UD || event->event == RDMA_CM_EVENT_MULTICAST_JOIN ||
		     event->event == RDMA_CM_EVENT_MULTICAST_ERROR);
	rdma_ack_cm_event(event);

	if (request && fabric_id_adopt(&copied.request, fabric, id->owner, request) < 0) {
		/* There is no memory for a job, so no thread can destroy it. */
		rdma_destroy_id(request);
		return;
	}
	if (copied.request)
		fabric_id_note_device(copied.request);
	fabric_id_on_event(id, &copied);
}
