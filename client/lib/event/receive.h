/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Puts received events into the queue, and applies the outcomes of calls to their ids. Called by struct wire_ops. */

#include "proto/rdmabroker.pb-c.h"

struct call;
struct rdmabroker;
struct rdmabroker_id;

int receive_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
/*
 * The broker has resolved ID's route too. If the program has requested the route (ID->wants_route), it gets
 * ROUTE_RESOLVED; otherwise it gets the event as soon as it requests the route.
 */
int receive_route(struct rdmabroker_id *id);
int receive_outcome(struct rdmabroker *session, struct call *call, const Rdmabroker__Reply *reply);
