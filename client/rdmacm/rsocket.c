/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>

#include "rdmacm.h"

/*
 * rsockets use librdmacm internally, with channels and connections of their own. Their calls are forwarded to
 * librdmacm unchanged, and do not use the broker.
 */

static const struct real *get_rsockets(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		report_debug("rsockets do not use the broker: librdmacm itself handles them");
	return real_get();
}

#define PASS(name, ...)                                   \
	do {                                              \
		const struct real *real = get_rsockets(); \
                                                          \
		if (!real)                                \
			return -1;                        \
		return real->name(__VA_ARGS__);           \
	} while (0)

int rsocket(int domain, int type, int protocol)
{
	PASS(rsocket, domain, type, protocol);
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	PASS(rbind, socket, addr, addrlen);
}

int rlisten(int socket, int backlog)
{
	PASS(rlisten, socket, backlog);
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	PASS(raccept, socket, addr, addrlen);
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	PASS(rconnect, socket, addr, addrlen);
}

int rshutdown(int socket, int how)
{
	PASS(rshutdown, socket, how);
}

int rclose(int socket)
{
	PASS(rclose, socket);
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	PASS(rrecv, socket, buf, len, flags);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	PASS(rrecvfrom, socket, buf, len, flags, src_addr, addrlen);
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	PASS(rrecvmsg, socket, msg, flags);
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	PASS(rsend, socket, buf, len, flags);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	PASS(rsendto, socket, buf, len, flags, dest_addr, addrlen);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	PASS(rsendmsg, socket, msg, flags);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	PASS(rread, socket, buf, count);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	PASS(rreadv, socket, iov, iovcnt);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	PASS(rwrite, socket, buf, count);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	PASS(rwritev, socket, iov, iovcnt);
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	PASS(rpoll, fds, nfds, timeout);
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	PASS(rselect, nfds, readfds, writefds, exceptfds, timeout);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	PASS(rgetpeername, socket, addr, addrlen);
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	PASS(rgetsockname, socket, addr, addrlen);
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	PASS(rsetsockopt, socket, level, optname, optval, optlen);
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	PASS(rgetsockopt, socket, level, optname, optval, optlen);
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	PASS(riomap, socket, buf, len, prot, flags, offset);
}

int riounmap(int socket, void *buf, size_t len)
{
	PASS(riounmap, socket, buf, len);
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	PASS(riowrite, socket, buf, count, offset, flags);
}

/* CMD determines whether there is a third argument; if so, it is a number. */
int rfcntl(int socket, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	PASS(rfcntl, socket, cmd, arg);
}
