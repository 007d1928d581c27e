/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * If an earlier policy decided about an id, the policy in force decides again, and the id gets the rule that
 * decides. No effect if the policy in force has decided already. All return 0, a status or a negative errno.
 */

struct failure;
struct id;

/* called before the id's route is resolved */
int renew_rule(struct id *id, struct failure *failure);
/* The rule must also allow the TOS that the id's route was resolved with. */
int renew_for_connect(struct id *id, struct failure *failure);
/* For a connection request. If the result is not 0, the peer was rejected and the id is FAILED. */
int renew_for_accept(struct id *id, struct failure *failure);
