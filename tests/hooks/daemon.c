/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "fabric/fabric.h"
#include "tests/hooks/inside.h"

/* These replace the functions that the daemon calls, see daemon.symbols. */

HOOK_ALLOCATION(daemon, HOOK_DAEMON)

int daemon_asprintf(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int daemon_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (hook_fails(HOOK_DAEMON, HOOK_MEMORY))
		return -1;
	va_start(ap, fmt);
	n = vasprintf(ret, fmt, ap);
	va_end(ap);
	if (n >= 0)
		hook_took(HOOK_DAEMON, *ret, (size_t)n + 1, __builtin_return_address(0));
	return n;
}

FILE *daemon_open_memstream(char **ret, size_t *ret_size);

FILE *daemon_open_memstream(char **ret, size_t *ret_size)
{
	return hook_fails(HOOK_DAEMON, HOOK_MEMORY) ? NULL : open_memstream(ret, ret_size);
}

/* Suppresses the daemon's log on stderr, unless HOOKS_LOG is set. */
int daemon_fprintf(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int daemon_fprintf(FILE *f, const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	va_start(ap, fmt);
	if (f != stderr || getenv("HOOKS_LOG"))
		n = vfprintf(f, fmt, ap);
	va_end(ap);
	return n;
}

/* Defines daemon_NAME(), which calls NAME(), or returns -1 and sets errno. */
#define SYSTEM(kind, type, name, params, args)                                  \
	type daemon_##name params;                                              \
                                                                                \
	type daemon_##name params                                               \
	{                                                                       \
		type r = hook_fails(HOOK_DAEMON, HOOK_##kind) ? -1 : name args; \
                                                                                \
		hook_may_kill();                                                \
		return r;                                                       \
	}

SYSTEM(ACCEPT, int, accept4, (int fd, struct sockaddr *addr, socklen_t *len, int flags),
       (fd, addr, len, flags))
SYSTEM(SEND, ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
SYSTEM(RECEIVE, ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
SYSTEM(SEND, int, sendmmsg, (int fd, struct mmsghdr *msg, unsigned n, int flags),
       (fd, msg, n, flags))
SYSTEM(RECEIVE, int, recvmmsg,
       (int fd, struct mmsghdr *msg, unsigned n, int flags, struct timespec *timeout),
       (fd, msg, n, flags, timeout))
SYSTEM(DESCRIPTOR, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
SYSTEM(DESCRIPTOR, int, socketpair, (int domain, int type, int protocol, int fds[2]),
       (domain, type, protocol, fds))
SYSTEM(DESCRIPTOR, int, getsockopt, (int fd, int level, int option, void *value, socklen_t *len),
       (fd, level, option, value, len))
SYSTEM(DESCRIPTOR, int, bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
SYSTEM(DESCRIPTOR, int, listen, (int fd, int backlog), (fd, backlog))
SYSTEM(DESCRIPTOR, int, chmod, (const char *path, mode_t mode), (path, mode))
SYSTEM(DESCRIPTOR, int, fstat, (int fd, struct stat *ret), (fd, ret))
SYSTEM(DESCRIPTOR, ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))

SYSTEM(DESCRIPTOR, int, eventfd, (unsigned n, int flags), (n, flags))

/*
 * Does the thread's work at once, without a thread. RUN returns when it has no work, because
 * daemon_pthread_cond_timedwait() does not wait.
 */
int daemon_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *arg),
			  void *arg);

int daemon_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *arg),
			  void *arg)
{
	if (hook_fails(HOOK_DAEMON, HOOK_DESCRIPTOR))
		return errno;
	*ret = pthread_self();
	run(arg);
	return 0;
}

int daemon_pthread_join(pthread_t thread, void **ret);

int daemon_pthread_join(pthread_t thread, void **ret)
{
	return 0;
}

int daemon_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *deadline);

int daemon_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *deadline)
{
	return ETIMEDOUT;
}

SYSTEM(LOOP, int, epoll_create1, (int flags), (flags))
SYSTEM(LOOP, int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
       (epoll, op, fd, event))
SYSTEM(LOOP, int, epoll_wait, (int epoll, struct epoll_event *events, int n, int timeout),
       (epoll, events, n, timeout))

/* fcntl() and open() are variadic: the daemon passes at most one number to fcntl(), and no mode to open(). */
int daemon_fcntl(int fd, int command, int arg);

int daemon_fcntl(int fd, int command, int arg)
{
	return hook_fails(HOOK_DAEMON, HOOK_DESCRIPTOR) ? -1 : fcntl(fd, command, arg);
}

int daemon_open(const char *path, int flags);

int daemon_open(const char *path, int flags)
{
	return hook_fails(HOOK_DAEMON, HOOK_DESCRIPTOR) ? -1 : open(path, flags);
}

