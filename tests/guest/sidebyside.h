/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The interpreter of scripts, and its interface to librdmacm and librdmabroker. The types are those of rdma_cma.h. */

#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/patience.h"

#define DEADLINE_MS PATIENCE_MS /* for an expected event */
#define NONE_MS 15000 /* for one that does not come, by design */
#define RESOLVE_MS 10000 /* scripts also resolve what is not there */
/* Without an event for this time, "nothing" is reported. */
#define QUIET_MS 1000

#define PATHS_MAX 2

/* The event channels of a script. */
enum side {
	SIDE_PASSIVE,
	SIDE_ACTIVE,
	SIDE_WORKER,
	N_SIDES,
};

struct event {
	const char *type; /* the event's name without its prefix */
	int status;
	void *id;
	void *listen_id; /* only in a CONNECT_REQUEST */
	struct rdma_conn_param conn; /* without private data, which is in DATA */
	struct rdma_ud_param ud; /* without private data, which is in DATA */
	const void *join_context;
	uint8_t data[256];
	uint8_t data_len;
	/* only with librdmabroker, in ROUTE_RESOLVED and CONNECT_REQUEST */
	struct ibv_sa_path_rec paths[PATHS_MAX];
	unsigned n_paths;
};

struct route {
	union ibv_gid sgid, dgid;
	uint16_t pkey;
	uint8_t port_num;
	const struct ibv_sa_path_rec *paths;
	unsigned n_paths;
};

struct slot;

/* The functions that return an int, except get_fd, return 0 or a negative errno. */
struct backend {
	const char *name;
	uint16_t port_offset; /* added to all ports: both backends run at the same time */
	int (*open)(enum side side);
	void (*close)(enum side side);
	int (*get_fd)(enum side side);
	/* Returns -EAGAIN if there is no event. */
	int (*get_event)(enum side side, struct event *ret);

	/* WAIT: calls on the id wait for their result. */
	int (*create_id)(enum side side, bool wait, enum rdma_port_space ps, void **ret);
	int (*create_ep)(enum side side, bool passive, enum rdma_port_space ps,
			 enum ibv_qp_type type, const char *node, const char *service, void **ret);
	int (*destroy_id)(void *id);
	int (*migrate_id)(void *id, enum side side);
	int (*bind_addr)(void *id, struct sockaddr *addr);
	int (*listen)(void *id, int backlog);
	int (*get_request)(void *id, void **ret);
	int (*resolve_addr)(void *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(void *id, int timeout_ms);
	int (*set_path)(void *id, const struct ibv_path_record *path);
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

	/* NULL: no QP. */
	struct ibv_qp *(*get_qp)(void *id);
	struct ibv_context *(*get_verbs)(void *id);
	const struct sockaddr *(*get_local_addr)(void *id);
	const struct sockaddr *(*get_peer_addr)(void *id);
	int (*get_route)(const struct slot *slot, struct route *ret);
};

extern const struct backend direct_backend, broker_backend;

struct script {
	const char *name;
	/*
	 * "VERB ID ARGUMENT...; ...". A VERB after "!" is not run with librdmacm, where it would end or block the
	 * program.
	 */
	const char *steps;
};

enum exception_fabric {
	ON_BOTH,
	ON_IB, /* InfiniBand, RoCE */
	ON_IWARP,
};

/*
 * Intended differences between librdmacm and librdmabroker. If a step has the result that this table has for the
 * run's backend, the whole entry is printed instead, so that both runs print the same line.
 */
struct exception {
	const char *script;
	const char *step;
	const char *direct, *broker; /* patterns of fnmatch() */
	const char *reason;
	enum exception_fabric fabric;
};

extern const struct script scripts[];
extern const struct exception exceptions[];

extern const struct backend *backend;
extern const struct script *script;

#define MAX_ARGS 8
#define MAX_SLOTS 12
#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

struct text {
	char buf[1024];
	size_t n;
};

/* An id of a script. */
struct slot {
	char name[16];
	enum side side;
	enum rdma_port_space ps;
	void *id; /* NULL: none */
	struct ibv_cq *cq; /* of the QP that the library has made */
	struct ibv_pd *own_pd;
	struct ibv_cq *own_cq;
	struct ibv_qp *own_qp; /* a QP that the library does not know */
	/* only with librdmabroker: of the last event that had paths */
	struct ibv_sa_path_rec paths[PATHS_MAX];
	unsigned n_paths;
};

extern struct slot slots[MAX_SLOTS];
extern const char *const side_names[N_SIDES];

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void add(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t now_ms(void);
/* The name is valid until the next call. */
const char *error_name(int r);

/* NULL: no id has this name. */
struct slot *find_slot(const char *name);
struct slot *new_slot(const char *name);
const struct slot *slot_by_id(const void *id);
const char *name_of_id(const void *id);
struct ibv_qp *slot_qp(const struct slot *slot);
const char *name_of_qp(uint32_t qp_num);
void drop_qps(struct slot *slot);
int drop_slot(struct slot *slot);

/* From now on the port "kept" is that of ADDR. */
void keep_port(const struct sockaddr *addr);
/* TEXT: 10.9.0.1:7471, 10.9.0.1:kept, *:0, [fd09::1]:7471, a name from a table, or "unix" (another family). */
struct sockaddr *parse_addr(const char *text, struct sockaddr_storage *ret);
void get_gid(const struct sockaddr *addr, union ibv_gid *ret);
void add_addr(struct text *out, const struct sockaddr *addr);
void add_route(struct text *out, const struct route *route);
void add_qp_attr(struct text *out, const struct ibv_qp_attr *attr, int mask);
/*
 * Adds the next event of SIDE to OUT. A connection request's id gets the name REQUEST_NAME. take_event() returns
 * -EAGAIN without an event; await_event() waits, and returns -ETIMEDOUT.
 */
int take_event(enum side side, const char *request_name, struct text *out);
int await_event(enum side side, const char *request_name, int timeout_ms, struct text *out);
/*
 * Removes the event that was added to OUT after its first N characters, if it is a TIMEWAIT_EXIT: that comes when the
 * kernel's time is over, on a slow machine before a step or after it. Only the step event takes it. True: it was one.
 */
bool drop_timewait(struct text *out, size_t n);

struct step {
	char *words[MAX_ARGS]; /* NULL after the last word */
	unsigned n;
	bool may_time_out; /* by design, with this backend */
};

struct verb {
	const char *name;
	unsigned n_words; /* minimum number of words of a step, including the verb */
	int (*run)(const struct step *step, struct text *out);
};

extern const struct verb step_verbs[]; /* ends with an entry without a name */
