/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "client/lib/event/queue.h"
#include "client/lib/id/idstate.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/sessionparts.h"

/* Events that the program makes itself. They are never sent to the broker, and come in their order among its events. */

int rdmabroker_write_event(struct rdmabroker_id *id, enum rdmabroker_event_type type, int status,
			   uint64_t arg)
{
	struct rdmabroker *session = id->session;
	struct raw_event *raw;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	if (type != RDMABROKER_EVENT_USER && type != RDMABROKER_EVENT_INTERNAL)
		return fail(EINVAL, "write_event: %s cannot be written",
			    rdmabroker_event_str(type));
	raw = malloc(sizeof(*raw));
	if (!raw)
		return fail(ENOMEM, "write_event: out of memory");
	*raw = (struct raw_event){ .id = id, .type = type, .status = status, .arg = arg };
	wire_lock(&session->wire);
	r = wire_check(&session->wire);
	if (r == 0)
		queue_add(session->queue, raw);
	wire_unlock(&session->wire);
	if (r < 0)
		free(raw);
	return r;
}
