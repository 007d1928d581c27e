/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A connect or accept that is held back. Its request was answered with success, so that an event tells the client if it
 * fails. It waits for the end of a time wait (timewait.h), and then for a look-up of its QP number: by then the number
 * can be that of another process's QP.
 *
 *   timewait_hold() ──> waits ──the time wait is over──> is looked up ──the answer──> sent, or CONNECT_ERROR
 *                         ^                                                 │
 *                         └──────────the number is in time wait again───────┘
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct fabric_event;
struct fabric_lookup;
struct id;

struct held {
	struct list link; /* in a list of timewait.c while it waits */
	struct id *id;
	bool accept;
	/* the connection request, about which policy can have to decide again; NULL: a connect */
	struct fabric_event *request;
	struct rdma_conn_param param;
	uint8_t private_data[256];
	struct fabric_lookup *lookup; /* NULL: none is pending */
	uint64_t asked_by; /* the number of the session whose client's QP is looked up */
	bool is_answered; /* ANSWER is the result of a look-up that began after the last wait */
	int answer; /* of fabric_qp_belongs() */
};

/* Makes ID.held, which has a copy of PARAM, and takes over ID.request. Returns 0 or -ENOMEM. */
int held_new(struct id *id, const struct rdma_conn_param *param, bool accept);
/* Drops it: it is not sent. Takes NULL; returns NULL. */
struct held *held_free(struct held *held);
