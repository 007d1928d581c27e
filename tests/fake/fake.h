/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The fake fabric: fabric.h without RDMA. Its ids find each other in memory, by the port alone. The event loop sends
 * its events, like the real ones, in the order in which they were caused. Tests can script what real hardware does
 * not do on demand: failures of single calls, devices that are added and removed, QPs of other processes, unexpected
 * events. A test on the fake fabric proves nothing about RDMA.
 */

#include "fabric/fabric.h"

#define FAKE_DGID 0xd6 /* the value of each byte of every peer's GID */

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

/*
 * The next call of this kind fails with R, a negative errno. If the result of the call is pending
 * (fake_hold_lookups(), fake_hold_leases()), R is that result.
 */
void fake_fail_next(struct fabric *fabric, enum fake_call call, int r);
/* Like fake_fail_next(), for the next N calls. */
void fake_fail_times(struct fabric *fabric, enum fake_call call, unsigned n, int r);
/* Returns the number of calls of this kind so far, including those that failed. */
unsigned fake_count(const struct fabric *fabric, enum fake_call call);

/* Sets the text that absence_explain() returns from now on. TEXT is not copied. NULL: RDMA can be used. */
void fake_set_absence(const char *text);

/* The fabric that was made last. */
struct fabric *fake_last(void);
/* WITHOUT: fabrics that are made from now on have no device; else they have "fake0". */
void fake_start_without_devices(bool without);
void fake_add_device(struct fabric *fabric, const char *name);
/* Removes the device. Its ids get DEVICE_REMOVAL. */
void fake_remove_device(struct fabric *fabric, const char *name);

/* Sets the result of fabric_device_holders() for the device. HOLDERS is copied; NULL: no result yet. */
void fake_set_holders(struct fabric *fabric, const char *name,
		      const struct fabric_holders *holders);

/* The next N calls of fabric_id_connect() lead to REJECTED with status 10 (stale connection). */
void fake_reject_stale(struct fabric *fabric, unsigned n);

/* The next N address resolutions end in ADDR_ERROR with STATUS. */
void fake_fail_addresses(struct fabric *fabric, unsigned n, int status);

/*
 * From now on QPN is a QP of another process. All other QPs belong to every process that fabric_qp_belongs() is
 * asked about, except those of fake_hide_qp() and fake_give_qp().
 */
void fake_estrange_qp(struct fabric *fabric, uint32_t qpn);
/* From now on there is no QP of number QPN; 0: all numbers are QPs again. */
void fake_hide_qp(struct fabric *fabric, uint32_t qpn);
/* From now on QPN belongs only to the process PID. */
void fake_give_qp(struct fabric *fabric, uint32_t qpn, pid_t pid);

/* Sends an event of the given type to the oldest id whose local port is PORT. */
void fake_send_event(struct fabric *fabric, uint16_t port, enum rdma_cm_event_type type,
		     int status);

/*
 * After a call with true, look-ups of QP owners are pending. After a call with false, the loop completes them in its
 * next turn, and new ones complete at once. The result of a look-up is determined when it begins.
 */
void fake_hold_lookups(struct fabric *fabric, bool hold);
/*
 * After a call with true, new leases are pending. After a call with false, the loop completes them in its next turn,
 * and new ones are granted at once.
 */
void fake_hold_leases(struct fabric *fabric, bool hold);
/*
 * After a call with true, devices are being opened, see fabric_is_opening(). This ends with a call with false.
 * Meanwhile events are held.
 */
void fake_hold_devices(struct fabric *fabric, bool hold);
/*
 * Makes the fabric report that an id with PORT was destroyed, but destroys none. If fake_fail_next() has made a bind
 * fail with -EINPROGRESS, the core waits for such a report before it repeats the bind.
 */
void fake_destroy_id(struct fabric *fabric, uint16_t port);

/* After a call with true, events are held until a call with false. */
void fake_hold_events(struct fabric *fabric, bool hold);
/* Lets the next N events pass, although events are held. */
void fake_release_events(struct fabric *fabric, unsigned n);

void fake_send_event_to(struct fabric *fabric, struct fabric_id *id, enum rdma_cm_event_type type,
			int status);

/* Returns the value to which OPTION was last set on the oldest id whose local port is PORT; -1: not set, or no id. */
int fake_get_option(struct fabric *fabric, uint16_t port, int option);
int fake_get_backlog(struct fabric *fabric, uint16_t port);

unsigned fake_n_ids(const struct fabric *fabric);
