/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A program of librdmacm, which knows nothing of any broker: what it expects is what librdmacm does, so it
 * is run both ways. One function a case, in dropin.c's table.
 */

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdlib.h>

#define N_THREADS 8

extern struct sockaddr_in here; /* where the server listens */

/* Ends the program with the line and errno where COND does not hold. */
#define CHECK(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
__attribute__((noreturn)) void check_failed(const char *file, int line, const char *cond);

struct server {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	pthread_t thread;
};

/* Accepts every connection, and ends its side when the peer does. */
void server_start(struct server *server);
void server_stop(struct server *server);

/* The next event on CHANNEL: it has to be TYPE, and is acked. */
void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* With a QP whose queues librdmacm makes. */
void make_qp(struct rdma_cm_id *id);
/* From no id to a connection, on a channel that has no other events. */
struct rdma_cm_id *connect_new(struct rdma_event_channel *channel);
void disconnect(struct rdma_cm_id *id);

void case_own_channels(void);
void case_one_channel(void);
void case_ack_elsewhere(void);
void case_poll(void);
void case_signal(void);
void case_late(void);
