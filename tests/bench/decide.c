/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Measures how long a decision takes, by the number of rules and the shape of the policy. The sizes take turns, so
 * that other work on the machine affects all of them. Prints the median of the turns.
 *
 * Three of four questions are made from random rules of the policy. The fourth is made as if from a rule past the
 * last one. All questions together exceed the processor's nearest caches.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tests/bench/stats.h"
#include "util/diag.h"

#define SIZES 5
#define QUESTIONS 4096
#define TURNS 15
#define TURN_NS 4000000 /* minimum duration of a turn */
#define FILES_MAX 16

static const size_t sizes[SIZES] = { 10, 100, 1000, 10000, 100000 };

/* The facts in which the questions of a shape differ. */
struct facts {
	enum policy_operation operation;
	bool early, is_wildcard;
	uint32_t uid, gid, peer; /* IPv4, host order; 0: not known */
	int port;
	int unit, device; /* -1: not known */
};

/* The question's pointers refer to memory of the same object, as in the broker. */
struct undecided {
	struct policy_question question;
	struct sockaddr_in local, peer;
	gid_t gids[4];
	char device[16], unit[32];
};

struct shape {
	const char *name;
	void (*print_rule)(FILE *f, size_t i, size_t n);
	void (*make_facts)(struct facts *facts, size_t i, size_t n);
};

static void print_port(FILE *f, size_t i, size_t n)
{
	/* There can be more rules than ports. */
	fprintf(f, "allow listen user 1000 port %zu\n", i % 64000 + 1);
}

static void make_port(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_LISTEN;
	facts->port = i % 64000 + 1;
}

static uint32_t host_of(size_t i)
{
	return UINT32_C(10) << 24 | (i * 7 + 1);
}

static void print_host(FILE *f, size_t i)
{
	uint32_t host = host_of(i);

	fprintf(f, "%u.%u.%u.%u", host >> 24, host >> 16 & 255, host >> 8 & 255, host & 255);
}

static void print_peer(FILE *f, size_t i, size_t n)
{
	fputs("allow accept user 1000 port 4420 peer ", f);
	print_host(f, i);
	fputc('\n', f);
}

static void make_peer(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_ACCEPT;
	facts->port = 4420;
	facts->peer = host_of(i);
}

static void print_unit(FILE *f, size_t i, size_t n)
{
	fprintf(f, "allow connect unit job-%zu.scope peer 10.0.0.0/8\n", i);
}

static void make_unit(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_CONNECT;
	facts->peer = host_of(i);
	facts->unit = i;
}

static void print_set(FILE *f, size_t i, size_t n)
{
	if (i % 16 == 0) {
		fprintf(f, "set s%zu = { ", i / 16);
		for (size_t k = 0; k < 16; k++) {
			fputs(k ? ", " : "", f);
			print_host(f, i + k);
		}
		fputs(" }\n", f);
	}
	fprintf(f, "allow accept peer @s%zu port %zu\n", i / 16, 4000 + i % 16);
}

static void make_set(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_ACCEPT;
	facts->peer = host_of(i);
	facts->port = 4000 + i % 16;
}

/* The last rule allows all hosts that the others do not reject. The questions come before the peer is known. */
static void print_refused(FILE *f, size_t i, size_t n)
{
	if (i == n - 1) {
		fputs("allow connect\n", f);
		return;
	}
	fputs("reject connect peer ", f);
	print_host(f, i);
	fputc('\n', f);
}

static void make_refused(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_CONNECT;
	facts->early = true;
	facts->uid = i;
}

/* The rules name local addresses, but the listeners listen on all addresses. */
static void print_local(FILE *f, size_t i, size_t n)
{
	fputs("allow listen user 1000 local ", f);
	print_host(f, i);
	fputc('\n', f);
}

static void make_local(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_LISTEN;
	facts->is_wildcard = true;
	facts->port = 4420;
}

/* A cluster: rules for groups and for single users. */
static void print_cluster(FILE *f, size_t i, size_t n)
{
	size_t group = 2000 + i / 8;

	switch (i % 8) {
	case 0:
		fprintf(f, "allow session group %zu\n", group);
		break;
	case 1:
		fprintf(f, "allow device group %zu device mlx5_*\n", group);
		break;
	case 2:
		fprintf(f, "allow listen group %zu port %zu-%zu max-per-user 4096\n", group,
			1024 + i % 60000, 1024 + i % 60000 + 999);
		break;
	case 3:
		fprintf(f, "allow accept group %zu port %zu-%zu peer 10.0.0.0/8 pending 64\n",
			group, 1024 + i % 60000, 1024 + i % 60000 + 999);
		break;
	case 4:
		fprintf(f, "allow connect group %zu peer 10.0.0.0/8 rate-per-user 500/s\n", group);
		break;
	case 5:
		fprintf(f, "allow listen user %zu unit job-%zu.scope\n", 1000 + i, i);
		break;
	case 6:
		fputs("reject connect peer ", f);
		print_host(f, i * 1000);
		fputs(" reason \"drained\"\n", f);
		break;
	default:
		fprintf(f, "reject any user %zu reason \"suspended\"\n", 1000 + i);
	}
}

static void make_cluster(struct facts *facts, size_t i, size_t n)
{
	static const enum policy_operation operations[8] = {
		POLICY_SESSION, POLICY_DEVICE, POLICY_LISTEN,  POLICY_ACCEPT,
		POLICY_CONNECT, POLICY_LISTEN, POLICY_CONNECT, POLICY_LISTEN,
	};

	facts->operation = operations[i % 8];
	facts->gid = 2000 + i / 8;
	facts->uid = 1000 + i;
	facts->unit = i;
	facts->device = 0;
	facts->port = 1024 + (i - i % 8) % 60000 + i % 8 + 5;
	facts->peer = i % 8 == 6 ? host_of(i * 1000) : UINT32_C(10) << 24 | (i + 3);
}

