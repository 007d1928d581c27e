/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What programs hold now, as the kernel reports it by netlink: connection manager ids and QPs. As rows of refusals, as if
 * no rule had matched, so that rules can be suggested before the daemon is installed.
 */

#include <sys/types.h>

#include "client/admin.h"

#define HOLDER_GIDS 16

/* A program that holds something, or a module of the kernel. */
struct holder {
	struct rdmabroker_who who; /* pid 0: a module; uid UINT32_MAX: a module, or not known */
	char name[32];
	uint32_t gids[HOLDER_GIDS]; /* the first ones, by number */
	bool is_daemon; /* its ids are those of the broker's clients */
	unsigned n_ids, n_qps;
};

struct holding {
	struct rdmabroker_refusals
		refusals; /* of the programs; nothing of modules and the daemon */
	struct holder *holders;
	size_t n_holders;
	struct device *devices; /* their names are in REFUSALS */
	unsigned
		n_nameless; /* ids and QPs of threads that have ended: the kernel does not report their processes */
};

/*
 * A port from FIRST_PORT to LAST_PORT is one that the kernel has chosen. Returns NULL; or what has failed, and errno is set.
 * RET is to be freed then, too.
 */
const char *holding_read(struct holding *ret, uint16_t first_port, uint16_t last_port);
void holding_done(struct holding *holding);
