/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What a service tells its manager, in the form of sd_notify(3). sd_notify() itself waits for as long as the manager
 * does not read: forever if systemd has frozen after a crash of its own. These functions do not wait.
 */

#include <stdbool.h>

/*
 * Returns a socket that is connected to the manager and writable when a message can be sent; -ENXIO: there is no
 * manager; or another negative errno.
 */
int sdnotify_open(void);
/*
 * Sends TEXT, with a copy of the descriptor FD unless it is -1. Returns 0; -EAGAIN: the manager has not read what it was
 * told before; or another negative errno.
 */
int sdnotify_send(int sock, const char *text, int fd);
/* R, of sdnotify_send(), is an error that can be over soon: too little memory, or too many descriptors on their way. */
bool sdnotify_is_shortage(int r);