/* Patterns need a closer look. */
static void print_wildcard(FILE *f, size_t i, size_t n)
{
	fprintf(f, "allow device device *_%zu\n", i);
}

static void make_wildcard(struct facts *facts, size_t i, size_t n)
{
	facts->operation = POLICY_DEVICE;
	facts->device = i;
}

static const struct shape shapes[] = {
	{ "one user, a port each", print_port, make_port },
	{ "one service, a peer each", print_peer, make_peer },
	{ "a unit each", print_unit, make_unit },
	{ "sets of 16, 16 ports", print_set, make_set },
	{ "peers refused, early", print_refused, make_refused },
	{ "an address each, wildcard", print_local, make_local },
	{ "mixed, as a cluster", print_cluster, make_cluster },
	{ "worst: a pattern each", print_wildcard, make_wildcard },
};

#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* Returns a policy of N rules, which the caller releases. The largest policy does not fit into one file. */
static struct policy *policy_of(const struct shape *shape, size_t n)
{
	char dir[] = "/tmp/bench.XXXXXX", paths[FILES_MAX][64];
	const char *files[FILES_MAX];
	struct policy *policy = NULL;
	struct diag *diag;
	size_t n_files = 0;
	FILE *f = NULL;

	if (!mkdtemp(dir) || diag_new(&diag) < 0)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (i % (100000 / FILES_MAX) == 0) {
			snprintf(paths[n_files], sizeof(paths[0]), "%s/%zu", dir, n_files);
			files[n_files] = paths[n_files];
			if (f)
				fclose(f);
			f = fopen(paths[n_files++], "w");
			if (!f)
				abort();
		}
		shape->print_rule(f, i, n);
	}
	fclose(f);
	if (policy_load_files(&policy, files, n_files, diag) < 0)
		diag_print(diag, stderr);
	for (size_t i = 0; i < n_files; i++)
		remove(paths[i]);
	remove(dir);
	diag_free(diag);
	if (!policy)
		abort();
	return policy;
}

static void make_asked(struct undecided *asked, const struct facts *facts)
{
	struct policy_question *question = &asked->question;

	asked->local = (struct sockaddr_in){ .sin_family = AF_INET };
	asked->local.sin_addr.s_addr = htonl(facts->is_wildcard ? 0 : UINT32_C(10) << 24 | 1);
	asked->peer = (struct sockaddr_in){ .sin_family = AF_INET };
	asked->peer.sin_addr.s_addr = htonl(facts->peer);
	for (int i = 0; i < 4; i++)
		asked->gids[i] = facts->gid + (i ? 500000 + i : 0);
	snprintf(asked->device, sizeof(asked->device), "mlx5_%d", facts->device);
	snprintf(asked->unit, sizeof(asked->unit), "job-%d.scope", facts->unit);
	*question = (struct policy_question){
		.operation = facts->operation,
		.early = facts->early,
		.uid = facts->uid,
		.gids = asked->gids,
		.n_gids = 4,
		.local = (struct sockaddr *)&asked->local,
		.peer = (struct sockaddr *)&asked->peer,
		.port = facts->port,
		.device = facts->device < 0 ? NULL : asked->device,
		.workload[WORKLOAD_UNIT] = facts->unit < 0 ? NULL : asked->unit,
		.port_space = RDMA_PS_TCP,
	};
}

static struct undecided *questions_of(const struct shape *shape, size_t n)
{
	struct undecided *asked = calloc(QUESTIONS, sizeof(*asked));

	if (!asked)
		abort();
	srandom(1);
	for (size_t i = 0; i < QUESTIONS; i++) {
		struct facts facts = {
			.uid = 1000,
			.gid = 100,
			.port = -1,
			.unit = -1,
			.device = -1,
		};
		/* In most shapes, a number past the rules makes a question that no rule matches. */
		size_t rule = random() % n + (i % 4 == 3 ? 200000 : 0);

		shape->make_facts(&facts, rule, n);
		make_asked(&asked[i], &facts);
	}
	return asked;
}

static double run_turn(const struct policy *policy, const struct undecided *asked)
{
	uint64_t start = now_ns(), elapsed;
	struct policy_verdict verdict;
	size_t n = 0;

	do {
		for (int i = 0; i < 64; i++)
			policy_decide(policy, &asked[n++ % QUESTIONS].question, &verdict);
		elapsed = now_ns() - start;
	} while (elapsed < TURN_NS);
	return (double)elapsed / n;
}

static void run_shape(const struct shape *shape)
{
	struct policy *policies[SIZES];
	struct undecided *asked[SIZES];
	double ns[SIZES][TURNS];

	for (int s = 0; s < SIZES; s++) {
		policies[s] = policy_of(shape, sizes[s]);
		asked[s] = questions_of(shape, sizes[s]);
	}
	for (int turn = 0; turn < TURNS; turn++)
		for (int s = 0; s < SIZES; s++)
			ns[s][turn] = run_turn(policies[s], asked[s]);

	printf("%-26s", shape->name);
	for (int s = 0; s < SIZES; s++) {
		printf("%9.0f", median(ns[s], TURNS));
		policy_unref(policies[s]);
		free(asked[s]);
	}
	printf("%9.1f\n", median(ns[3], TURNS) / median(ns[0], TURNS));
	fflush(stdout);
}

int main(void)
{
	printf("%-26s", "ns a decision, rules:");
	for (int s = 0; s < SIZES; s++)
		printf("%9zu", sizes[s]);
	printf("%9s\n", "10k/10");
	for (size_t i = 0; i < SHAPES; i++)
		run_shape(&shapes[i]);
	return EXIT_SUCCESS;
}
