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
	return opener_is_new(fabric->opener) || fabric->listening;
}

bool fabric_has_unopened(const struct fabric *fabric)
{
	return opener_is_busy(fabric->opener);
}

int fabric_device_error(const struct fabric_device *device, uint64_t *ret_since_ms)
{
	struct opener_status status;

	/* It was opened: no look-up among all. */
	if (device->announced)
		return 0;
	opener_get_status(device->fabric->opener, fabric_device_sysname(device), &status);
	*ret_since_ms = status.since_ms;
	return status.state == OPENER_FAILED ? status.error : 0;
}

unsigned fabric_count_unusable(struct fabric *fabric)
{
	struct fabric_device *device = NULL;
	uint64_t since_ms;
	unsigned n = 0;

	while ((device = fabric_next_device(fabric, device)))
		n += fabric_device_error(device, &since_ms) != 0;
	return n;
}

bool fabric_device_is_iwarp(const struct fabric_device *device)
{
	struct opener_status status;

	opener_get_status(device->fabric->opener, fabric_device_sysname(device), &status);
	return status.is_iwarp;
}

unsigned fabric_device_get_lmc(const struct fabric_device *device, uint8_t port_num)
{
	struct opener_status status;

	opener_get_status(device->fabric->opener, fabric_device_sysname(device), &status);
	return port_num >= 1 && port_num <= OPENER_PORTS ? status.lmc[port_num - 1] : 0;
}

void fabric_announce_devices(struct fabric *fabric)
{
	struct list *l;

	list_for_each(l, &fabric->devices) {
		struct fabric_device *device = container_of(l, struct fabric_device, link);
		struct opener_status status;

		if (device->announced)
			continue;
		opener_get_status(fabric->opener, fabric_device_sysname(device), &status);
		/* The first try can come before udev has given the node to the daemon. */
		if (status.state == OPENER_FAILED && status.n_tries > 1 && !device->failure_told) {
			device->failure_told = true;
			log_warning(
				"Cannot use the device %s: it cannot be opened: %s. It is tried again, "
				"with pauses of up to five minutes.",
				device->name, strerror(status.error));
		}
		if (status.state != OPENER_OPEN)
			continue;
		if (device->failure_told)
			log_info("The device %s can be used now, after %u tries.", device->name,
				 status.n_tries);
		device->announced = true;
		if (!fabric->takes_over)
			fabric_scan_holders_of(device);
		fabric->ops->device_added(fabric->userdata, device);
	}
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

uint64_t fabric_device_number(const struct fabric_device *device)
{
	return device->number;
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
