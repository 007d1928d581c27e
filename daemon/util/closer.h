/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Closes descriptors that clients can influence, in threads instead of the event loop. close() of a
 * descriptor that a client sent, or of a socket whose unread packets contain such descriptors, can block for
 * as long as the client likes: examples are a TCP socket with SO_LINGER whose peer does not read, or a file
 * of a FUSE file system that does not respond.
 *
 * Each class (enum closer_class) has a few threads of its own, shared by all users; at most one of them at a
 * time works for a given user. Clients that are not admitted yet are a class of their own, with fewer
 * threads, so that they cannot hold up admitted clients. Sockets without unread descriptors are another
 * class, so that many users who each block one thread cannot hold up users who send no descriptors. A
 * descriptor that waits to be closed stays open and charged to its user.
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
	CLOSER_STRANGER,
	CLOSER_ADMITTED,
	CLOSER_EMPTY, /* sockets without unread descriptors, of any client */
	_CLOSER_CLASS_MAX,
};

struct closer;
struct closing; /* descriptors of one user that are closed together */

int closer_new(struct closer **ret, sd_event *loop, struct account *account);
/*
 * Waits until all descriptors are closed, for a few seconds at most, and frees CLOSER. If a thread is stuck for
 * longer, its descriptors and CLOSER are left as they are until the process ends. Takes NULL; returns NULL.
 */
struct closer *closer_free(struct closer *closer);
/*
 * True if UID has more than CLOSER_MANY descriptors that wait to be closed. Then the caller must not read requests
 * of UID.
 */
bool closer_is_behind(const struct closer *closer, uid_t uid);
/* CAUGHT_UP is called when closer_is_behind() has become false for some user. NULL: no callback. */
void closer_set_caught_up(struct closer *closer, void (*caught_up)(void *userdata), void *userdata);
/* number of descriptors of all users that wait to be closed */
unsigned closer_n_waiting(const struct closer *closer);

/*
 * Creates a closing with room for MAX descriptors. It has to be bound to a user before descriptors are added. Returns
 * 0 or -ENOMEM.
 */
int closing_new(struct closing **ret, struct closer *closer, size_t max);
/*
 * Binds CLOSING to UID and CLASS, in place of the binding that it had, if any. Returns 0; or -ENOMEM, and the binding
 * is unchanged. -ENOMEM is possible only if no closing is bound to the same UID and CLASS.
 */
int closing_bind(struct closing *closing, uid_t uid, enum closer_class class);
bool closing_is_bound(const struct closing *closing);
/* CLOSING takes ownership of FD, which is charged to the user as ACCOUNT_FDS until it is closed. */
void closing_add(struct closing *closing, int fd);
/* Closes the descriptors that were added, as soon as a thread is available, and frees CLOSING. Returns NULL. */
struct closing *closing_go(struct closing *closing);
/* Frees a closing to which no descriptor was added. Takes NULL; returns NULL. */
struct closing *closing_free(struct closing *closing);
