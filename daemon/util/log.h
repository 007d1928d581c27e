/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon's log. It goes to the journal if stderr is connected to the journal, else to stderr. The log
 * level and the queue of entries are the only global variables of the daemon, because every file writes log
 * lines.
 *
 * A write to the journal can block. So a thread writes the entries, in order. Entries that do not fit into
 * its queue are dropped and counted; their number is written before the next line.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <syslog.h>

void log_init(void);
void log_end(void); /* waits until the queue is written, for two seconds at most */
void log_set_level(int level); /* LEVEL is LOG_ERR to LOG_DEBUG */

struct iovec;

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As log_msg(), and adds FIELDS, each of the form "NAME=VALUE", to the journal entry. */
void log_fields(int level, const char *text, const struct iovec *fields, size_t n_fields);

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/*
 * A rate limit lets at most RATELIMIT_BURST lines pass in 10 s, which begin with the first of them. If lines were
 * left out, log_limited() writes their number before the next line that passes.
 */
struct ratelimit {
	uint64_t begin_usec;
	unsigned n;
	unsigned n_suppressed;
};

#define RATELIMIT_BURST 10

bool ratelimit_pass(struct ratelimit *limit, unsigned *ret_suppressed);
/* True if the 10 s have passed or have not begun, so that the next line passes. */
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
