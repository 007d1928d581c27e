/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/packet.h"

union control {
	char buf[CMSG_SPACE(sizeof(int) * PACKET_MAX_FDS)];
	struct cmsghdr align;
};

/*
 * The kernel installs as many descriptors as fit into the control buffer and cuts the rest: all that came
 * must be found and closed, whatever else is wrong with the packet. CMSG_SPACE rounds up, so one more
 * than PACKET_MAX_FDS can fit.
 */
static size_t collect_fds(struct msghdr *msg, int *fds, size_t max)
{
	struct cmsghdr *c;
	size_t n = 0;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t len;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		len = c->cmsg_len - CMSG_LEN(0);
		for (size_t i = 0; i + sizeof(int) <= len; i += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i, sizeof(fd));
			if (n < max)
				fds[n] = fd;
			else
				close(fd);
			n++;
		}
	}
	return n;
}

ssize_t packet_recv(int sock, uint8_t buf[PACKET_MAX], int fds[PACKET_MAX_FDS], size_t *ret_n_fds)
{
	struct iovec iov = { .iov_base = buf, .iov_len = PACKET_MAX };
	union control control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	size_t n_fds;
	ssize_t len;
	int r;

	do {
		len = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (len < 0 && errno == EINTR);
	if (len < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;

	n_fds = collect_fds(&msg, fds, PACKET_MAX_FDS);
	if (n_fds > PACKET_MAX_FDS || (msg.msg_flags & MSG_CTRUNC))
		r = -EBADMSG;
	else if (msg.msg_flags & MSG_TRUNC)
		r = -EMSGSIZE;
	else if (len == 0)
		r = -ECONNRESET;
	else {
		*ret_n_fds = n_fds;
		return len;
	}

	for (size_t i = 0; i < n_fds && i < PACKET_MAX_FDS; i++)
		close(fds[i]);
	return r;
}

int packet_send(int sock, const void *buf, size_t len, const int *fds, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (len == 0 || len > PACKET_MAX || n_fds > PACKET_MAX_FDS)
		return -EINVAL;
	if (n_fds > 0) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}

	do {
		n = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : errno == EPIPE ? -ECONNRESET : -errno;
	return 0;
}
