/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* One packet of a SOCK_SEQPACKET socket, with its file descriptors. Written once, for both sides. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACKET_MAX 16384
#define PACKET_MAX_FDS 4 /* the most that any message of ours carries */
#define PACKET_ALL_FDS 254 /* room for as many as the kernel lets anybody send, which is 253 */

/*
 * Receive a packet into BUF of PACKET_MAX bytes; never blocks. Returns the length;
 *   -EAGAIN     nothing there
 *   -ECONNRESET the other side is gone
 *   -EMSGSIZE   the packet is too long
 *   -EBADMSG    more descriptors came than MAX_FDS, or than this process may open
 * and other errnos of recvmsg(2). After -EMSGSIZE and -EBADMSG the sender cannot be trusted.
 * An empty packet cannot be told from the end on such a socket: it is -ECONNRESET too.
 *
 * Whatever is returned, FDS gets the *RET_N_FDS descriptors that came, CLOEXEC, the caller's to close. Closing
 * one can block for as long as its sender likes. What does not fit is closed by the kernel, within this call:
 * who cannot trust the sender has MAX_FDS at PACKET_ALL_FDS, and as many descriptors free. MAX_FDS is even.
 */
ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int *fds, size_t max_fds, size_t *ret_n_fds);

/* Nothing more goes over SOCK, in either direction; what has come stays in it, for packet_discard(). */
void packet_end(int sock);
/*
 * Take a packet out of SOCK, which was ended: 1, and FDS as above; 0: there is none left, empty ones included; or a
 * negative errno: it cannot be told.
 */
int packet_discard(int sock, int fds[PACKET_ALL_FDS], size_t *ret_n_fds);

/* Send LEN bytes with N_FDS descriptors, which stay the caller's; never blocks, never raises SIGPIPE. */
int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);

/*
 * Whether descriptors can be sent to SOCK at all, or to what connects to it where it listens. Linux before 6.16 lets
 * them pass always.
 */
void packet_pass_fds(int sock, bool pass);
