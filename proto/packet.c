/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "proto/packet.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* since Linux 6.16; older kernel headers lack it */
#endif

union control {
	char buf[CMSG_SPACE(sizeof(int) * PACKET_ALL_FDS) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

/*
 * Copies the received descriptors to FDS. The kernel fills the control buffer, and CMSG_SPACE() rounds its size up to
 * an even number of descriptors. So FDS must have space for an even number.
 */
static size_t collect_fds(struct msghdr *msg, int *fds)
{
	struct cmsghdr *c;
	size_t n = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t len;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		len = c->cmsg_len - CMSG_LEN(0);
		memcpy(fds + n, CMSG_DATA(c), len);
		n += len / sizeof(int);
	}
	return n;
}

static ssize_t receive(int sock, struct msghdr *msg, struct mmsghdr *note)
{
	const int flags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
	ssize_t n;

	do {
		if (note) {
			note->msg_hdr = *msg;
			n = recvmmsg(sock, note, 1, flags, NULL);
			*msg = note->msg_hdr;
		} else {
			n = recvmsg(sock, msg, flags);
		}
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return note ? (ssize_t)note->msg_len : n;
}

/* LEN bytes were received by MSG. */
static ssize_t check_packet(struct msghdr *msg, ssize_t len, int *fds, size_t *ret_n_fds)
{
	*ret_n_fds = collect_fds(msg, fds);
	if (msg->msg_flags & MSG_CTRUNC)
		return -EBADMSG;
	if (msg->msg_flags & MSG_TRUNC)
		return -EMSGSIZE;
	return len == 0 ? -ECONNRESET : len;
}

static ssize_t receive_into(int sock, struct iovec *iov, size_t n_iov, int *fds, size_t max_fds,
			    size_t *ret_n_fds, struct mmsghdr *note)
{
	union control control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = n_iov,
		.msg_control = control.buf,
		.msg_controllen = CMSG_SPACE(sizeof(int) * max_fds),
	};
	ssize_t len;

	*ret_n_fds = 0;
	if (max_fds % 2 != 0 || max_fds > PACKET_ALL_FDS)
		return -EINVAL;
	len = receive(sock, &msg, note);
	return len < 0 ? len : check_packet(&msg, len, fds, ret_n_fds);
}

ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int *fds, size_t max_fds, size_t *ret_n_fds)
{
	struct iovec iov = { .iov_base = buf, .iov_len = PACKET_MAX };

	return receive_into(sock, &iov, 1, fds, max_fds, ret_n_fds, NULL);
}

void packet_prepare(struct packet_in *in, uint8_t buf[PACKET_MAX])
{
	in->iov = (struct iovec){ .iov_base = buf, .iov_len = PACKET_MAX };
	in->msg = (struct mmsghdr){ .msg_hdr = {
					    .msg_iov = &in->iov,
					    .msg_iovlen = 1,
					    .msg_control = in->control,
					    .msg_controllen = sizeof(in->control),
				    } };
}

ssize_t packet_received(struct packet_in *in, int n, int fds[PACKET_MAX_FDS], size_t *ret_n_fds)
{
	*ret_n_fds = 0;
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return check_packet(&in->msg.msg_hdr, (ssize_t)in->msg.msg_len, fds, ret_n_fds);
}

ssize_t packet_recv_noted(int sock, void *first, size_t first_len, void *rest, int *fds,
			  size_t max_fds, size_t *ret_n_fds, struct mmsghdr *note)
{
	struct iovec iov[] = { { .iov_base = first, .iov_len = first_len },
			       { .iov_base = rest, .iov_len = PACKET_MAX - first_len } };

	return receive_into(sock, iov, 2, fds, max_fds, ret_n_fds, note);
}

void packet_end(int sock)
{
	const int yes = 1;
	int error;
	socklen_t len = sizeof(error);

	shutdown(sock, SHUT_RDWR);
	/*
	 * Now recvmsg() returns credentials with each packet, even an empty one, but none at the end of the stream.
	 */
	setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	/* Clear the socket error, which recvmsg() would return before the packets. */
	getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &len);
}

int packet_discard(int sock, int fds[PACKET_ALL_FDS], size_t *ret_n_fds)
{
	union control control;
	struct msghdr msg = {
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t len;

	*ret_n_fds = 0;
	len = receive(sock, &msg, NULL);
	if (len < 0)
		return (int)len;
	*ret_n_fds = collect_fds(&msg, fds);
	if (msg.msg_flags & MSG_CTRUNC)
		return -EBADMSG;
	return CMSG_FIRSTHDR(&msg) != NULL;
}

int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds)
{
	return packet_send_noted(sock, buf, len, fds, n_fds, NULL);
}

int packet_send_noted(int sock, const void *buf, size_t len, const int *fds, size_t n_fds,
		      struct mmsghdr *note)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PACKET_MAX_FDS)];
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (len == 0 || len > PACKET_MAX || n_fds > PACKET_MAX_FDS)
		return -EINVAL;
	if (n_fds > 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		memset(control, 0, msg.msg_controllen);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}

	if (note)
		note->msg_hdr = msg;
	do {
		n = note ? sendmmsg(sock, note, 1, flags) : sendmsg(sock, &msg, flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : errno == EPIPE ? -ECONNRESET : -errno;
	return 0;
}

void packet_pass_fds(int sock, bool pass)
{
	int value = pass;

	setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof(value));
}
