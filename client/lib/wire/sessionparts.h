/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session: the transport, and a part for each object of the floors above, which that floor alone knows. */

#include "client/lib/wire/wire.h"

struct idtable;
struct opendevices;
struct queue;
struct notices;

struct rdmabroker {
	struct wire wire;
	unsigned flags; /* of struct rdmabroker_options */
	struct idtable *ids;
	struct opendevices *devices;
	struct queue *queue; /* of events */
	struct notices *notices; /* for admins */
};
