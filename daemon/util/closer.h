/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Closes what clients have touched, off the event loop. close() of a descriptor that a client sent, or of a
 * socket whose unread packets carry some, can block for as long as the client likes: a TCP socket with
 * SO_LINGER whose peer does not read, a file of a FUSE file system that does not answer.
 *
 * Each user has one thread at a time, of a few for all. Who was not admitted yet gets one of fewer, so that
 * strangers cannot hold up the users. Sockets in which nothing can be left to close have threads of their own, so that
 * many who each hold up one thread cannot hold up those who send no descriptors. What waits to be closed stays open and
 * charged to its user.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "util/account.h"

#define CLOSER_THREADS 16
#define CLOSER_THREADS_FOR_STRANGERS 4
#define CLOSER_THREADS_FOR_EMPTY 2
/* A user who has more than this waiting is read no further. */
#define CLOSER_MANY 256

enum closer_class {
	CLOSER_STRANGER,
	CLOSER_ADMITTED,
	CLOSER_EMPTY, /* a socket without unread descriptors */
	_CLOSER_CLASS_MAX,
};

struct closer;
struct closing; /* descriptors of one user that are to be closed together */

int closer_new(struct closer **ret, sd_event *loop, struct account *account);
/* Waits a few seconds for what is stuck, then leaves it to the end of the process. */
struct closer *closer_free(struct closer *closer);
/* UID has many descriptors waiting to be closed: take no more from it. */
bool closer_is_behind(const struct closer *closer, uid_t uid);
/* CAUGHT_UP is called when that has become false for some user. NULL: nobody wants to know. */
void closer_set_caught_up(struct closer *closer, void (*caught_up)(void *userdata), void *userdata);
unsigned closer_n_waiting(const struct closer *closer); /* descriptors, of all users */

/* Room for MAX descriptors. It has to be bound to a user before closing_go(). 0 or -ENOMEM. */
int closing_new(struct closing **ret, struct closer *closer, size_t max);
/*
 * It is UID's from now on, and of this class; it may be bound again. 0, or -ENOMEM, which can only be where no
 * other closing is bound to the same user in the same way; then it is bound as it was.
 */
int closing_bind(struct closing *closing, uid_t uid, enum closer_class class);
bool closing_is_bound(const struct closing *closing);
/* FD is taken over, and charged to the user as ACCOUNT_FDS until it is closed. */
void closing_add(struct closing *closing, int fd);
/* Close what was added, as soon as there is a thread for it. Returns NULL. */
struct closing *closing_go(struct closing *closing);
/* For one that nothing was added to. Takes NULL; returns NULL. */
struct closing *closing_free(struct closing *closing);
