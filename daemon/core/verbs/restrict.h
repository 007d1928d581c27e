/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The verb that narrows a session, see restriction.h. */

struct failure;
struct session;

/*
 * Restricts SESSION, which must not have ids and leases, from now on. TEXT: its rules.
 * MAX_IDS: 0, no limit. If this is the restriction that SESSION has already, nothing changes. Returns 0,
 * STATUS_BAD_REQUEST, STATUS_BAD_STATE, STATUS_QUOTA or a negative errno.
 */
int restrict_session(struct session *session, const char *text, unsigned max_ids,
		     struct failure *failure);
