/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/ib.h>
#include <stdarg.h>

#include "rdmacm.h"

/*
 * rsockets are librdmacm's own: it has the protocol on the data path. Their calls are forwarded to librdmacm unchanged.
 * librdmacm is loaded so that its rsockets call the drop-in for their ids and connections, and thus use the broker. What they
 * read of an id beyond the public struct is in struct librdmacm_private.
 */

static const struct real *chosen; /* NULL: librdmacm cannot be loaded */

static void choose(void)
{
	bool by_broker = broker_has_rsockets();

	chosen = by_broker ? real_get_calling_dropin() : NULL;
	if (chosen) {
		report_debug("rsockets use the broker");
		return;
	}
	chosen = real_get();
	report_debug("rsockets do not use the broker: librdmacm itself handles them");
	if (by_broker && chosen && !broker_can_be_bypassed())
		report_once(
			"rsockets cannot use the broker, because this librdmacm calls its own functions "
			"directly, as with the linker's option -Bsymbolic-functions, and this user may not "
			"open /dev/infiniband/rdma_cm. An administrator can install a librdmacm that was "
			"linked without the option, or let the user open the file; see "
			"librdmabroker-rdmacm(7)");
}

static const struct real *get_rsockets(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	if (!chosen)
		errno = ENOSYS;
	return chosen;
}

#define PASS(result, name, parameters, arguments)         \
	result name parameters                            \
	{                                                 \
		const struct real *real = get_rsockets(); \
                                                          \
		if (!real || !real->name)                 \
			return fail(ENOSYS);              \
		return real->name arguments;              \
	}

/*
 * librspreload replaces socket() by this call. If librdmabroker then opens its socket inside choose(), the call comes here,
 * and must not wait for choose(). librdmacm returns the same error.
 */
int rsocket(int domain, int type, int protocol)
{
	const struct real *real;

	if (domain != AF_INET && domain != AF_INET6 && domain != AF_IB)
		return fail(ENOTSUP);
	real = get_rsockets();
	return real ? real->rsocket(domain, type, protocol) : -1;
}

PASS(int, rbind, (int socket, const struct sockaddr *addr, socklen_t addrlen),
     (socket, addr, addrlen))
PASS(int, rlisten, (int socket, int backlog), (socket, backlog))
PASS(int, raccept, (int socket, struct sockaddr *addr, socklen_t *addrlen), (socket, addr, addrlen))
PASS(int, rconnect, (int socket, const struct sockaddr *addr, socklen_t addrlen),
     (socket, addr, addrlen))
PASS(int, rshutdown, (int socket, int how), (socket, how))
PASS(int, rclose, (int socket), (socket))
PASS(ssize_t, rrecv, (int socket, void *buf, size_t len, int flags), (socket, buf, len, flags))
PASS(ssize_t, rrecvfrom,
     (int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen),
     (socket, buf, len, flags, src_addr, addrlen))
PASS(ssize_t, rrecvmsg, (int socket, struct msghdr *msg, int flags), (socket, msg, flags))
PASS(ssize_t, rsend, (int socket, const void *buf, size_t len, int flags),
     (socket, buf, len, flags))
PASS(ssize_t, rsendto,
     (int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr,
      socklen_t addrlen),
     (socket, buf, len, flags, dest_addr, addrlen))
PASS(ssize_t, rsendmsg, (int socket, const struct msghdr *msg, int flags), (socket, msg, flags))
PASS(ssize_t, rread, (int socket, void *buf, size_t count), (socket, buf, count))
PASS(ssize_t, rreadv, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt))
PASS(ssize_t, rwrite, (int socket, const void *buf, size_t count), (socket, buf, count))
PASS(ssize_t, rwritev, (int socket, const struct iovec *iov, int iovcnt), (socket, iov, iovcnt))
PASS(int, rpoll, (struct pollfd * fds, nfds_t nfds, int timeout), (fds, nfds, timeout))
PASS(int, rselect,
     (int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout),
     (nfds, readfds, writefds, exceptfds, timeout))
PASS(int, rgetpeername, (int socket, struct sockaddr *addr, socklen_t *addrlen),
     (socket, addr, addrlen))
PASS(int, rgetsockname, (int socket, struct sockaddr *addr, socklen_t *addrlen),
     (socket, addr, addrlen))
PASS(int, rsetsockopt, (int socket, int level, int optname, const void *optval, socklen_t optlen),
     (socket, level, optname, optval, optlen))
PASS(int, rgetsockopt, (int socket, int level, int optname, void *optval, socklen_t *optlen),
     (socket, level, optname, optval, optlen))
PASS(off_t, riomap, (int socket, void *buf, size_t len, int prot, int flags, off_t offset),
     (socket, buf, len, prot, flags, offset))
PASS(int, riounmap, (int socket, void *buf, size_t len), (socket, buf, len))
PASS(size_t, riowrite, (int socket, const void *buf, size_t count, off_t offset, int flags),
     (socket, buf, count, offset, flags))

PASS(int, repoll_create, (int flags), (flags))
PASS(int, repoll_ctl, (int epfd, int op, int fd, struct epoll_event *event), (epfd, op, fd, event))
PASS(int, repoll_wait, (int epfd, struct epoll_event *events, int maxevents, int timeout),
     (epfd, events, maxevents, timeout))

/* CMD determines whether there is a third argument; if so, it is a number. */
int rfcntl(int socket, int cmd, ...)
{
	const struct real *real;
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	real = get_rsockets();
	return real ? real->rfcntl(socket, cmd, arg) : -1;
}
