/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Random policies and questions. The same RANDOM_STATE gives the same ones on every host. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/policy.h"

#define GIDS_MAX 1100

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 10
#else
#define SLOWER 1
#endif

extern uint64_t random_state;

int pick(int n); /* from 0 to N - 1 */
bool one_in(int n);
/* The number in the environment, for SEED=N and ROUNDS=N. */
unsigned long number_from(const char *variable, unsigned long otherwise);

/* How many different values of each kind a policy and its questions use. */
extern struct shape {
	int users, groups, ports, hosts, devices, units;
	/* The larger COMMON is, the rarer are matches in rules. */
	int common;
	bool has_any; /* some rules have the keyword "any" as their operation */
	bool has_gids; /* some addresses are GIDs, so which IP addresses a host has is not known, and the other way round */
} shape;

struct shape random_shape(void);
/* Makes a policy by SHAPE, with N rules. */
struct policy *random_policy(size_t *ret_n);

/* The memory that a question points to. */
struct facts {
	struct sockaddr_storage local, peer;
	gid_t gids[GIDS_MAX];
	char device[16], unit[128];
	char cgroup[64], container[32], job[16];
	struct policy_peer who;
	gid_t peer_gids[4];
	char peer_unit[32], peer_job[16];
};

/*
 * In half of the questions all facts are known, except who the peer is. In the others, facts other than the user and
 * the groups can be unknown, too. Returns whether all are known.
 */
bool random_question(struct policy_question *ret, struct facts *facts);
const struct policy_peer *random_who(struct facts *facts);
