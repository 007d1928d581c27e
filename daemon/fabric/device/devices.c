/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/device/device.h"
#include "fabric/device/opener.h"
#include "fabric/internal.h"

/* The list of devices. hotplug.c finds them, opener.c opens them, nodelease.c lets users open their nodes. */

bool fabric_is_opening(const struct fabric *fabric)
{
	return opener_is_running(fabric->opener);
}

struct fabric_device *fabric_device_unref(struct fabric_device *device)
{
	if (!device || --device->n_refs > 0)
		return NULL;
	assert(list_is_empty(&device->grants));
	free(device->name);
	free(device->node);
	free(device->holders);
	free(device);
	return NULL;
}

struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev)
{
	struct list *next = prev ? prev->link.next : fabric->devices.next;

	return next == &fabric->devices ? NULL : container_of(next, struct fabric_device, link);
}

struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(device->name, name) == 0)
			break;
	return device;
}

const char *fabric_device_name(const struct fabric_device *device)
{
	return device->name;
}

const char *fabric_device_node(const struct fabric_device *device)
{
	return device->node;
}

const char *fabric_device_sysname(const struct fabric_device *device)
{
	return strrchr(device->node, '/') + 1;
}

unsigned fabric_device_n_leases(const struct fabric_device *device)
{
	return device->n_leases;
}
