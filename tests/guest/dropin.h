/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A program of librdmacm. Most cases run with librdmacm and with the drop-in, and expect the same behaviour. Each
 * case is a function in the table of dropin.c.
 */

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/patience.h"

#define N_THREADS 8

extern struct sockaddr_in here; /* the server's address */

/* Unless COND holds, prints the line and errno, and exits with status 1. */
#define CHECK(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
__attribute__((noreturn)) void check_failed(const char *file, int line, const char *cond);

struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	pthread_t thread;
};

/* The server, a thread, accepts every connection, and disconnects when the peer does. */
void server_start(struct server *server);
void server_stop(struct server *server);

/* The next event on CHANNEL other than TIMEWAIT_EXIT must have TYPE and status 0. Acks these events. */
void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* librdmacm or the drop-in creates the QP's completion queues. */
void make_qp(struct rdma_cm_id *id);
/* Connects a new id to the server. CHANNEL must have no events of other ids. */
struct rdma_cm_id *connect_new(struct rdma_event_channel *channel);
void disconnect(struct rdma_cm_id *id);

void case_own_channels(void);
void case_one_channel(void);
void case_ack_elsewhere(void);
void case_poll(void);
void case_signal(void);
void case_late(void);
void case_back(void);
void case_ports(void);
void case_setuid(void);
void case_setuid_early(void);
