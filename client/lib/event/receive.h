/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Puts received events into the queue, and applies the outcomes of calls to their ids. Called by struct wire_ops. */

#include "proto/rdmabroker.pb-c.h"

struct call;
struct rdmabroker;

int receive_event(struct rdmabroker *session, Rdmabroker__Frame *frame);
int receive_outcome(struct rdmabroker *session, struct call *call, const Rdmabroker__Reply *reply);
