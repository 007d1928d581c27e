/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Closes descriptors in threads, because a client can make close() block for as long as it likes. Examples
 * are a TCP socket with SO_LINGER whose peer does not read, and a file of a FUSE file system that does not
 * respond. The close() of a Unix socket also closes the descriptors in unread packets.
 *
 * Each class has a few threads of its own, so that clients whose descriptors block hold up only their class.
 * At most one thread of a class works for a user at a time. A descriptor that waits to be closed stays open
 * and charged to its user.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "util/account.h"

#define CLOSER_THREADS 16
#define CLOSER_THREADS_FOR_STRANGERS 4
#define CLOSER_THREADS_FOR_EMPTY 2
/* While a user has more descriptors waiting than this, its requests are not read. */
#define CLOSER_MANY 256

enum closer_class {
	CLOSER_STRANGER, /* clients that are not admitted yet */
	CLOSER_ADMITTED,
	CLOSER_EMPTY, /* sockets without unread descriptors, of any client */
	_CLOSER_CLASS_MAX,
};

struct closer;
struct closing; /* descriptors that are closed together */

int closer_new(struct closer **ret, sd_event *loop, struct account *account);
/*
 * Waits until all descriptors are closed, for a few seconds at most, and frees CLOSER. If a thread is stuck,
 * its descriptors and CLOSER stay until the process ends. Takes NULL; returns NULL.
 */
struct closer *closer_free(struct closer *closer);
/* True if OWNER has more than CLOSER_MANY descriptors that wait to be closed. */
bool closer_is_behind(const struct closer *closer, struct owner owner);
/* CAUGHT_UP is called when closer_is_behind() has become false for a user. NULL: none. */
void closer_set_caught_up(struct closer *closer, void (*caught_up)(void *userdata), void *userdata);
/* number of descriptors that wait to be closed, of all users */
unsigned closer_n_waiting(const struct closer *closer);

/*
 * MAX: number of descriptors for which there is room. Call closing_bind() before closing_add(). Returns 0 or
 * -ENOMEM.
 */
int closing_new(struct closing **ret, struct closer *closer, size_t max);
/*
 * Binds CLOSING to OWNER and CLASS, in place of an earlier binding. Returns 0; or -ENOMEM, and the binding is
 * unchanged. -ENOMEM is possible only if no closing is bound to the same OWNER and CLASS.
 */
int closing_bind(struct closing *closing, struct owner owner, enum closer_class class);
bool closing_is_bound(const struct closing *closing);
/* Takes ownership of FD, which is charged to the user as ACCOUNT_FDS until it is closed. */
void closing_add(struct closing *closing, int fd);
/* Closes the descriptors in a thread, and frees CLOSING. Returns NULL. */
struct closing *closing_go(struct closing *closing);
/* CLOSING must have no descriptors. Takes NULL; returns NULL. */
struct closing *closing_free(struct closing *closing);
