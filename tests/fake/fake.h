/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fake fabric: fabric.h without RDMA. Its ids find each other by address and port in memory, and its
 * events come from the event loop like the real ones, in a fixed order. What real hardware does not do at
 * will is scripted here: failures of single calls, devices that come and go, QPs of strangers, events out
 * of the blue. It proves nothing about RDMA.
 */

#include "fabric/fabric.h"

#define FAKE_DGID 0xd6 /* each byte of every peer's GID */

enum fake_call {
	FAKE_ID_NEW,
	FAKE_BIND,
	FAKE_LISTEN,
	FAKE_RESOLVE_ADDR,
	FAKE_RESOLVE_ROUTE,
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

/* The next call of this kind fails with R, a negative errno. */
void fake_fail_next(struct fabric *fabric, enum fake_call call, int r);
/* How often it was called, failures included. */
unsigned fake_count(const struct fabric *fabric, enum fake_call call);

/* What absence_explain() says from now on; not copied. NULL: nothing is missing. */
void fake_set_absence(const char *text);

void fake_add_device(struct fabric *fabric, const char *name);
/* Its ids get DEVICE_REMOVAL. */
void fake_remove_device(struct fabric *fabric, const char *name);

/* What fabric_device_holders() says of the device: a copy; NULL: nothing yet. */
void fake_set_holders(struct fabric *fabric, const char *name,
		      const struct fabric_holders *holders);

/* The next N connect requests are rejected as stale. */
void fake_reject_stale(struct fabric *fabric, unsigned n);

/* The next N address resolutions end in ADDR_ERROR with STATUS. */
void fake_fail_addresses(struct fabric *fabric, unsigned n, int status);

/* From now on QPN belongs to nobody known; all others belong to whoever asks. */
void fake_estrange_qp(struct fabric *fabric, uint32_t qpn);
/* From now on QPN belongs to the process PID alone. */
void fake_give_qp(struct fabric *fabric, uint32_t qpn, pid_t pid);

/* An event of the given type for the id that listens on, or is bound to, PORT. */
void fake_send_event(struct fabric *fabric, uint16_t port, enum rdma_cm_event_type type,
		     int status);

/* routes_changed is told from the loop, before the events that are on their way, held or not. */
void fake_change_routes(struct fabric *fabric);
/* What fabric_knows_routes() says: true from the start. */
void fake_set_knows_routes(struct fabric *fabric, bool knows);

/*
 * From now on whose a QP is takes more than a turn: until this is called with false. Else it is known at once. It is
 * found out when it is asked.
 */
void fake_hold_lookups(struct fabric *fabric, bool hold);
/* Likewise leases. */
void fake_hold_leases(struct fabric *fabric, bool hold);
/* Likewise devices: what fabric_is_opening() says. Events are held too. */
void fake_hold_devices(struct fabric *fabric, bool hold);
/* An id that had PORT is destroyed. A bind waits for it that was told to fail with -EINPROGRESS. */
void fake_destroy_id(struct fabric *fabric, uint16_t port);

/* Events wait until this is called with false. */
void fake_hold_events(struct fabric *fabric, bool hold);
/* N of those that wait come nevertheless. */
void fake_release_events(struct fabric *fabric, unsigned n);

void fake_send_event_to(struct fabric *fabric, struct fabric_id *id, enum rdma_cm_event_type type,
			int status);

/* The options last set on the id bound to PORT; -1: not set. */
int fake_get_option(struct fabric *fabric, uint16_t port, int option);
int fake_get_backlog(struct fabric *fabric, uint16_t port);

unsigned fake_n_ids(const struct fabric *fabric);
