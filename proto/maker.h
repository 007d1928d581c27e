/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The process that a thread belongs to, from /proc, which does not block. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAKER_NAME_MAX 32

struct maker {
	pid_t pid;
	uid_t uid; /* the effective one; (uid_t)-1: not known */
	char name
		[MAKER_NAME_MAX]; /* of the thread, which has chosen it, with '?' for what cannot be printed; "": not known */
};

/* If nothing can be read (/proc can hide other users' processes), RET->pid is TID, and the rest is not known. */
void maker_read(pid_t tid, struct maker *ret);
/* The process's first MAX groups, by number, with the effective primary one. Returns how many; 0: not known. */
size_t maker_read_gids(pid_t pid, uint32_t *ret, size_t max);
