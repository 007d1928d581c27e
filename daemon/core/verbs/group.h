/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The verbs that join and leave multicast groups; for their results see bind.h. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct fabric_join;
struct failure;
struct id;
struct ledger_group;
struct list;
struct session;

int group_join(struct id *id, const struct sockaddr *addr, uint32_t join_flags,
	       struct failure *failure);
int group_leave(struct id *id, const struct sockaddr *addr, struct failure *failure);
/* Leaves at most MAX groups of ID. Returns how many. */
unsigned group_leave_some(struct id *id, unsigned max);
/* Leaves all groups of ID, in slices, for a request of SESSION. -EINPROGRESS: it has to be repeated, see bind.h. */
int group_leave_all(struct id *id, struct session *session);
/* The address of the next group; *AT NULL: of the first one. NULL: there are no more. */
const struct sockaddr *group_next(const struct id *id, const struct list **at);
/* The session's walk goes through the groups of ID next. */
void group_walk(struct id *id);
/* Leaves the next group of SESSION's walk if policy no longer allows it, and notifies the owner. There must be one. */
void group_enforce(struct session *session);
/*
 * ID is restored, and has joined the group of ROW. UNTOLD: the client has perhaps not got the last event of ID.
 * Returns 0 or a negative errno: the client has to join again.
 */
int group_restore(struct id *id, const struct ledger_group *row, bool untold);
/* The client is being told the outcome of the join; or, if TOLD, it was. */
void group_answered(const struct fabric_join *join, bool told);
const struct sockaddr *group_addr(const struct fabric_join *join);
