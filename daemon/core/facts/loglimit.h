/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Rate limits for log lines about users. Each pair of a user and a subject, such as a rule, has its own limit, so that
 * one pair's lines never suppress those of another. A pair's first line passes. Then the pair is:
 *
 *   limiting  its window of 10 s is running
 *   pending   its window is over and lines were left out; the pair's next line will report how many
 *   dropped   its window is over and no line was left out, so the pair need not be kept
 *
 * At most LOG_LIMITS_MAX pairs are kept. Beyond that, a new pair replaces the oldest pending pair or, if no pair is
 * pending, the oldest pair of the user with most pairs. The number of the replaced pair's left-out lines is logged at
 * once.
 *
 * The lines of all pairs of a user have a limit, too, and so have those of all users, because journald would drop other
 * lines. A user is an owner, see util/owner.h; all owners of a range together count as one user, for the pairs and for
 * the lines. How many are left out is told.
 */

#include <stdint.h>
#include <sys/types.h>

#include "util/list.h"
#include "util/log.h"
#include "util/owner.h"

#define LOG_LIMITS_MAX 1024
#define LOG_LINES_OF_USER 100 /* in 10 s */
#define LOG_LINES 500 /* of all users, in 10 s */

/* What a line is about: a decision by the rule whose tally has this number, from 1 up, or one of these. */
#define LOG_ABOUT_OTHER 0
#define LOG_ABOUT_DOUBT UINT64_MAX /* which process the client is, for each session */
#define LOG_ABOUT_LIMIT (UINT64_MAX - 1) /* no further session can be opened */

struct log_limit;
struct log_range;
struct log_user;

struct log_limits {
	struct log_limit *pairs; /* a uthash table, by user and subject */
	struct log_user *users; /* a uthash table, by owner: users with pairs */
	struct log_range *ranges; /* a uthash table, by the first uid */
	struct list limiting; /* log_limit.link, in the order in which their windows began */
	struct list pending; /* log_limit.link, in the order in which their windows ended */
	struct ratelimit spare; /* returned if there is no memory for a pair */
	unsigned max_of_user, max; /* LOG_LINES_OF_USER and LOG_LINES */
	struct ratelimit all;
	struct ratelimit mute; /* returned if one of the other limits does not let the line pass */
};

void log_limits_init(struct log_limits *limits);
void log_limits_done(struct log_limits *limits);
/* The limit for the next line about OWNER and SUBJECT. Valid for one line only. */
struct ratelimit *log_limits_get(struct log_limits *limits, struct owner owner, uint64_t subject);
unsigned log_limits_count(const struct log_limits *limits);
