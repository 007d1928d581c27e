/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The request that a previous process of the daemon had received and not answered, perhaps because it had to wait. The
 * process can have died before, while or after it carried the request out. So the next one looks at what the ledger
 * says of the request's id (of an accept, also at what the kernel says), and carries the request out, or only answers
 * it.
 *
 * A request of which the process has perhaps died would end the next one, too, and with it all sessions in the end. So
 * no request is carried out a third time, and none while a second process tries to take over.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;
struct ledger_group;
struct ledger_id;
struct ledger_session;
struct peer;

/* What the ledger has of the session. */
struct repeat {
	const struct ledger_session *row;
	const uint8_t *packet; /* the request's */
	size_t len; /* 0: there is none */
	bool repeated; /* the request was carried out for the second time */
	struct ledger_id *ids;
	size_t n_ids;
	const struct ledger_group *groups; /* those of all its ids */
	size_t n_groups;
	bool tried; /* see old_ledger.tried */
};

/*
 * Gives the request's id the state in which it can go on. To be called before the ids are restored. The replies to some
 * requests can only be made by carrying them out again: their ids get the state before the request. If the kernel has
 * accepted a connection request, and the ledger does not say so, its id gets the state after the accept.
 */
void repeat_prepare(const struct repeat *repeat, struct fabric *fabric);
/* Carries the request out again, or answers it. To be called when the ids are restored. */
void repeat_go_on(const struct repeat *repeat, struct peer *peer);
/* The same, for a request about the id HANDLE that was set aside (kept.h). To be called before repeat_go_on(). */
void repeat_go_on_aside(const struct repeat *repeat, uint32_t handle, struct peer *peer);
