/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What the interpreter of scripts asks of librdmacm and of librdmabroker alike. The types are
 * rdma_cma.h's, for it is the reference.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

/* How long whatever has to come is waited for. */
#define DEADLINE_MS 15000

/* The event channels of a run. */
enum side {
	SIDE_PASSIVE,
	SIDE_ACTIVE,
	SIDE_WORKER,
	N_SIDES,
};

struct event {
	const char *type; /* the name without its prefix */
	int status;
	void *id;
	void *listen_id; /* CONNECT_REQUEST only */
	struct rdma_conn_param conn; /* without private data */
	struct rdma_ud_param ud; /* without private data */
	const void *join_context;
	uint8_t data[256];
	uint8_t data_len;
};

/* Calls return 0 or a negative errno. */
struct backend {
	const char *name;
	int (*open)(enum side side);
	void (*close)(enum side side);
	int (*get_fd)(enum side side);
	/* -EAGAIN: there is none. */
	int (*get_event)(enum side side, struct event *ret);

	/* With WAIT, calls on the id return with the outcome. */
	int (*create_id)(enum side side, bool wait, enum rdma_port_space ps, void **ret);
	int (*create_ep)(enum side side, bool passive, enum rdma_port_space ps, const char *node,
			 const char *service, void **ret);
	int (*destroy_id)(void *id);
	int (*migrate_id)(void **id, enum side side);
	int (*bind_addr)(void *id, struct sockaddr *addr);
	int (*listen)(void *id, int backlog);
	int (*get_request)(void *id, void **ret);
	int (*resolve_addr)(void *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(void *id, int timeout_ms);
	int (*connect)(void *id, struct rdma_conn_param *param);
	int (*establish)(void *id);
	int (*accept)(void *id, struct rdma_conn_param *param);
	int (*reject)(void *id, const void *data, uint8_t len);
	int (*reject_ece)(void *id, const void *data, uint8_t len);
	int (*disconnect)(void *id);
	int (*notify)(void *id, enum ibv_event_type event);
	int (*set_option)(void *id, int option, int value);
	int (*join)(void *id, struct sockaddr *addr, enum rdma_cm_mc_join_flags flag,
		    const void *context);
	int (*leave)(void *id, struct sockaddr *addr);
	int (*set_local_ece)(void *id, struct ibv_ece *ece);
	int (*get_remote_ece)(void *id, struct ibv_ece *ret);
	int (*create_qp)(void *id, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(void *id);
	int (*init_qp_attr)(void *id, struct ibv_qp_attr *attr, int *mask);

	/* NULL: none. */
	struct ibv_qp *(*get_qp)(void *id);
	struct ibv_context *(*get_verbs)(void *id);
	const struct sockaddr *(*get_local_addr)(void *id);
	const struct sockaddr *(*get_peer_addr)(void *id);
};

extern const struct backend direct_backend, broker_backend;

/* sidebyside-scripts.c */

struct script {
	const char *name;
	/* "VERB ID ARGUMENT...; ..." Before a VERB that directly would end or block the program: "!". */
	const char *steps;
};

/*
 * Where the two differ, and are meant to. Each has to give exactly what is said here; then the reason
 * is printed in its place.
 */
struct exception {
	const char *script;
	const char *step;
	const char *direct, *broker;
	const char *reason;
};

extern const struct script scripts[];
extern const struct exception exceptions[];
