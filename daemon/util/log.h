/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The daemon's log goes to the journal if stderr is connected to the journal, else to stderr. A write to the
 * journal can block, so a thread does it. Entries that do not fit into the thread's queue are dropped and
 * counted; their number is written before the next entry. Log level and queue are the only global variables
 * of the daemon.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <syslog.h>

void log_init(void);
void log_end(void); /* waits until the queue is written, for two seconds at most */
void log_set_level(int level); /* LOG_ERR to LOG_DEBUG */

struct iovec;

void log_msg(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* FIELDS ("NAME=VALUE") are added to the journal entry. */
void log_fields(int level, const char *text, const struct iovec *fields, size_t n_fields);

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_WARNING, __VA_ARGS__)
#define log_notice(...) log_msg(LOG_NOTICE, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/*
 * Lets at most RATELIMIT_BURST lines pass in a period of 10 s, which begins with the first of them.
 * log_limited() writes how many lines were left out, before the next line that passes.
 */
struct ratelimit {
	uint64_t begin_usec;
	unsigned n;
	unsigned n_suppressed;
};

#define RATELIMIT_BURST 10

bool ratelimit_pass(struct ratelimit *limit, unsigned *ret_suppressed);
/* The same with another number of lines. */
bool ratelimit_pass_burst(struct ratelimit *limit, unsigned burst, unsigned *ret_suppressed);
/* From now on LIMIT lets no line pass in its period. */
void ratelimit_mute(struct ratelimit *limit);
/* True: the next line begins a new period. */
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
