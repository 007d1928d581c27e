/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * How much is logged about each user: a rate limit for every pair of a user and a rule, exact, so that no
 * pair's lines ever keep out those of another one. A pair's first line always passes.
 *
 *   limiting  its window of 10 s is running
 *   pending   its window is over, and how many lines were left out is to be told with its next one
 *   dropped   its window is over, and there is nothing to tell: a pair that is not known is as good
 *
 * A user may have a range of 65536 uids, and a policy thousands of rules: there are LOG_LIMITS_MAX pairs at
 * most. The next one takes the place of the oldest that is pending, or else of the oldest of the user
 * who has most. What that one had to tell is logged then, and its next line is a first line again: it can be
 * logged too often for this, but it cannot be missing.
 */

#include <stdint.h>
#include <sys/types.h>

#include "util/list.h"
#include "util/log.h"

#define LOG_LIMITS_MAX 1024

struct log_limit;
struct log_user;

struct log_limits {
	struct log_limit *pairs; /* a uthash table, by user and rule */
	struct log_user *users; /* likewise, by uid: those who have pairs */
	struct list limiting; /* log_limit.link, whose window began first at the front */
	struct list pending; /* log_limit.link, whose window was over first at the front */
	struct ratelimit spare; /* of a pair that finds no memory */
};

void log_limits_init(struct log_limits *limits);
void log_limits_done(struct log_limits *limits);
/* RULE is any number that stands for no other rule. What is returned is for the next line only. */
struct ratelimit *log_limits_get(struct log_limits *limits, uid_t uid, uint64_t rule);
unsigned log_limits_count(const struct log_limits *limits);
