/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Leases: a lease gives a session's user access to one device node. The session's opens and closes of the
 * device are counted. The lease ends with the last close or, before that, when the device is removed, policy no
 * longer allows it, or the session ends.
 */

#include <stddef.h>

struct fabric_device;
struct failure;
struct ledger_lease;
struct session;

/*
 * Counts an open of device NAME by SESSION, and creates the lease if there is none. NAME empty: the first device.
 * *RET is the device. Returns 0: the client's user can open the device node; -EINPROGRESS: not yet, repeat the
 * request when session_ops.resume is called; a status that FAILURE explains; or another negative errno.
 */
int lease_open(struct session *session, const char *name, struct fabric_device **ret,
	       struct failure *failure);
int lease_close(struct session *session, const char *name);
void lease_forget_device(struct session *session, const char *name); /* the device was removed */
/* Ends the leases of devices that policy no longer allows. */
void lease_enforce(struct session *session);
void lease_free_all(struct session *session);
/* Gives SESSION the lease for device NAME that it had in a previous process of the daemon. No effect without the device. */
void lease_restore(struct session *session, const char *name, unsigned n_opens);
/* Writes the leases to RET, at most MAX; the other places of RET become free. */
void lease_list(const struct session *session, struct ledger_lease *ret, size_t max);
unsigned lease_count(const struct session *session);
