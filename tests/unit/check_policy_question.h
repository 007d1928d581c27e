/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Shared by the tests of decisions: a question to the policy, and the verdict. */

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/check_policy.h"

static struct policy_question question;
static struct policy_verdict verdict;
static gid_t gids[3] = { 100, 200, 300 };

static inline const struct sockaddr *address(const char *text)
{
	static struct sockaddr_storage storage[4];
	static unsigned next;
	struct sockaddr_storage *ss = &storage[next++ % 4];
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		ss->ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		ss->ss_family = AF_INET6;
	else
		ck_abort_msg("%s", text);
	return (struct sockaddr *)ss;
}
