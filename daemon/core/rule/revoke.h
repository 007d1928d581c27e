/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ends ids for policy or for an admin. The owner gets an event with the reason WHY or, if a connection is
 * disconnected, the events of the disconnect.
 */

struct failure;
struct id;

/* Ends an id that has no connection: only its handle is left. */
void revoke_id(struct id *id, const struct failure *why);
/* Ends an id that has a connection or was to get one. TEXT is sent to the peer if ID is a connection request. */
void revoke_connection(struct id *id, const struct failure *why, const char *text);
