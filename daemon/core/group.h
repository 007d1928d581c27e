/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The verbs that join and leave multicast groups; for their results see bind.h. */

#include <stdint.h>
#include <sys/socket.h>

struct fabric_join;
struct failure;
struct id;

int group_join(struct id *id, const struct sockaddr *addr, uint32_t join_flags,
	       struct failure *failure);
int group_leave(struct id *id, const struct sockaddr *addr, struct failure *failure);
void group_leave_all(struct id *id);
/* Leaves the groups that policy no longer allows, and notifies the owner. */
void group_enforce(struct id *id);
const struct sockaddr *group_addr(const struct fabric_join *join);
