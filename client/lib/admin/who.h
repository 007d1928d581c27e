/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts who a process is between the structs of client/admin.h and messages. */

#include "client/admin.h"
#include "proto/rdmabroker.pb-c.h"

/* WORKLOAD NULL: it is not known. RET points into both. */
void who_get(struct rdmabroker_who *ret, uint32_t uid, const char *unit,
	     const Rdmabroker__Workload *workload);
/* WHO NULL: it is not known. WHY: as in the message. */
void who_get_peer(struct rdmabroker_peer *ret, const Rdmabroker__PeerIdentity *who,
		  const char *why);
void who_get_identity(struct rdmabroker_who *ret, const Rdmabroker__PeerIdentity *in);
/* RET points into WHO. Returns RET. */
Rdmabroker__Workload *who_put(Rdmabroker__Workload *ret, const struct rdmabroker_who *who);
/* RET points into SPACE and WHO. Returns RET; NULL: WHO is NULL. */
Rdmabroker__PeerIdentity *who_put_identity(Rdmabroker__PeerIdentity *ret,
					   Rdmabroker__Workload *space,
					   const struct rdmabroker_who *who);
