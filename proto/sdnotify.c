/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/sdnotify.h"

/* "@NAME" is in the abstract namespace. */
static int make_address(const char *name, struct sockaddr_un *ret, socklen_t *ret_len)
{
	size_t len = strlen(name);

	if ((*name != '/' && *name != '@') || len < 2)
		return -EAFNOSUPPORT;
	if (len >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, name, len);
	if (*name == '@')
		ret->sun_path[0] = 0;
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	return 0;
}

int sdnotify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr;
	socklen_t len;
	int sock, r;

	if (!name)
		return -ENXIO;
	r = make_address(name, &addr, &len);
	if (r < 0)
		return r;
	sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&addr, len) < 0) {
		r = -errno;
		close(sock);
		return r;
	}
	return sock;
}

int sdnotify_send(int sock, const char *text, int fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {};
	struct iovec iov = { .iov_base = (char *)text, .iov_len = strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS,
						  .cmsg_len = CMSG_LEN(sizeof(int)) };
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

bool sdnotify_is_shortage(int r)
{
	return r == -ENOMEM || r == -ENOBUFS || r == -ETOOMANYREFS;
}
