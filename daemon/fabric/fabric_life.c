/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "fabric/cm/id.h"
#include "fabric/cm/iwarp.h"
#include "fabric/cm/leftover.h"
#include "fabric/device/device.h"
#include "fabric/device/opener.h"
#include "fabric/internal.h"
#include "fabric/owner/qpscan.h"
#include "util/util.h"

/* The fabric as a whole: how it begins and ends, and what its rooms call in each other. */

DEFINE_CLEANUP(struct fabric *, fabric_free)

/* One user occupies at most two of the undertaker's threads (see cm/idlife.c), and one of those for look-ups. */
#define UNDERTAKER_THREADS 8
#define CALLER_THREADS 64
#define LOOKUPS_PER_USER 65536

static void announce(void *userdata)
{
	struct fabric *fabric = userdata;

	/* A failure does no harm: fabric_id_new() tries again. */
	fabric_open_channel(fabric);
	fabric_announce_devices(fabric);
	fabric_update_io(fabric);
	fabric->ops->can_go_on(fabric->userdata, /* port= */ 0);
}

int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata)
{
	_cleanup_(fabric_freep) struct fabric *fabric = calloc(1, sizeof(*fabric));
	int r;

	if (!fabric)
		return -ENOMEM;
	fabric->loop = sd_event_ref(loop);
	fabric->takes_over = true;
	fabric->reading = &fabric->no_reading;
	fabric->access = access;
	fabric->ops = ops;
	fabric->userdata = userdata;
	list_init(&fabric->devices);
	fabric->devices_changed = fabric_look_for_devices;
	fabric->count_restored = restored_count;
	fabric->take_event = fabric_take_event;
	fabric->on_id_event = fabric_id_on_event;
	fabric_init_leaving(fabric);
	fabric_init_ids(fabric);
	pthread_mutex_init(&fabric->sockets.lock, NULL);

	r = offload_new(&fabric->undertaker, loop, UNDERTAKER_THREADS);
	/* An id's end is not urgent. */
	if (r == 0)
		offload_set_lazy(fabric->undertaker);
	if (r == 0)
		r = offload_new(&fabric->callers, loop, CALLER_THREADS);
	if (r == 0)
		r = offload_new(&fabric->lookups, loop, LOOKUP_THREADS);
	if (r == 0)
		r = iwarp_init(fabric);
	if (r == 0)
		r = qpscan_new(&fabric->qpscan, loop);
	if (r == 0)
		r = offload_new(&fabric->entries, loop, 1);
	if (r == 0)
		r = offload_prepare(fabric->entries, &fabric->keep_entries, 0);
	if (r == 0)
		r = opener_new(&fabric->opener, loop, announce, fabric);
	if (r < 0)
		return r;
	offload_set_limit(fabric->lookups, LOOKUPS_PER_USER);
	r = fabric_start_hotplug(fabric);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(fabric);
	return 0;
}

struct fabric *fabric_free(struct fabric *fabric)
{
	struct list *l;

	if (!fabric)
		return NULL;
	fabric->ops = NULL;
	fabric_end_leaving(fabric);
	/* A stuck thread still uses FABRIC and its parts, so they stay allocated until the process ends. */
	iwarp_end(fabric);
	/* Ids that a thread connects go to the undertaker when it has ended, so the callers go first. */
	fabric->callers = offload_free(fabric->callers);
	fabric->undertaker = offload_free(fabric->undertaker);
	/* Look-ups that wait for the scan have jobs prepared in LOOKUPS, so the scan goes first. */
	fabric->qpscan = qpscan_free(fabric->qpscan);
	fabric->lookups = offload_free(fabric->lookups);
	offload_release(&fabric->keep_entries);
	fabric->entries = offload_free(fabric->entries);
	if (fabric->callers || fabric->undertaker || fabric->qpscan || fabric->lookups ||
	    fabric->entries)
		return NULL;
	opener_free(fabric->opener);
	sd_device_monitor_unref(fabric->monitor);
	sd_event_source_disable_unref(fabric->nodes);
	holderscan_free(fabric->holderscan);
	while ((l = list_first(&fabric->devices))) {
		list_remove(l);
		fabric_device_unref(container_of(l, struct fabric_device, link));
	}
	nldev_free(fabric->nldev);
	while (fabric->sockets.n > 0)
		nldev_free(fabric->sockets.kept[--fabric->sockets.n]);
	pthread_mutex_destroy(&fabric->sockets.lock);
	account_done(&fabric->ending);
	fabric_close_channel(fabric);
	leftovers_free(fabric->leftovers);
	sd_event_unref(fabric->loop);
	free(fabric);
	return NULL;
}
