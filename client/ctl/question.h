/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Parses the command line of explain. */

#include "client/admin.h"
#include "ctl.h"

#define MAX_GROUPS 1024 /* the maximum of n_gids in struct rdmabroker_who */

enum {
	OPTION_USER,
	OPTION_GROUP,
	OPTION_UNIT,
	OPTION_CONTAINER,
	OPTION_POD,
	OPTION_JOB,
	OPTION_CGROUP,
	OPTION_LOCAL,
	OPTION_PEER,
	OPTION_PORT,
	OPTION_DEVICE,
	OPTION_PS,
	OPTION_DATA,
	OPTION_PEER_USER,
	OPTION_PEER_GROUP,
	OPTION_PEER_UNIT,
	OPTION_PEER_JOB,
};

/* A user, and the groups of its process. */
struct user {
	uint32_t uid;
	size_t n_gids;
	uint32_t gids[MAX_GROUPS];
};

struct question {
	struct rdmabroker_question public;
	struct rdmabroker_who peer_who; /* PUBLIC points to it, if it is given */
	struct user user, peer_user;
	struct sockaddr_storage local, peer;
	uint8_t data[RDMABROKER_LOOKUP_DATA_MAX];
};

/* Returns 0, or prints an error and returns an exit status. *RET points into itself: do not copy it. */
int question_read(struct question *ret, const struct ctl *ctl, const char *operation);
/*
 * Stores in RET the options for the members that the rule TEXT depends on and that QUESTION does not have. Returns
 * their number. If TEXT was cut, options can be missing.
 */
size_t question_find_missing(const struct question *question, const char *text,
			     const char *ret[MAX_OPTIONS]);
