/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Converts who a peer is between the public struct and the message. */

#include "client/admin.h"
#include "proto/rdmabroker.pb-c.h"

/* RET points into SPACE and into FROM_PROGRAM. CALL is for messages. -EINVAL or -EOPNOTSUPP: it is not valid. */
int peeridentity_put(Rdmabroker__PeerIdentity *ret, Rdmabroker__Workload *space,
		     const struct rdmabroker_peer_identity *from_program, const char *call);
/* RET points into IN. */
void peeridentity_get(struct rdmabroker_peer_identity *ret, const Rdmabroker__PeerIdentity *in);
