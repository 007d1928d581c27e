/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Three clients of wire.h: PASSIVE listens on port 7471 with its id 1, ACTIVE can connect, OTHER does something else. */

#include "core/object/id.h"
#include "tests/unit/wire.h"

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

extern struct wire_client passive, active, other;

/* Policy allows all. */
void three_start(void);
void three_end(void);
void three_run(void);
/* PASSIVE listens; three_start() has called it. */
void three_listen(void);
/* Makes a request, which has to succeed. */
void three_ask(struct wire_client *c, int op, uint32_t id);
/* Makes a request, and does not wait for the reply. QUIET: there is one only if it fails. */
void three_send(struct wire_client *c, int op, uint32_t id, bool quiet);
/* A new id of ACTIVE gets a route to PASSIVE. */
void three_resolve(uint32_t id);
/* Look-ups of QPs wait. */
void three_hold(bool hold);
enum id_state three_state_of(struct wire_client *c, uint32_t handle);
