/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Packets of a SOCK_SEQPACKET socket, with their file descriptors. Used by the daemon and the library. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PACKET_MAX 16384
#define PACKET_MAX_FDS 4 /* limit of packet_send(); the protocol's messages carry 1 at most */
#define PACKET_ALL_FDS 254 /* more than the kernel's limit for one packet, which is 253 */

/*
 * Receives a packet into BUF of PACKET_MAX bytes; never blocks. Returns the length, or
 *
 *    -EAGAIN     there is nothing to receive
 *    -ECONNRESET the peer has closed the socket
 *    -EMSGSIZE   the packet is too long
 *    -EBADMSG    there are more descriptors than MAX_FDS, or than this process may open
 *
 * or another errno of recvmsg(2). After -EMSGSIZE and -EBADMSG the sender cannot be trusted. For an empty packet
 * packet_recv() returns -ECONNRESET too, because it cannot be distinguished from the end of the stream.
 *
 * In every case FDS gets the *RET_N_FDS descriptors that were received, with CLOEXEC; the caller has to close
 * them. If a packet has more descriptors than MAX_FDS, or than this process may open, the kernel closes the rest
 * during this call. Closing a descriptor can block for as long as its sender likes. So a caller that does not trust
 * the sender has to set MAX_FDS to PACKET_ALL_FDS, and has to be able to open as many more descriptors. MAX_FDS must
 * be even, and at most PACKET_ALL_FDS.
 */
ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int *fds, size_t max_fds, size_t *ret_n_fds);

/*
 * Ends communication over SOCK in both directions. Packets that were received before stay in SOCK, for
 * packet_discard().
 */
void packet_end(int sock);
/*
 * Removes a packet from SOCK, after packet_end(). Sets FDS and *RET_N_FDS as packet_recv() does. Returns 1: a
 * packet was removed; 0: no packet is left, not even an empty one; a negative errno: it is not known whether one
 * is left.
 */
int packet_discard(int sock, int fds[PACKET_ALL_FDS], size_t *ret_n_fds);

/*
 * Sends LEN bytes with N_FDS descriptors, which stay the caller's. Never blocks, never raises SIGPIPE. Returns 0 or
 * a negative errno; -EAGAIN: the socket has no room now; -ECONNRESET: the peer has closed its socket.
 */
int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);

/*
 * Sets whether descriptors can be sent to SOCK or, if SOCK listens, to the sockets accepted from it. Before Linux
 * 6.16 this has no effect, and descriptors can always be sent.
 */
void packet_pass_fds(int sock, bool pass);
