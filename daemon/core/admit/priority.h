/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The service level (SL) that goes with a TOS on Ethernet (RoCE). Devices take the VLAN's priority and the class in which they
 * send from it. The kernel has it from the network device: from the egress map of a VLAN, or from the map of a device with
 * traffic classes. It gives it to the side that connects; the other side gets what its peer has chosen. So that a rule's TOS
 * means the same on both sides, the kernel is asked by resolving a route to the local address itself.
 *
 * What was found out is kept for ten seconds.
 */

#include <stdint.h>

struct failure;
struct id;

/*
 * The SL of ID's TOS, which must be set, if ID accepts on RoCE. Returns 0; -EINPROGRESS: the session's request will be
 * resumed; or a status.
 */
int priority_get(struct id *id, uint8_t *ret, struct failure *failure);
/* ID does not ask any more. */
void priority_done(struct id *id);
