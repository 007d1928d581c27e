/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Makes librdmacm open each device as it appears, in a thread. Opening takes 10 to 100 ms on a real adapter.
 * Otherwise librdmacm would open the device when the first id is bound to it. Each device stays open until it
 * is gone.
 *
 * Devices that are gone are released. librdmacm keeps a device open as long as an id is bound to it, and the
 * last device of a host even longer. Unless the driver can revoke a device from its users (Soft-RoCE cannot),
 * `rdma link del` would wait for librdmacm. So once the node has vanished, the device's descriptors are
 * replaced by descriptors of /dev/null. librdmacm closes them when it next looks for devices. Until then
 * librdmacm uses them only to free a protection domain, which fails and leaks a few bytes.
 */

#include <stdbool.h>
#include <systemd/sd-event.h>

struct opener;

/* DONE is called from the loop when the thread has finished and all calls of opener_look() are handled. */
int opener_new(struct opener **ret, sd_event *loop, void (*done)(void *userdata), void *userdata);
struct opener *opener_free(struct opener *opener);
/*
 * Starts the thread; if it runs, makes it run once more. Call when devices were added or removed. MAY_OPEN:
 * librdmacm can be called, see check_rdma_cm(). Devices are opened only after a call with MAY_OPEN.
 */
void opener_look(struct opener *opener, bool may_open);
/*
 * True while the thread runs. The thread can hold librdmacm's mutex, for which calls that bind an id to a
 * device would wait. False when DONE is called.
 */
bool opener_is_running(const struct opener *opener);
/* True after opener_look() was called with MAY_OPEN. */
bool opener_has_looked(const struct opener *opener);
