/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Puts received events into the queue, and applies the outcomes of calls to their ids. receive_event() and
 * receive_outcome() implement callbacks of struct wire_ops.
 */

#include <stdint.h>

#include "proto/rdmabroker.pb-c.h"

struct call;
struct rdmabroker;
struct rdmabroker_id;

int receive_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
/*
 * The broker has resolved ID's route in advance. If the program has requested the route (wants_route), queue
 * ROUTE_RESOLVED. Otherwise set ID->routed; the program's request calls this function again.
 */
int receive_route(struct rdmabroker_id *id);
/* Receive the held events of the id with the number HANDLE again. */
int receive_held(struct rdmabroker *session, uint32_t handle);
int receive_outcome(struct rdmabroker *session, struct call *call, const Rdmabroker__Reply *reply);
