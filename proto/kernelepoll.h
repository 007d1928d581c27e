/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * epoll_create1(2) and epoll_ctl(2) without libc's functions, which a preloaded library can replace. That of rsockets,
 * librspreload, does so since 2026: what its epoll_create1() returns cannot be polled, and its calls would come back to
 * the drop-in.
 */

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/abovestdio.h"

static inline int kernel_epoll_create(int flags)
{
	return above_stdio((int)syscall(SYS_epoll_create1, (long)flags));
}

static inline int kernel_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, (long)epoll, (long)op, (long)fd, event);
}
