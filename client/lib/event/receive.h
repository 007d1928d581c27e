/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the transport received: events go to the queue, outcomes of calls to their ids. For struct wire_ops. */

#include "proto/rdmabroker.pb-c.h"

struct call;
struct rdmabroker;

int receive_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
int receive_outcome(struct rdmabroker *session, struct call *call, const Rdmabroker__Reply *reply);
