/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * If an earlier policy decided about an id, the policy in force decides again, and the id gets its rule. No
 * effect if the policy in force has decided already. All return 0, a status or a negative errno.
 */

struct failure;
struct id;

int renew_rule(struct id *id, struct failure *failure); /* before its route is resolved */
int renew_for_connect(struct id *id,
		      struct failure *failure); /* the rule must also allow the route's TOS */
/* For a connection request. Unless the result is 0, the peer was rejected and the id is FAILED. */
int renew_for_accept(struct id *id, struct failure *failure);
