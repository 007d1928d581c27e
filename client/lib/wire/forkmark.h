/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Detects that the code runs in a child of the process that opened a session. Each call of the library checks this,
 * so the check must not cost a system call.
 *
 * The mark is in a page that the kernel clears in children, by whatever function they are made. Children that share
 * the memory of their parent, as after vfork(2), are not detected. They must not call functions anyway. They share the
 * session's lock too, so they cannot hang; other children have a copy of the lock that nobody releases.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fork_mark {
	/* The first byte is not 0 in the process that called fork_mark_init(). NULL: there is no such page. */
	const volatile uint8_t *page;
	pid_t pid; /* of that process, used if there is no page */
};

/* Cannot fail: if the kernel cannot clear pages in children, the pid is the mark. */
void fork_mark_init(struct fork_mark *mark);
void fork_mark_done(struct fork_mark *mark);
bool fork_mark_is_child(const struct fork_mark *mark);
