/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "util/util.h"

/*
 * A device is identified by its uverbs node; its name is the sysfs attribute "ibdev". A failure here concerns
 * one device, which is examined again at its next uevent.
 */

#define NODES "/dev/infiniband"

DEFINE_CLEANUP(struct fabric_device *, fabric_device_unref)

static struct fabric_device *find_node(struct fabric *fabric, const char *node)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(device->node, node) == 0)
			break;
	return device;
}

static int device_new(struct fabric_device **ret, struct fabric *fabric, const char *name,
		      const char *node)
{
	_cleanup_(fabric_device_unrefp) struct fabric_device *device = calloc(1, sizeof(*device));

	if (!device)
		return -ENOMEM;
	device->n_refs = 1;
	device->fabric = fabric;
	device->number = ++fabric->last_device;
	list_init(&device->link);
	list_init(&device->grants);
	device->name = strdup(name);
	device->node = strdup(node);
	if (!device->name || !device->node)
		return -ENOMEM;
	*ret = TAKE_PTR(device);
	return 0;
}

static void drop(struct fabric *fabric, struct fabric_device *device)
{
	list_remove(&device->link);
	device->gone = true;
	if (device->announced || device->n_leases > 0)
		fabric->ops->device_removed(fabric->userdata, device);
	fabric_device_unref(device);
}

/*
 * Whether the device is in the daemon's network namespace. udev and the nodes know of those in others, too, if the devices
 * are not shared ("rdma system set netns exclusive").
 */
static bool is_here(struct fabric *fabric, const char *name)
{
	struct nldev_device found;
	int r = fabric->nldev ? 0 : nldev_new(&fabric->nldev);

	if (r == 0)
		r = nldev_find_device(fabric->nldev, name, &found);
	if (r < 0 && r != -ENODEV)
		fabric->nldev = nldev_free(fabric->nldev);
	return r != -ENODEV;
}

static void look_at(struct fabric *fabric, sd_device *d)
{
	struct fabric_device *device;
	const char *node, *name;

	/* Without a node or a name, the device was removed again. */
	if (sd_device_get_devname(d, &node) < 0 ||
	    sd_device_get_sysattr_value(d, "ibdev", &name) < 0)
		return;
	/* The node goes before the device leaves sysfs, and an instance is told of the node only. */
	if (fabric->has_lender && access(node, F_OK) < 0)
		return;
	device = find_node(fabric, node);
	if (device && strcmp(device->name, name) == 0) {
		/* udev may have set the node's mode, which also changes the mask of the ACL. */
		if (!fabric->has_lender)
			fabric_renew_entries(device);
		fabric_check_node(node, fabric->access, &device->node_told);
		return;
	}
	if (!is_here(fabric, name))
		return;
	/* If the node is known under another name, udev has renamed the device, as it often does with a new one. */
	if (device)
		drop(fabric, device);
	if (device_new(&device, fabric, name, node) < 0)
		return;
	if (!fabric->takes_over)
		fabric_clear_entries(device);
	fabric_check_node(node, fabric->access, &device->node_told);
	list_insert(&fabric->devices, &device->link);
	fabric->devices_changed(fabric);
}

static void look_at_cm(struct fabric *fabric, sd_device *d)
{
	const char *node;

	/* Whatever Access= is, no other user must be able to open rdma_cm. */
	if (sd_device_get_devname(d, &node) >= 0)
		fabric_check_node(node, FABRIC_ACCESS_ACL, &fabric->cm_node_told);
}

static void on_misc(struct fabric *fabric, sd_device *d, sd_device_action_t action)
{
	const char *name;

	if (sd_device_get_sysname(d, &name) < 0 || strcmp(name, "rdma_cm") != 0)
		return;
	if (action == SD_DEVICE_REMOVE)
		fabric->cm_node_told = false;
	else
		look_at_cm(fabric, d);
}

/* Checks all devices, because the uevent of a renamed device does not name the node. */
static void look_at_all(struct fabric *fabric)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->devices) {
		struct fabric_device *device = container_of(l, struct fabric_device, link);
		_cleanup_(sd_device_unrefp) sd_device *d = NULL;

		if (sd_device_new_from_subsystem_sysname(&d, "infiniband_verbs",
							 fabric_device_sysname(device)) >= 0)
			look_at(fabric, d);
	}
}

