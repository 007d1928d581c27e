/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The handler for the fabric's events. */

struct fabric_event;

/*
 * The fabric calls this function (core.on_event). It handles EVENT of the id USERDATA (NULL: the event has no id): as
 * the event requires, it changes the id's state, takes the broker's next step, and notifies the client. It can free
 * the new id of a connection request, but frees no other id of the session.
 */
void dispatch_event(void *userdata, struct fabric_event *event);
