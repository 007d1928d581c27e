/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"
#include "util/util.h"

DEFINE_CLEANUP(struct fabric_device *, fabric_device_unref)

static struct fabric_device *find_node(struct fabric *fabric, const char *node)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(device->node, node) == 0)
			break;
	return device;
}

/*
 * A uverbs node. What is missing of it here is a reason to wait for its next event, not a failure: the
 * device may be going again already.
 */
static void add(struct fabric *fabric, sd_device *d)
{
	_cleanup_(fabric_device_unrefp) struct fabric_device *device = NULL;
	const char *node, *name;

	if (sd_device_get_devname(d, &node) < 0 ||
	    sd_device_get_sysattr_value(d, "ibdev", &name) < 0 || find_node(fabric, node))
		return;
	device = calloc(1, sizeof(*device));
	if (!device)
		return;
	device->n_refs = 1;
	device->fabric = fabric;
	list_init(&device->link);
	list_init(&device->grants);
	device->name = strdup(name);
	device->node = strdup(node);
	if (!device->name || !device->node)
		return;
	if (fabric->access == FABRIC_ACCESS_ACL)
		fabric_clear_leases(device);
	list_insert(&fabric->devices, &device->link);
	sd_event_source_set_enabled(fabric->announce, SD_EVENT_ONESHOT);
	device = NULL;
}

static void drop(struct fabric *fabric, sd_device *d)
{
	struct fabric_device *device;
	const char *node;

	fabric_release_gone_contexts(fabric);
	if (sd_device_get_devname(d, &node) < 0)
		return;
	device = find_node(fabric, node);
	if (!device)
		return;
	list_remove(&device->link);
	device->gone = true;
	if (device->announced)
		fabric->ops->device_removed(fabric->userdata, device);
	fabric_device_unref(device);
}

static int on_uevent(sd_device_monitor *monitor, sd_device *d, void *userdata)
{
	sd_device_action_t action;

	(void)monitor;
	if (sd_device_get_action(d, &action) < 0)
		return 0;
	if (action == SD_DEVICE_REMOVE)
		drop(userdata, d);
	else
		add(userdata, d);
	return 0;
}

static int enumerate(struct fabric *fabric)
{
	_cleanup_(sd_device_enumerator_unrefp) sd_device_enumerator *e = NULL;
	int r;

	r = sd_device_enumerator_new(&e);
	if (r < 0)
		return r;
	/* Those that udev has not done its rules for yet come by their event. */
	r = sd_device_enumerator_add_match_subsystem(e, "infiniband_verbs", true);
	if (r < 0)
		return r;
	for (sd_device *d = sd_device_enumerator_get_device_first(e); d;
	     d = sd_device_enumerator_get_device_next(e))
		add(fabric, d);
	return 0;
}

int fabric_start_hotplug(struct fabric *fabric)
{
	int r;

	r = sd_device_monitor_new(&fabric->monitor);
	if (r < 0)
		return r;
	r = sd_device_monitor_filter_add_match_subsystem_devtype(fabric->monitor,
								 "infiniband_verbs", NULL);
	if (r < 0)
		return r;
	r = sd_device_monitor_attach_event(fabric->monitor, fabric->loop);
	if (r < 0)
		return r;
	/* First listen, then look: nothing falls in between. */
	r = sd_device_monitor_start(fabric->monitor, on_uevent, fabric);
	if (r < 0)
		return r;
	return enumerate(fabric);
}
