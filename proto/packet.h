/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Packets of a SOCK_SEQPACKET socket, with their descriptors. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct mmsghdr;

#define PACKET_MAX 16384
#define PACKET_MAX_FDS 4 /* limit of packet_send(); the protocol's messages carry 1 at most */
#define PACKET_ALL_FDS 254 /* more than the kernel's limit for one packet, which is 253 */

/*
 * Receives a packet into BUF. Never blocks. Returns the length, or
 *
 *   -EAGAIN      there is no packet now
 *   -ECONNRESET  the peer has closed the socket, or the packet is empty: both look the same
 *   -EMSGSIZE    the packet is longer than PACKET_MAX
 *   -EBADMSG     there are more descriptors than MAX_FDS, or than this process may open
 *
 * or another errno of recvmsg(2). After -EMSGSIZE and -EBADMSG the sender cannot be trusted.
 *
 * In every case FDS gets the *RET_N_FDS descriptors that were received, with CLOEXEC. The caller has to close them.
 * MAX_FDS must be even, and at most PACKET_ALL_FDS.
 *
 * The kernel closes the descriptors that do not fit during this call, which can take as long as their sender likes.
 * So a caller that does not trust the sender has to set MAX_FDS to PACKET_ALL_FDS, and to keep as many descriptors
 * free.
 */
ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int *fds, size_t max_fds, size_t *ret_n_fds);

/*
 * For a caller that blocks in recvmmsg(2), where its thread can be cancelled: no function of this project is left then but
 * the caller. What recvmmsg(sock, &in->msg, 1, MSG_CMSG_CLOEXEC, NULL) has returned, and its errno, goes to
 * packet_received(), which returns the same as packet_recv(), or -EINTR. A thread can be cancelled between the end of the
 * system call and the return from the function: the packet has been received then if packet_was_received().
 */
struct packet_in {
	struct iovec iov;
	struct mmsghdr msg;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PACKET_MAX_FDS)];
};
void packet_prepare(struct packet_in *in, uint8_t buf[PACKET_MAX]);
ssize_t packet_received(struct packet_in *in, int n, int fds[PACKET_MAX_FDS], size_t *ret_n_fds);
static inline bool packet_was_received(const struct packet_in *in)
{
	return in->msg.msg_len > 0;
}

/*
 * As packet_recv(). The packet's first FIRST_LEN bytes are put into FIRST, the rest into REST, which has space for
 * PACKET_MAX bytes less FIRST_LEN. NOTE->msg_len must be 0: the system call that receives the packet sets it to the
 * packet's length. So if FIRST and NOTE are shared with another process, that process has the packet whenever this one
 * is killed.
 */
ssize_t packet_recv_noted(int sock, void *first, size_t first_len, void *rest, int *fds,
			  size_t max_fds, size_t *ret_n_fds, struct mmsghdr *note);

/* Ends communication over SOCK in both directions. Received packets stay in SOCK, for packet_discard(). */
void packet_end(int sock);
/*
 * Removes a packet from SOCK, after packet_end(). Sets FDS and *RET_N_FDS as packet_recv() does. Returns 1; 0: no
 * packet was left, not even an empty one; a negative errno: it is not known whether one is left.
 */
int packet_discard(int sock, int fds[PACKET_ALL_FDS], size_t *ret_n_fds);

/*
 * Sends LEN bytes with N_FDS descriptors, which stay the caller's. Never blocks, never raises SIGPIPE. Returns 0 or
 * a negative errno; -EAGAIN: the socket has no room now; -ECONNRESET: the peer has closed its socket.
 */
int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds);

/* As packet_send(). NOTE->msg_len must be 0: the system call that sends the packet sets it to LEN. NULL: no note. */
int packet_send_noted(int sock, const void *buf, size_t len, const int *fds, size_t n_fds,
		      struct mmsghdr *note);

/*
 * Sets whether descriptors can be sent to SOCK or, if SOCK listens, to sockets accepted from SOCK. No effect before
 * Linux 6.16.
 */
void packet_pass_fds(int sock, bool pass);
