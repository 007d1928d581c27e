/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The devices that a session has open. */

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "client/lib/wire/message.h"

struct rdmabroker;

/* An open device; a session opens each device once. It outlives the session while migrated ids use it. */
struct device {
	LIST_ENTRY(device) link; /* opendevices.list */
	struct rdmabroker *session; /* NULL: the session is closed */
	pid_t pid; /* of the process that opened it */
	char *name;
	struct ibv_context *context;
	struct ibv_pd *pd; /* shared by the ids; NULL: not needed yet */
	unsigned n_opens; /* opens by the program and by ids of the session, not closed yet */
	unsigned n_guests; /* ids that use it, and that were migrated to other sessions */
	int max_responder_resources, max_initiator_depth; /* -1: not queried yet */
	struct qp_attr
		init; /* INIT attributes of the last QP for connections; mask 0: there was none yet */
};

struct opendevices {
	LIST_HEAD(, device) list;
};

/* Remember the INIT attributes of a QP of DEVICE, for later QPs. */
void opendevice_learn_init(struct device *device, const struct qp_attr *init);
/*
 * Open the device of CONTEXT once more, and store in *RET the INIT attributes that were remembered for it. NULL:
 * SESSION has not opened the device or knows no attributes of it, or the device was removed; nothing was opened.
 */
struct device *opendevice_get_learned(struct rdmabroker *session, const struct ibv_context *context,
				      struct qp_attr *ret);
/* Undo one open of DEVICE by the program in SESSION, or by an id that belongs to SESSION. */
void opendevice_put(struct rdmabroker *session, struct device *device);
/* An id that has DEVICE open was migrated from session FROM to session TO. */
void opendevice_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to);
/* The session ends: close its devices, except those that migrated ids still use. */
void opendevice_free_all(struct rdmabroker *session);
