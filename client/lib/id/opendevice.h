/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The devices that a session has open. */

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "client/lib/wire/ownfd.h"

struct ibv_context;
struct ibv_pd;
struct rdmabroker;

/*
 * An open device. A session opens each device once; migrated ids can keep the device open after the session has
 * ended.
 */
struct device {
	LIST_ENTRY(device) link; /* opendevices.list */
	struct rdmabroker *session; /* NULL: the session is closed */
	pid_t pid; /* of the process that opened it */
	char *name;
	struct ibv_context *context;
	struct ownfd cmd, async; /* CONTEXT's descriptors */
	ino_t number; /* of its link in sysfs; 0: not known */
	struct ibv_pd *pd; /* shared by the ids; NULL: not needed yet */
	unsigned n_opens; /* opens by the program and by ids of the session */
	unsigned n_guests; /* ids that use the device, and that were migrated to other sessions */
	int max_responder_resources, max_initiator_depth; /* -1: not queried yet */
};

struct opendevices {
	LIST_HEAD(, device) list;
	bool had_any; /* the session has leased a device, or has got the leases of an earlier session */
};

/* Undo one open of DEVICE by the program in SESSION, or by an id of SESSION. */
void opendevice_put(struct rdmabroker *session, struct device *device);
/* An id that has DEVICE open was migrated from session FROM to session TO. */
void opendevice_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to);
/* Whether the session may have leases in the broker. */
bool opendevice_had_any(const struct rdmabroker *session);
/* The session ends: close its devices, except those that migrated ids still use. */
void opendevice_free_all(struct rdmabroker *session);
