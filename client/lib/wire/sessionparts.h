/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A session: the transport, and pointers to the parts whose structs are defined in the layers above. */

#include "client/lib/wire/wire.h"

struct idtable;
struct opendevices;
struct queue;
struct notices;

struct rdmabroker {
	struct wire wire;
	unsigned flags; /* of struct rdmabroker_options */
	uint64_t number; /* in the broker */
	struct rdmabroker *replies; /* the session by which the replies come; NULL: this one */
	unsigned n_direct; /* sessions whose replies come by this one */
	bool is_starting; /* RDMABROKER_AT_START, and no lease_devices() yet */
	bool closing; /* the program has closed it, and there are still such sessions */
	struct idtable *ids;
	struct opendevices *devices;
	struct queue *queue; /* of events */
	struct notices *notices; /* for observers */
};
