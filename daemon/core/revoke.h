/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Ends ids and connections that policy does not allow any more, or that an admin has ended. The owner gets an
 * event with the reason WHY. If a connection is disconnected, its owner gets the events of the disconnect instead.
 */

struct failure;
struct id;

/* Ends an id that has no connection: only its handle is left. */
void revoke_id(struct id *id, const struct failure *why);
/* Ends a connection, or an id that was to get one. TEXT is sent to the peer if ID is a connection request. */
void revoke_connection(struct id *id, const struct failure *why, const char *text);
