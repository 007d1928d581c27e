/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * If only an earlier policy, or none, has decided about an id, the policy in force decides now. The functions return
 * 0, a status that FAILURE explains, or a negative errno.
 */

struct failure;
struct id;

/* To be called when the id's route is requested. */
int renew_rule(struct id *id, struct failure *failure);
/* As renew_rule(). Also checks that the id's rule allows the TOS that the route was resolved with. */
int renew_for_connect(struct id *id, struct failure *failure);
/* For an id that is a connection request. If the result is not 0, the peer was rejected and the id is FAILED. */
int renew_for_accept(struct id *id, struct failure *failure);
