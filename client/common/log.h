/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <syslog.h>

/* Prints a line to stderr: with its priority (LOG_*) if JOURNAL_STREAM is set, else with the program's name. */
__attribute__((format(printf, 2, 3))) void log_line(int priority, const char *fmt, ...);
