/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon's log: to the journal where stderr is the journal's, else to stderr. The level, and what waits for the
 * journal, are the pieces of the process's state that do not hang from the broker: log lines come from everywhere.
 *
 * The journal can hang, and whoever writes to it then. So a thread writes to it, in order. What it cannot take is
 * dropped and counted; the first line after that says how many were.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <syslog.h>

void log_init(void);
void log_end(void); /* waits for what is still to be written, two seconds at most */
void log_set_level(int level); /* LOG_ERR .. LOG_DEBUG */

struct iovec;

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* With more fields for the journal: "NAME=VALUE" each. */
void log_fields(int level, const char *text, const struct iovec *fields, size_t n_fields);

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/* At most BURST lines in 10 s; the first line let through again says how many were not. */
struct ratelimit {
	uint64_t begin_usec;
	unsigned n;
	unsigned n_suppressed;
};

#define RATELIMIT_BURST 10

bool ratelimit_pass(struct ratelimit *limit, unsigned *ret_suppressed);
/* Its 10 s are, or have not begun: the next line passes. */
bool ratelimit_is_over(const struct ratelimit *limit);

#define log_limited(limit, level, fmt, ...)                                                    \
	do {                                                                                   \
		unsigned _suppressed;                                                          \
		if (ratelimit_pass((limit), &_suppressed)) {                                   \
			if (_suppressed > 0)                                                   \
				log_msg((level), "(%u lines like the next one were left out)", \
					_suppressed);                                          \
			log_msg((level), fmt, ##__VA_ARGS__);                                  \
		}                                                                              \
	} while (0)