static int on_uevent(sd_device_monitor *monitor, sd_device *d, void *userdata)
{
	struct fabric *fabric = userdata;
	struct fabric_device *device;
	const char *subsystem, *node;
	sd_device_action_t action;

	if (sd_device_get_action(d, &action) < 0 || sd_device_get_subsystem(d, &subsystem) < 0)
		return 0;
	if (strcmp(subsystem, "infiniband") == 0) {
		if (action == SD_DEVICE_MOVE)
			look_at_all(fabric);
		return 0;
	}
	if (strcmp(subsystem, "misc") == 0) {
		on_misc(fabric, d, action);
		return 0;
	}
	if (action != SD_DEVICE_REMOVE) {
		look_at(fabric, d);
		return 0;
	}
	/*
	 * The opener closes the daemon's descriptors of the device. Until then, the kernel's removal of the
	 * device can block.
	 */
	fabric->devices_changed(fabric);
	device = sd_device_get_devname(d, &node) < 0 ? NULL : find_node(fabric, node);
	if (device)
		drop(fabric, device);
	return 0;
}

static int enumerate(struct fabric *fabric)
{
	_cleanup_(sd_device_enumerator_unrefp) sd_device_enumerator *e = NULL;
	_cleanup_(sd_device_unrefp) sd_device *cm = NULL;
	int r;

	r = sd_device_enumerator_new(&e);
	if (r < 0)
		return r;
	/* The enumerator leaves out devices that udev has not processed yet; for these a uevent will follow. */
	r = sd_device_enumerator_add_match_subsystem(e, "infiniband_verbs", true);
	if (r < 0)
		return r;
	/* No uevent follows in an instance. The initial one sees to the node's mode. */
	if (fabric->has_lender) {
		r = sd_device_enumerator_allow_uninitialized(e);
		if (r < 0)
			return r;
	}
	for (sd_device *d = sd_device_enumerator_get_device_first(e); d;
	     d = sd_device_enumerator_get_device_next(e))
		look_at(fabric, d);
	if (sd_device_new_from_subsystem_sysname(&cm, "misc", "rdma_cm") >= 0 &&
	    sd_device_get_is_initialized(cm) > 0)
		look_at_cm(fabric, cm);
	return 0;
}

/*
 * udev tells of devices only in the initial network namespace. An instance in another one, which has a lender, looks at
 * the directory of the nodes.
 */

static void drop_missing(struct fabric *fabric)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->devices) {
		struct fabric_device *device = container_of(l, struct fabric_device, link);

		if (access(device->node, F_OK) < 0) {
			fabric->devices_changed(fabric);
			drop(fabric, device);
		}
	}
}

static int on_nodes(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct fabric *fabric = userdata;
	char node[sizeof(NODES) + NAME_MAX + 1];

	snprintf(node, sizeof(node), NODES "/%s", event->len > 0 ? event->name : "");
	/* The ACL of a known node has changed, as it often does. */
	if (event->mask & IN_ATTRIB && find_node(fabric, node))
		return 0;
	drop_missing(userdata);
	enumerate(userdata);
	return 0;
}

void fabric_set_lender(struct fabric *fabric, const struct fabric_lender *lender, void *userdata)
{
	fabric->has_lender = true;
	fabric->lender = lender;
	fabric->lender_userdata = userdata;
	if (!fabric->nodes && lender &&
	    sd_event_add_inotify(fabric->loop, &fabric->nodes, NODES,
				 IN_CREATE | IN_DELETE | IN_ATTRIB | IN_ONLYDIR, on_nodes,
				 fabric) < 0)
		log_warning("Cannot watch %s: devices that appear later are not found.", NODES);
}

int fabric_start_hotplug(struct fabric *fabric)
{
	static const char *const subsystems[] = { "infiniband_verbs", "infiniband", "misc" };
	int r;

	r = sd_device_monitor_new(&fabric->monitor);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ELEMENTS_OF(subsystems); i++) {
		r = sd_device_monitor_filter_add_match_subsystem_devtype(
			fabric->monitor, subsystems[i], /* devtype= */ NULL);
		if (r < 0)
			return r;
	}
	r = sd_device_monitor_attach_event(fabric->monitor, fabric->loop);
	if (r < 0)
		return r;
	/* Before the enumeration, so that no device is missed. */
	r = sd_device_monitor_start(fabric->monitor, on_uevent, fabric);
	if (r < 0)
		return r;
	return enumerate(fabric);
}
