/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The clients' sockets, stored for the next process. A client whose socket is kept does not notice that the daemon ends
 * and starts again: what it sends meanwhile waits in the socket.
 *
 * systemd's store is made for a few descriptors, and there can be thousands of clients. So the socket store is one
 * descriptor: the receiving end of a Unix socket, with the sockets of the clients in messages that nobody receives,
 * until the next process does.
 *
 *   store ── "vault-N" ── message: number and descriptors of a session
 *                      └─ message: ... of many sessions
 *
 * A message cannot be taken out again. So the socket store also keeps the sockets of sessions that have ended. When
 * these are many, or the queue is full, a new socket store is made, with the sessions that still exist, many of them in
 * each message. The new socket store is stored before the old one is removed.
 *
 * The kernel counts the descriptors in messages against RLIMIT_NOFILE of the daemon, so a socket store has at most a
 * quarter of that number. A session that does not fit any more is not kept: it ends with the process, as it would
 * without a socket store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fdstore;
struct socketstore;

#define SOCKETSTORE_FDS 2 /* most descriptors of one session */

/* The descriptors of one session. */
struct socketstore_entry {
	uint64_t number; /* the session's number, from 1 */
	int fds[SOCKETSTORE_FDS];
	unsigned n_fds;
};

/*
 * CLOSE_LATER gets descriptors whose closing could block, because the unread descriptors of a client are closed with
 * them.
 */
int socketstore_new(struct socketstore **ret, struct fdstore *store,
		    void (*close_later)(void *userdata, int fd), void *userdata);
/* What is stored stays stored. */
struct socketstore *socketstore_free(struct socketstore *socketstore);

/*
 * Keeps FDS, which stay the caller's and open until socketstore_drop(). Returns 0, or a negative errno: the session is
 * not kept. Without a store, does nothing and returns 0.
 */
int socketstore_put(struct socketstore *socketstore, uint64_t number, const int *fds,
		    unsigned n_fds);
/* What an error of socketstore_put() means. */
const char *socketstore_strerror(int r);
/* To be called before the descriptors of the session are closed. */
void socketstore_drop(struct socketstore *socketstore, uint64_t number);

/*
 * Calls FOUND for each session that the previous process has put in, also for some that had ended. A session can be
 * found more than once. The descriptors become FOUND's. To be called before the first socketstore_put(). Returns 0 or a
 * negative errno: then not all sessions were found.
 */
int socketstore_open(struct socketstore *socketstore,
		     void (*found)(void *userdata, const struct socketstore_entry *entry),
		     void *userdata);
/* Removes the socket stores of the previous process. To be called when all that is still needed was put in again. */
void socketstore_forget_old(struct socketstore *socketstore);
/* Removes this socket store, so that the sockets are not kept any more. */
void socketstore_forget(struct socketstore *socketstore);
