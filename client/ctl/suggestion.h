/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Rules that would have allowed what was seen: from requests that no rule matched, or that only a warn rule allowed. The
 * rules allow no user, unit, device, port or peer that was not seen, except for what struct suggestion_options widens. Others
 * choose a part of what is seen: the peers of a listener, names of programs, what happens in a unit of many users.
 */

#include <stdio.h>

#include "client/admin.h"

struct suggestion_options {
	bool rejected; /* also what a reject rule has refused */
	bool is_held; /* programs hold it now; false: it was requested at the times in the rows */
	unsigned peer_prefix,
		peer_prefix6; /* peers are widened to this length; 32 and 128: not at all */
	uint16_t first_port, last_port; /* what a port stands for that the kernel has chosen */
	/* The name of a user; NULL: none, so the uid is written. */
	const char *(*user_name)(uint32_t uid);
	/* One of the GIDS, which has all N_UIDS users, two at least; NULL: there is none. */
	const char *(*group_name)(const uint32_t *uids, size_t n_uids, const uint32_t *gids,
				  size_t n_gids);
	/* The rules have the group in place of the users, and a comment has whom that adds; else only a comment has it. */
	bool prefer_groups;
	/* Prints the names of GROUP's other members, on one line; nothing, if there are none. */
	void (*print_others)(FILE *file, const char *group, const uint32_t *uids, size_t n_uids);
};

/* The outcome of rows that were suggested earlier, and are to be allowed as they are. Their counts and times are 0. */
extern const char suggested_outcome[];

void suggestion_print_rules(FILE *file, const struct rdmabroker_refusals *seen,
			    const struct suggestion_options *options);
/* Tests that these rules pass, see rdmabroker.rules(5). */
void suggestion_print_tests(FILE *file, const struct rdmabroker_refusals *seen,
			    const struct suggestion_options *options);
