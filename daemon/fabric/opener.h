/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes librdmacm open each device as it appears, in a thread. On a real adapter that takes 10 to 100 ms, and
 * librdmacm would otherwise do it when the first id is bound to the device. Each device, and its protection
 * domain, is kept open until the device is gone.
 *
 * Devices that are gone are released. If the driver cannot revoke a device from its users (Soft-RoCE cannot),
 * the kernel waits until nobody has the device open: `rdma link del` would hang until the daemon ends.
 * librdmacm keeps a device open as long as an id is bound to it, and the last device of a host even longer.
 * So once the node has vanished, the device's descriptors are replaced by descriptors of /dev/null. librdmacm
 * closes these when it next looks for devices. Until then it uses them only to free a protection domain,
 * which fails and leaks a few bytes. A device that comes back, even under the same name, has another index in
 * the kernel and gets a context of its own.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct opener;

/* DONE is called from the loop when the thread has finished and no call of opener_look() is still to be handled. */
int opener_new(struct opener **ret, sd_event *loop, void (*done)(void *userdata), void *userdata);
struct opener *opener_free(struct opener *opener);
/*
 * Starts the thread; if the thread runs, makes it run once more. Call when devices were added or removed. Devices are
 * opened only if MAY_OPEN was true in this or an earlier call: librdmacm can be called, see check_rdma_cm().
 */
void opener_look(struct opener *opener, bool may_open);
/*
 * True while the thread runs. The thread can hold librdmacm's mutex, for which calls that bind an id to a
 * device would wait. Before DONE is called, it is false again.
 */
bool opener_is_running(const struct opener *opener);
/* True if opener_look() was ever called with MAY_OPEN. */
bool opener_has_looked(const struct opener *opener);
