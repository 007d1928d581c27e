/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include "proto/addr.h"
#include "tests/fake/fake.h"
#include "util/hot.h"
#include "util/list.h"

#define N_OPTIONS 4
#define FAKE_IP 0x0a090001 /* 10.9.0.1, the address of this host */

struct fabric_device {
	struct list link; /* fabric.devices */
	uint64_t number;
	struct fabric *fabric;
	char *name, *node;
	unsigned n_leases;
	unsigned n_refs; /* held by leases, and by the fabric until the device is removed */
	bool announced;
	int error; /* see fake_break_device() */
	uint64_t since_ms;
	struct fabric_holders *holders;
};

struct fabric_lease {
	struct list link; /* fabric.leases, while the lease is pending */
	struct fabric_device *device;
	fabric_answer_fn done;
	void *userdata;
	int answer;
	struct fabric_loan loan; /* if there is a lender */
};

struct pending {
	struct list link; /* fabric.pending */
	struct fabric_id *id; /* NULL: the id was freed */
	struct fabric_event event;
};

struct fabric {
	const struct fabric_ops *ops;
	void *userdata;
	sd_event_source *source;
	struct hot *hot; /* NULL: SOURCE is used, and not WAKE */
	struct hot_io io; /* watches WAKE */
	int wake; /* an eventfd */
	bool awake; /* WAKE is readable */
	struct list devices; /* fabric_device.link */
	uint64_t last_device; /* number of the newest device */
	struct list ids; /* fabric_id.link */
	struct list pending; /* pending.link */
	struct list lookups; /* fabric_lookup.link */
	bool holds_lookups;
	struct list leases; /* fabric_lease.link */
	bool holds_leases;
	enum fabric_access last_access; /* of the latest lease */
	const struct fabric_lender *lender; /* NULL: none */
	void *lender_userdata;
	unsigned n_lent_again; /* calls of fabric_lend_again() */
	/* devices are being opened; or are open, but can_go_on was not called yet */
	bool is_opening, is_open;
	in_port_t freed_port; /* the port that can_go_on will report, in network order; 0: none */
	unsigned n_ids;
	struct list all; /* in the list of all fake fabrics of this process */
	uint32_t *reading; /* see fabric_note_reading(); NULL: not needed */
	int file; /* stands for the file of the connection manager; -1: not open */
	uint32_t stranger;
	uint32_t hidden;
	uint32_t xrc_target;
	uint32_t given_qpn;
	pid_t owner; /* the process of GIVEN_QPN; 0: no QPN was given */
	unsigned n_stale;
	int reject_status; /* of rejects; 0: those of InfiniBand */
	bool holds_events;
	bool hides_paths;
	unsigned n_released; /* number of held events to send */
	unsigned n_addr_errors;
	int addr_error;
	unsigned n_route_errors;
	uint16_t last_port;
	int fail[_FAKE_CALL_MAX];
	unsigned n_fail[_FAKE_CALL_MAX]; /* number of calls that fail with FAIL */
	unsigned count[_FAKE_CALL_MAX];
};

struct fabric_id {
	struct list link; /* fabric.ids */
	struct fabric *fabric;
	struct owner owner;
	fabric_event_fn on_event;
	void *userdata;
	struct fabric_id_info info;
	struct fabric_id *peer; /* the other end of the connection; NULL: none yet, or no longer */
	uint32_t qpn; /* that its user has named; 0: none yet */
	bool listening, connected, answered;
	bool is_notified; /* got ESTABLISHED already, because of fabric_id_notify() */
	bool is_request; /* began as a connection request, so its port is the listener's */
	/* made by another fake fabric, and nobody has taken it over yet */
	bool is_left;
	bool is_inherited; /* taken over */
	bool is_gone; /* taken over, but no fabric had such an id */
	int backlog;
	int options[N_OPTIONS];
	struct ibv_ece local_ece;
	enum rdma_port_space ps;
	enum ibv_qp_type qp_type;
	bool is_datagram;
	bool is_routed;
	bool is_told; /* ROUTE_RESOLVED was delivered */
	bool has_path; /* PATH was set, and is the route */
	struct ibv_sa_path_rec path;
};

/* Counts the call. Returns its scripted failure, or 0. */
int fake_outcome(struct fabric *fabric, enum fake_call which);
/* The loop does the pending work in its next turn. */
void fake_kick(struct fabric *fabric);
void fake_deliver(struct fabric *fabric); /* the events that wait */
void fake_post(struct fabric_id *id, enum rdma_cm_event_type type, int status,
	       struct fabric_id *request, const struct rdma_conn_param *conn);
/* Returns the oldest id with the local port PORT, in network order; NULL: none. LISTENING: only listeners. */
struct fabric_id *fake_find_port(struct fabric *fabric, in_port_t port, bool listening);

/* Not by addr_port(): what the fake fabric does for its lists must not count as the product's work. */
static inline in_port_t fake_port(const struct sockaddr_storage *addr)
{
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;

	if (ib->sib_family != AF_IB)
		return ((const struct sockaddr_in *)addr)
			->sin_port; /* at the same offset in IPv6 */
	return htons((uint16_t)be64toh(ib->sib_sid & ib->sib_sid_mask));
}

/* ib.c */
/* The address of this host, without a service. */
void fake_local_ib(struct sockaddr_ib *ret);
/* Whether an id can have the address ADDR, or reach it. Returns 0 or -ENODEV. */
int fake_check_ib(const struct sockaddr *addr, bool local);
void fake_learn_gids(struct fabric_id *id);
void fake_learn_pkey(struct fabric_id *id);
/* Where the P_Key of ID is in the port's table. */
uint16_t fake_pkey_index(const struct fabric_id *id);
void fake_set_path_gids(const struct fabric_id *id, struct ibv_sa_path_rec *path);

void fake_drop_event(void *userdata, struct fabric_event *event);
struct fabric_id *fake_id_new(struct fabric *fabric, struct owner owner, enum rdma_port_space ps);

struct fabric_join *fake_join(struct fabric_id *id, void *userdata);

/* restored.c */
void fake_enlist(struct fabric *fabric);
void fake_delist(struct fabric *fabric);
/* Opens the connection manager if it is not open. */
void fake_open(struct fabric *fabric);
