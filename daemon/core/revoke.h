/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ends what policy does not allow any more, or an admin does not want. The owner is notified of WHY.
 */

struct failure;
struct id;

/* Ends an id that has no connection: only its handle is left. */
void revoke_id(struct id *id, const struct failure *why);
/* Ends a connection, or what was to become one. TEXT is sent to the peer if ID is a connection request. */
void revoke_connection(struct id *id, const struct failure *why, const char *text);
