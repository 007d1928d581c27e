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
	struct rdmabroker *session; /* NULL: closed */
	pid_t pid; /* of the process that opened it */
	char *name;
	struct ibv_context *context;
	struct ibv_pd *pd; /* that ids share; NULL: not needed yet */
	unsigned n_opens; /* by the program, and by ids of the session */
	unsigned n_guests; /* ids that use it and were migrated from the session */
	int max_responder_resources, max_initiator_depth; /* -1: not queried yet */
	struct qp_attr
		init; /* INIT attributes of the last QP for connections; mask 0: there was none yet */
};

struct opendevices {
	LIST_HEAD(, device) list;
};

/* Remember the INIT attributes of a QP of DEVICE, for later QPs. */
void opendevice_learn_init(struct device *device, const struct qp_attr *init);
/* If INIT attributes are known for the device of CONTEXT: that device, opened once more. Else NULL. */
struct device *opendevice_get_learned(struct rdmabroker *session, const struct ibv_context *context,
				      struct qp_attr *ret);
/* Undo one open, by the program or an id. SESSION: which it belongs to. */
void opendevice_put(struct rdmabroker *session, struct device *device);
/* An id that has the device open was migrated to session TO. */
void opendevice_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to);
/* The session ends: close the devices that the program has not closed. */
void opendevice_free_all(struct rdmabroker *session);
