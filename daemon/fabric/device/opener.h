/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Opens each device as it appears, in a thread of its own, and then shows it to librdmacm (shown.h). Opening takes 10 to
 * 100 ms on a healthy adapter, and a minute on a sick one. An adapter that is still being set up refuses: its opening is
 * tried again, after pauses from 1 s to 5 min, until it succeeds or the device is gone.
 *
 *   listed ──> OPENING ──> OPEN ──> GONE ──> freed
 *                │  ^                ^
 *                v  │ pause          │
 *               FAILED ──────────────┘
 *
 * A device is gone when libibverbs does not list it any more. librdmacm keeps its context as long as an id is bound to it.
 * Unless the driver can take a device away from its users (Soft-RoCE cannot), `rdma link del` would wait for that. So the
 * descriptors of such a context are replaced by descriptors of /dev/null. librdmacm then uses them only to free a
 * protection domain, which fails and leaks a few bytes.
 *
 * Events of the contexts (a port is down, an adapter has failed) are read, because otherwise the kernel would keep them for
 * ever. Those that tell of a new LID have the ports' LMCs queried again, by a thread, as when the device was opened.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define OPENER_PORTS 8 /* of a device, whose LMC is known */

struct opener;

enum opener_state {
	OPENER_ABSENT, /* libibverbs does not list it: it is gone, not there yet, or another network namespace's */
	OPENER_OPENING, /* for the first time */
	OPENER_OPEN,
	OPENER_FAILED, /* and is tried again */
};

struct opener_status {
	enum opener_state state;
	bool is_iwarp;
	int error; /* FAILED: positive errno of the last try */
	uint64_t since_ms; /* FAILED: time of the first try that has failed, from clock_ms() */
	unsigned n_tries;
	uint8_t lmc[OPENER_PORTS]; /* OPEN: by the port's number, less 1; 0 if it is not known */
};

/* CHANGED is called from the loop when a device's state has changed, or opener_is_new() has become false. */
int opener_new(struct opener **ret, sd_event *loop, void (*changed)(void *userdata),
	       void *userdata);
struct opener *opener_free(struct opener *opener);
/* Call when devices were added or removed. */
void opener_look(struct opener *opener);
/*
 * True while devices are listed, or opened for the first time, but not for longer than a second: for so long it is better
 * to wait than to do without the new device.
 */
bool opener_is_new(const struct opener *opener);
bool opener_is_busy(const struct opener *opener); /* the same without the limit */
bool opener_has_iwarp(const struct opener *opener); /* a device of iWARP, open or not */
/* NAME: the kernel's name of the device's node, "uverbs0". */
void opener_get_status(const struct opener *opener, const char *name, struct opener_status *ret);
