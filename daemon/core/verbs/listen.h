/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The passive side: listening, and the connection requests that arrive; for the verbs' results see bind.h. */

struct fabric_event;
struct failure;
struct id;

int listen_start(struct id *id, unsigned backlog, struct failure *failure);
/* Handles EVENT, a connection request: notifies the client of a new id, or rejects the peer. */
void listen_on_request(struct id *listening, struct fabric_event *event);
