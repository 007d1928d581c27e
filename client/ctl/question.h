/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What explain was given on the command line, as the library takes it. */

#include <rdmabroker.h>

#include "ctl.h"

#define MAX_GROUPS 1024 /* of struct rdmabroker_question */

enum {
	OPTION_USER,
	OPTION_GROUP,
	OPTION_UNIT,
	OPTION_LOCAL,
	OPTION_PEER,
	OPTION_PORT,
	OPTION_DEVICE,
	OPTION_PS,
	OPTION_DATA,
};

struct question {
	struct rdmabroker_question public;
	uint32_t gids[MAX_GROUPS];
	struct sockaddr_storage local, peer;
	uint8_t data[RDMABROKER_LOOKUP_DATA_MAX];
};

/* 0, or an exit status and it is said. RET points into itself. */
int question_read(struct question *ret, const struct ctl *ctl, const char *operation);
/* The options that say what the rule TEXT asks for and QUESTION does not know. A cut text may ask for more. */
size_t question_find_missing(const struct question *question, const char *text,
			     const char *ret[MAX_OPTIONS]);
