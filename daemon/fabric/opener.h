/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Has librdmacm open each device as it appears, in a thread: on a real adapter that takes 10 to 100 ms, and left
 * to librdmacm it would happen when the first id of the device is bound. Each is kept open, and its protection
 * domain with it, until it is gone.
 *
 * Devices that are gone are let go. The kernel waits for all who have a device open before it lets the device
 * go, if the driver cannot take it from them (Soft-RoCE cannot): `rdma link del` would hang until the daemon
 * ends. librdmacm keeps a device open for as long as an id is bound to it, and that of the last device of a host
 * even longer. So its descriptors are replaced by ones of /dev/null where the node has vanished. librdmacm
 * closes those when it next looks what devices there are. Until then it asks them for nothing but to free a
 * protection domain, which costs it a few bytes. A device that comes back, under the same name too, has another
 * index in the kernel and gets a context of its own.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct opener;

/* DONE is called from the loop after each look, of devices that had appeared before opener_look(). */
int opener_new(struct opener **ret, sd_event *loop, void (*done)(void *userdata), void *userdata);
struct opener *opener_free(struct opener *opener);
/* Devices have come or gone. MAY_OPEN: librdmacm can be called, see check_rdma_cm(). */
void opener_look(struct opener *opener, bool may_open);
/*
 * The thread runs: librdmacm has its mutex locked, and whatever binds an id to a device would wait for that. False
 * again before DONE is called.
 */
bool opener_is_running(const struct opener *opener);
/* Devices were looked for with MAY_OPEN. */
bool opener_has_looked(const struct opener *opener);
