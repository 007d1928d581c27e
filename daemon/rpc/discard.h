/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What a client has sent and the daemon has not read, when its session ends: descriptors among it could block whoever
 * closes them, so a thread does.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "util/closer.h"

struct peers;

/*
 * Receives the packets of the client UID at the other end of SOCK that nobody has read, and makes a thread of CLASS
 * close their descriptors. SOCK must be shut down, so that no more packets can come. Returns true if the socket is
 * empty. Stops early and returns false if the daemon has too few free descriptors or memory, if too many descriptors of
 * the user wait to be closed, or after some hundred packets. Then the kernel closes the descriptors that are left when
 * the socket is closed.
 */
bool discard_unread(struct peers *peers, int sock, struct owner owner, enum closer_class class);
