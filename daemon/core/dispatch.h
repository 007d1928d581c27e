/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The handler for the fabric's events. */

struct fabric_event;

/*
 * Handles an event of the id USERDATA: changes the id's state and notifies the client. Must not free any id
 * of the session except new connection requests. See core.on_event.
 */
void dispatch_event(void *userdata, struct fabric_event *event);
