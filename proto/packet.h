/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* One packet of a SOCK_SEQPACKET socket, with its file descriptors. Written once, for both sides. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACKET_MAX 16384
#define PACKET_MAX_FDS 4 /* the most that any message carries */

/*
 * Receive a packet into BUF of PACKET_MAX bytes; never blocks. FDS gets its descriptors, CLOEXEC, the
 * caller's to close. Returns the length;
 *   -EAGAIN     nothing there
 *   -ECONNRESET the other side is gone
 *   -EMSGSIZE   the packet is too long
 *   -EBADMSG    more descriptors than allowed, or some were lost on the way: all are closed
 * and other errnos of recvmsg(2). After -EMSGSIZE and -EBADMSG the sender cannot be trusted.
 * An empty packet cannot be told from the end on such a socket: it is -ECONNRESET too.
 */
ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int fds[PACKET_MAX_FDS], size_t *ret_n_fds);

/* Send LEN bytes with N_FDS descriptors, which stay the caller's; never blocks, never raises SIGPIPE. */
int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);
