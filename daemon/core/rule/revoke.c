/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>

#include "core/admit/notify.h"
#include "core/object/listener.h"
#include "core/object/token.h"
#include "core/rule/revoke.h"
#include "core/verbs/conn.h"
#include "core/verbs/group.h"
#include "core/verbs/id_life.h"

void revoke_id(struct id *id, const struct failure *why)
{
	/* A group or an import would use the fabric's id, which is freed below. */
	group_leave_some(id, UINT_MAX);
	token_free(id->token);
	/* DEVICE_REMOVAL is the only event of rdma_cma.h after which an id can only be destroyed. */
	id->fabric = fabric_id_free(id->fabric);
	id_set_state(id, ID_REVOKED);
	notify_result(id, RDMA_CM_EVENT_DEVICE_REMOVAL, -EACCES, why);
}

void revoke_connection(struct id *id, const struct failure *why, const char *text)
{
	struct failure ignored;

	switch (id->state) {
	case ID_REQUEST:
		listener_turn_away(id, REFUSAL_DENIED, /* retry_after_ms= */ 0, text);
		break;
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_ACCEPTED:
	case ID_ESTABLISHED:
		/*
		 * A client whose connection is disconnected gets the events of the disconnect, and no CONNECT_ERROR.
		 */
		if (id_is_datagram(id) || conn_disconnect(id, &ignored) != 0)
			break;
		if (id->state == ID_DISCONNECTING)
			return;
		break;
	default:
		break;
	}
	id_set_state(id, ID_FAILED);
	notify_result(id, RDMA_CM_EVENT_CONNECT_ERROR, -EACCES, why);
}
