/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Packets of a SOCK_SEQPACKET socket, with their file descriptors. Used by the daemon and the library. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACKET_MAX 16384
#define PACKET_MAX_FDS 4 /* limit of packet_send(); messages of the protocol carry 1 */
#define PACKET_ALL_FDS 254 /* more than the kernel's limit for one packet, which is 253 */

/*
 * Receive a packet into BUF of PACKET_MAX bytes; never blocks. Returns the length, or
 *
 *    -EAGAIN     there is nothing to receive
 *    -ECONNRESET the peer has closed the socket
 *    -EMSGSIZE   the packet is too long
 *    -EBADMSG    there are more descriptors than MAX_FDS, or than this process may open
 *
 * or another errno of recvmsg(2). After -EMSGSIZE and -EBADMSG the sender cannot be trusted. On such a socket an
 * empty packet cannot be distinguished from the end of the stream: it is -ECONNRESET too.
 *
 * In every case FDS gets the *RET_N_FDS descriptors that were received, with CLOEXEC; the caller has to close
 * them. To close one can block for as long as its sender likes. Descriptors that do not fit are closed by the
 * kernel within this call. So a caller that does not trust the sender needs a MAX_FDS of PACKET_ALL_FDS, and as
 * many unused descriptors. MAX_FDS must be even.
 */
ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int *fds, size_t max_fds, size_t *ret_n_fds);

/* Ends communication over SOCK in both directions; packets received before stay in it, for packet_discard(). */
void packet_end(int sock);
/*
 * Remove a packet from SOCK, after packet_end(). 1: removed, and FDS as above; 0: no packet is left, not even an
 * empty one; negative errno: it is not known whether one is left.
 */
int packet_discard(int sock, int fds[PACKET_ALL_FDS], size_t *ret_n_fds);

/* Send LEN bytes with N_FDS descriptors, which stay the caller's; never blocks, never raises SIGPIPE. */
int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);

/*
 * Sets whether descriptors can be sent to SOCK or, if it listens, to sockets accepted from it. Before Linux 6.16
 * they can always be sent.
 */
void packet_pass_fds(int sock, bool pass);