/* Defines daemon_NAME(), which calls NAME(), or returns a negative errno. */
#define LIBRARY(kind, name, params, args)                                          \
	int daemon_##name params;                                                  \
                                                                                   \
	int daemon_##name params                                                   \
	{                                                                          \
		int r = hook_fails(HOOK_DAEMON, HOOK_##kind) ? -errno : name args; \
                                                                                   \
		hook_may_kill();                                                   \
		return r;                                                          \
	}

LIBRARY(LOOP, sd_event_add_io,
	(sd_event * loop, sd_event_source **ret, int fd, uint32_t events,
	 sd_event_io_handler_t handler, void *userdata),
	(loop, ret, fd, events, handler, userdata))
LIBRARY(LOOP, sd_event_add_defer,
	(sd_event * loop, sd_event_source **ret, sd_event_handler_t handler, void *userdata),
	(loop, ret, handler, userdata))
LIBRARY(LOOP, sd_event_add_post,
	(sd_event * loop, sd_event_source **ret, sd_event_handler_t handler, void *userdata),
	(loop, ret, handler, userdata))
LIBRARY(LOOP, sd_event_add_signal,
	(sd_event * loop, sd_event_source **ret, int signal, sd_event_signal_handler_t handler,
	 void *userdata),
	(loop, ret, signal, handler, userdata))
LIBRARY(LOOP, sd_event_add_time,
	(sd_event * loop, sd_event_source **ret, clockid_t clock, uint64_t usec, uint64_t accuracy,
	 sd_event_time_handler_t handler, void *userdata),
	(loop, ret, clock, usec, accuracy, handler, userdata))

#define SHORT_USEC 1000000

static uint64_t shortened(uint64_t usec)
{
	return usec <= SHORT_USEC ? usec / 1000 : usec;
}

LIBRARY(LOOP, sd_event_add_time_relative,
	(sd_event * loop, sd_event_source **ret, clockid_t clock, uint64_t usec, uint64_t accuracy,
	 sd_event_time_handler_t handler, void *userdata),
	(loop, ret, clock, shortened(usec), accuracy ?: 1, handler, userdata))

int daemon_sd_event_source_set_time_relative(sd_event_source *source, uint64_t usec);

int daemon_sd_event_source_set_time_relative(sd_event_source *source, uint64_t usec)
{
	return sd_event_source_set_time_relative(source, shortened(usec));
}

int daemon_sd_event_new(sd_event **ret);

int daemon_sd_event_new(sd_event **ret)
{
	int r = hook_fails(HOOK_DAEMON, HOOK_LOOP) ? -errno : sd_event_new(ret);

	if (r >= 0)
		hook_set_loop(*ret);
	return r;
}

LIBRARY(CM, fabric_new,
	(struct fabric * *ret, sd_event *loop, enum fabric_access access,
	 const struct fabric_ops *ops, void *userdata),
	(ret, loop, access, ops, userdata))
LIBRARY(CM, fabric_lease_new,
	(struct fabric_lease * *ret, struct fabric_device *device, uid_t uid,
	 enum fabric_access access, fabric_answer_fn done, void *userdata),
	(ret, device, uid, access, done, userdata))
LIBRARY(CM, fabric_qp_belongs,
	(struct fabric_lookup * *ret, struct fabric *fabric, const char *device, uint32_t qpn,
	 pid_t pid, struct owner owner, fabric_answer_fn done, void *userdata),
	(ret, fabric, device, qpn, pid, owner, done, userdata))
LIBRARY(CM, fabric_id_new,
	(struct fabric_id * *ret, struct fabric *fabric, struct owner owner,
	 enum rdma_port_space ps, fabric_event_fn on_event, void *userdata),
	(ret, fabric, owner, ps, on_event, userdata))
LIBRARY(CM, fabric_id_bind, (struct fabric_id * id, const struct sockaddr *addr), (id, addr))
LIBRARY(CM, fabric_id_listen, (struct fabric_id * id, int backlog), (id, backlog))
LIBRARY(CM, fabric_id_resolve_addr,
	(struct fabric_id * id, const struct sockaddr *src, const struct sockaddr *dst,
	 int timeout_ms),
	(id, src, dst, timeout_ms))
LIBRARY(CM, fabric_id_resolve_route, (struct fabric_id * id, int timeout_ms), (id, timeout_ms))
LIBRARY(CM, fabric_id_connect, (struct fabric_id * id, const struct rdma_conn_param *param),
	(id, param))
LIBRARY(CM, fabric_id_accept, (struct fabric_id * id, const struct rdma_conn_param *param),
	(id, param))
LIBRARY(CM, fabric_id_establish, (struct fabric_id * id), (id))
LIBRARY(CM, fabric_id_reject, (struct fabric_id * id, const void *data, uint8_t len, bool ece),
	(id, data, len, ece))
LIBRARY(CM, fabric_id_disconnect, (struct fabric_id * id), (id))
LIBRARY(CM, fabric_id_notify, (struct fabric_id * id, enum ibv_event_type event), (id, event))
LIBRARY(CM, fabric_id_set_local_ece, (struct fabric_id * id, const struct ibv_ece *ece), (id, ece))
LIBRARY(CM, fabric_join_new,
	(struct fabric_join * *ret, struct fabric_id *id, const struct sockaddr *addr,
	 uint32_t flags, void *userdata),
	(ret, id, addr, flags, userdata))
LIBRARY(CM, fabric_id_set_option, (struct fabric_id * id, int option, int value),
	(id, option, value))
LIBRARY(CM, fabric_id_qp_attr,
	(struct fabric_id * id, enum ibv_qp_state state, struct ibv_qp_attr *ret, int *ret_mask),
	(id, state, ret, ret_mask))
