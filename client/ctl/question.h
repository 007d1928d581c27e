/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parses the command line of explain. */

#include "client/admin.h"
#include "ctl.h"

#define MAX_GROUPS 1024 /* the maximum of n_gids in struct rdmabroker_who */

struct question {
	struct rdmabroker_question public;
	struct rdmabroker_who peer_who; /* PUBLIC points to it, if it is given */
	uint32_t gids[MAX_GROUPS], peer_gids[MAX_GROUPS];
	struct sockaddr_storage local, peer;
	uint8_t data[RDMABROKER_LOOKUP_DATA_MAX];
};

/* If an argument is not valid, the program ends. *RET points into itself: do not copy it. */
void question_read(struct question *ret, const struct ctl *ctl, const char *operation);
/*
 * Stores in RET the options for the members that the rule TEXT depends on and that QUESTION does not have. Returns
 * their number. If TEXT was cut, options can be missing.
 */
size_t question_find_missing(const struct question *question, const char *text,
			     const char *ret[MAX_OPTIONS]);
