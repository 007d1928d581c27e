/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/admit/notify.h"
#include "core/admit/rule_settings.h"
#include "core/admit/watch.h"
#include "core/object/id.h"

void notify_event(struct id *id, struct session_event *event)
{
	event->id = id;
	if (!event->quiet) {
		if ((unsigned)event->type < METRICS_N_EVENTS)
			id->session->core->metrics.events[event->type]++;
		if (id->route.info_pending) {
			event->with_info = true;
			event->caps = rule_settings_get_caps(id);
			id->route.info_pending = false;
		}
		id->session->ops->event(id->session->userdata, event);
	}
	if (core_is_watched(id->session->core))
		watch_cm(event);
}

void notify_result(struct id *id, enum rdma_cm_event_type type, int status,
		   const struct failure *failure)
{
	struct session_event out = { .type = type, .status = status, .failure = failure };

	notify_event(id, &out);
}

void notify_failure(struct id *id, enum rdma_cm_event_type type, int r,
		    const struct failure *failure)
{
	notify_result(id, type, r < 0 ? r : -failure->error, r < 0 ? NULL : failure);
}
