/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Events of the fabric. */

struct fabric_event;

/*
 * Handles an event of the id USERDATA: changes the id's state and notifies the client. Must not free anything
 * of the session except new connection requests. See core.on_event.
 */
void dispatch_event(void *userdata, struct fabric_event *event);
