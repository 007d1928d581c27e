/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Files of /proc/PID. If the process has ended, they can be of another one that has its pid now. */

#include <stdio.h>
#include <sys/types.h>

FILE *proc_open(pid_t pid, const char *name); /* NULL: it cannot be opened */
/* Scans the lines of a file for FORMAT. Returns the number of conversions in the first line that has any; 0: none has. */
int proc_scan(pid_t pid, const char *name, const char *format, ...)
	__attribute__((format(scanf, 3, 4)));
