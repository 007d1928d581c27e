/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fake fabric: fabric.h without RDMA. Its ids find each other in memory, by their ports. Tests script what real
 * hardware does not do on demand: calls that fail, devices that are added or removed, QPs of other processes,
 * unexpected events.
 */

#include "fabric/fabric.h"

#define FAKE_DGID 0xd6 /* the value of each byte of every peer's GID */
#define FAKE_SGID 0x5a /* of each byte of the source GID */
#define FAKE_SL_OF_PEER 1 /* in the attributes for RTR */

enum fake_call {
	FAKE_ID_NEW,
	FAKE_BIND,
	FAKE_LISTEN,
	FAKE_RESOLVE_ADDR,
	FAKE_RESOLVE_ROUTE,
	FAKE_SET_PATH,
	FAKE_CONNECT,
	FAKE_ACCEPT,
	FAKE_ESTABLISH,
	FAKE_REJECT,
	FAKE_DISCONNECT,
	FAKE_SET_OPTION,
	FAKE_QP_ATTR,
	FAKE_QP_BELONGS,
	FAKE_LEASE_NEW,
	FAKE_NOTIFY,
	FAKE_JOIN,
	FAKE_LOOK,
	_FAKE_CALL_MAX,
};

/*
 * The next call of this kind fails with R, a negative errno. If the call's result is pending (fake_hold_lookups(),
 * fake_hold_leases()), R is that result.
 */
void fake_fail_next(struct fabric *fabric, enum fake_call call, int r);
/* Like fake_fail_next(), for the next N calls. */
void fake_fail_times(struct fabric *fabric, enum fake_call call, unsigned n, int r);
/* Returns the number of calls of this kind, including those that failed. */
unsigned fake_count(const struct fabric *fabric, enum fake_call call);

/* Sets the text that no_rdma_explain() returns. TEXT is not copied. NULL: RDMA can be used. */
void fake_set_no_rdma(const char *text);
/* true: the devices are of iWARP, and the port mapper does not run. */
void fake_set_port_mapper_missing(bool missing);

/* From now on a new fabric's events come by a descriptor, as the connection manager's do, and not in the next turn. */
void fake_come_by_descriptor(void);

struct fabric *fake_last(void);
/* New fabrics have N devices: "fake0", "fake1" and so on. Only "fake0" at first. */
void fake_start_with_devices(unsigned n);
void fake_add_device(struct fabric *fabric, const char *name);
/* Its ids get DEVICE_REMOVAL. */
void fake_remove_device(struct fabric *fabric, const char *name);

/* Sets the result of fabric_device_holders(). HOLDERS is copied; NULL: no result yet. */
void fake_set_holders(struct fabric *fabric, const char *name,
		      const struct fabric_holders *holders);

/* The next N connects are rejected with status 10 (stale connection). */
void fake_reject_stale(struct fabric *fabric, unsigned n);

/* Rejects have this status, as on iWARP, which has no reasons, and no reason for a missing listener. */
void fake_reject_as(struct fabric *fabric, int status);

void fake_fail_addresses(struct fabric *fabric, unsigned n, int status);

/* true: no id has paths, as with a daemon of an earlier version. */
void fake_hide_paths(struct fabric *fabric, bool hide);

/* QPN becomes a QP of another process. By default fabric_qp_belongs() succeeds for any QPN and any process. */
void fake_estrange_qp(struct fabric *fabric, uint32_t qpn);
/* From now on no QP has the number QPN; 0: this is undone. */
void fake_hide_qp(struct fabric *fabric, uint32_t qpn);
/* QPN is a target QP of XRC from now on. */
void fake_make_xrc_target(struct fabric *fabric, uint32_t qpn);
/* QPN belongs only to the process PID. */
void fake_give_qp(struct fabric *fabric, uint32_t qpn, pid_t pid);

/* Sends an event to the oldest id with the local port PORT. */
void fake_send_event(struct fabric *fabric, uint16_t port, enum rdma_cm_event_type type,
		     int status);

/*
 * true: look-ups of QP owners stay pending until a call with false. The result of a look-up is determined when the
 * look-up begins.
 */
void fake_hold_lookups(struct fabric *fabric, bool hold);
unsigned fake_n_lent_again(const struct fabric *fabric); /* calls of fabric_lend_again() */
enum fabric_access fake_last_access(const struct fabric *fabric); /* of the latest lease */
/* true: new leases stay pending until a call with false. */
void fake_hold_leases(struct fabric *fabric, bool hold);
/* From now on DEVICE cannot be opened, with the positive errno ERROR; 0: it can. */
void fake_break_device(struct fabric *fabric, const char *name, int error);
/* true: devices are being opened (fabric_is_opening()), and events are held, until a call with false. */
void fake_hold_devices(struct fabric *fabric, bool hold);
/*
 * Reports that an id with PORT was destroyed, but destroys none. After a bind that failed with -EINPROGRESS, the core
 * waits for this report.
 */
void fake_destroy_id(struct fabric *fabric, uint16_t port);

/* FUNCTION is called whenever an event was taken from the queue, before it is delivered. NULL: none. */
void fake_set_event_read(void (*function)(void));

/* After a call with true, events are held until a call with false. */
void fake_hold_events(struct fabric *fabric, bool hold);
/* The events that wait do not come any more, as those of an id whose device is removed. */
void fake_forget_events(struct fabric *fabric);
/* Sends the next N events although events are held. */
void fake_release_events(struct fabric *fabric, unsigned n);

void fake_send_event_to(struct fabric *fabric, struct fabric_id *id, enum rdma_cm_event_type type,
			int status);

/* Returns the value of OPTION on the oldest id with the local port PORT; -1: not set, or no id. */
int fake_get_option(struct fabric *fabric, uint16_t port, int option);
/* Returns the type of the QPs of the oldest id with the local port PORT; 0: not set. REQUEST: of a connection request. */
int fake_get_qp_type(struct fabric *fabric, uint16_t port, bool request);
int fake_get_backlog(struct fabric *fabric, uint16_t port);

/* true: fabrics are of InfiniBand, see ib.c, and not of Ethernet. */
void fake_be_infiniband(bool yes);
bool fake_is_infiniband(void);
/* The P_Key at INDEX of each port's table, in host order; 0: there is none. */
uint16_t fake_get_pkey(unsigned index);
/* The network device that has the host's IP address is in the partition of PKEY. */
void fake_set_pkey(uint16_t pkey);
void fake_set_lmc(unsigned n); /* of each port */
/* The GID of the host that has the address ADDR. */
void fake_gid_of(union ibv_gid *ret, const struct sockaddr *addr);
/* The subnet manager does not answer for the next N routes, so they end with -ETIMEDOUT. */
void fake_lose_subnet_manager(struct fabric *fabric, unsigned n);

unsigned fake_n_ids(const struct fabric *fabric);
