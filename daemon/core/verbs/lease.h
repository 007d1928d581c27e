/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A lease gives a session's user access to one device node, from the session's first open to its last close. It ends
 * earlier if the device is removed, policy no longer allows it, or the session ends.
 */

#include <stddef.h>
#include <sys/types.h>

struct fabric_device;
struct failure;
struct intent;
struct ledger_lease;
struct ledger_old_leases;
struct ledger_session;
struct list;
struct session;

/*
 * Counts an open of device NAME, and creates the lease if there is none. NAME empty: the first device. *RET is the
 * device. Returns 0: the client's user can open the node. For other results see bind.h.
 */
int lease_open(struct session *session, const char *name, struct fabric_device **ret,
	       struct failure *failure);
/*
 * Lets the user UID open the device's node, for an instance of the daemon whose own policy has decided. SESSION must be
 * of the daemon's own user. Returns as lease_open().
 */
int lease_lend(struct session *session, const char *name, uid_t uid, struct failure *failure);
int lease_end_loan(struct session *session, const char *name, uid_t uid); /* returns 0 */
int lease_close(struct session *session, const char *name);
/* Frees the leases that no request has got: the client that has requested them is gone. */
void lease_drop_unopened(struct session *session);
/*
 * Moves the leases of FROM, which lingers, to TO, a session of the same process and user. TO keeps them until its end,
 * for its client has not opened the devices yet. Those that policy does not allow to TO end.
 */
void lease_take_over(struct session *to, struct session *from);
void lease_forget_device(struct session *session, const char *name); /* the device was removed */
/* What a client intends to do that uses the device NAME. */
void lease_intent(struct intent *ret, const char *name);
/* The device of the next lease that is no loan; *AT NULL: of the first one. NULL: there are no more. */
const char *lease_next_device(const struct session *session, const struct list **at);
/* Ends the leases of devices that policy no longer allows. */
void lease_enforce(struct session *session);
void lease_free_all(struct session *session);
/*
 * Gives SESSION access again to the devices that it had in a previous process of the daemon, as far as they are there.
 * The N rows at LEASES are SESSION's. ROW and OLD (NULL: none) have others if an older daemon has written them.
 */
void lease_restore(struct session *session, const struct ledger_session *row,
		   const struct ledger_lease *leases, size_t n,
		   const struct ledger_old_leases *old);
unsigned lease_count(const struct session *session);
