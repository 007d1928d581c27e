/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * With random policies and questions, the index must decide as a scan of all rules does. SEED=N repeats a run, and
 * ROUNDS=N sets its length.
 */

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/index/index.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "util/diag.h"

#define ROUNDS 4000
#define QUESTIONS 320 /* questions in a round */
#define RULES_MAX 2000
#define SETS 6
#define GIDS_MAX 1100

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 10
#else
#define SLOWER 1
#endif

static uint64_t state;

static unsigned long next_random(void)
{
	/* splitmix64, because rand() differs between C libraries */
	uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static int pick(int n)
{
	return next_random() % n;
}

static bool one_in(int n)
{
	return pick(n) == 0;
}

/* How many different values of each kind a policy and its questions use. */
static struct shape {
	int users, groups, ports, hosts, devices, units;
	/* The larger COMMON is, the rarer are matches in rules. */
	int common;
	bool has_any; /* some rules have the keyword "any" as their operation */
} shape;

static const char *const operations[] = { "session", "device",  "listen", "connect", "accept",
					  "join",    "observe", "admin",  "any" };
static const char *const port_spaces[] = { "tcp", "udp", "ib", "ipoib" };
static const int port_space_numbers[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB };
static const char *const data_texts[] = {
	"\"NVMe\"",
	"\"NVMe-of\"",
	"\"\\\"quoted\\\\\"",
	"0x00",
	"0x0000ff",
	"\"0123456789abcdef0123456789abcdef\"",
	"\"0123456789abcdefX\"",
	"0x4e564d",
};
static const char *const data_values[] = {
	"NVMe",
	"NVMe-offload",
	"\"quoted\\ and more",
	"NV",
	"0123456789abcdef0123456789abcdef and more",
	"0123456789abcdefXYZ",
	"other",
};

static struct shape random_shape(void)
{
	static const int many[] = { 1, 2, 5, 20, 100, 1000 };

	return (struct shape){
		.users = many[pick(6)],
		.groups = many[pick(6)],
		.ports = many[pick(6)],
		.hosts = many[pick(6)],
		.devices = many[pick(4)],
		.units = many[pick(6)],
		.common = 1 + pick(4),
		.has_any = one_in(2),
	};
}

static int random_size(void)
{
	switch (pick(10)) {
	case 0:
		return pick(INDEX_FIRST_RULE + 4);
	case 1:
		return pick(RULES_MAX + 1);
	case 2:
	case 3:
		return pick(600);
	default:
		return pick(400);
	}
}

/* Writes the address of host number HOST to RET, as IPv6 or IPv4. */
static void address_of(int host, bool is_ipv6, char *ret, size_t size)
{
	if (is_ipv6)
		snprintf(ret, size, "fd00:%x:%x::%x", host % 3, host / 3 % 7, host);
	else
		snprintf(ret, size, "10.%d.%d.%d", host % 3, host / 3 % 50, host % 200 + 1);
}

static void print_prefix(FILE *f)
{
	static const int lengths4[] = { 0, 8, 16, 20, 24, 31, 32, 32 };
	static const int lengths6[] = { 0, 16, 32, 48, 64, 65, 127, 128 };
	bool is_ipv6 = one_in(3);
	int length = is_ipv6 ? lengths6[pick(8)] : lengths4[pick(8)];
	struct prefix prefix;
	char text[128], address[64];

	address_of(pick(shape.hosts), is_ipv6, address, sizeof(address));
	snprintf(text, sizeof(text), "%s/%d", address, length);
	/* prefix_parse() clears the bits after the prefix. */
	prefix_parse(&prefix, text, strlen(text));
	fputs(prefix_to_string(&prefix, text), f);
}

static void print_set(FILE *f, int number)
{
	/* Sometimes the last set has so many members that the index does not compare them one by one. */
	int n = number == SETS - 1 && one_in(20) ? 3000 : 1 + pick(30);

	fprintf(f, "set s%d = { \\\n", number);
	for (int i = 0; i < n; i++) {
		if (number > 0 && one_in(15))
			fprintf(f, "@s%d", pick(number));
		else if (n > 1000)
			fprintf(f, "11.%d.%d.%d", i / 2000, i / 200 % 10, i % 200 * 1);
		else
			print_prefix(f);
		fputs(i < n - 1 ? ",\\\n" : " }\n", f);
	}
}

static void print_addresses(FILE *f, const char *word)
{
	fprintf(f, " %s ", word);
	if (one_in(4))
		fprintf(f, "@s%d", pick(SETS));
	else
		print_prefix(f);
}

static void print_ids(FILE *f, const char *word, int n)
{
	int id = 1000 + pick(n);

	fprintf(f, " %s %d", word, id);
	for (int more = one_in(4) ? pick(6) : 0; more > 0; more--)
		fprintf(f, ",%d", id += 1 + pick(9));
}

static void print_ports(FILE *f)
{
	int port = 1 + pick(shape.ports) * 7;

	fprintf(f, " port %d", port);
	if (one_in(3))
		fprintf(f, "-%d", port += pick(one_in(10) ? 50000 : 300));
	for (int more = one_in(5) ? pick(3) : 0; more > 0; more--)
		fprintf(f, ",%d", port += 1 + pick(20));
}

static void print_device(FILE *f)
{
	static const char *const globs[] = { "*", "rxe*", "mlx5_?", "mlx[45]_1*", "?xe1", "m*" };

	if (one_in(3))
		fprintf(f, " device %s", globs[pick(6)]);
	else
		fprintf(f, " device %s%d", one_in(2) ? "rxe" : "mlx5_", pick(shape.devices));
}

static void print_unit(FILE *f)
{
	int n = pick(shape.units);

	switch (pick(5)) {
	case 0:
		fprintf(f, " unit user@%d.*", n);
		break;
	case 1:
		fputs(one_in(2) ? " unit *.service" : " unit user@*", f);
		break;
	case 2:
		fprintf(f,
			" unit a-unit-whose-name-is-longer-than-sixty-three-bytes-until-it-"
			"ends-%d*",
			n);
		break;
	default:
		fprintf(f, " unit user@%d.service", n);
	}
}

static void print_cgroup(FILE *f)
{
	int n = pick(shape.units);

	switch (pick(4)) {
	case 0:
		fputs(one_in(2) ? " cgroup /" : " cgroup /*/a-*", f);
		break;
	case 1:
		fprintf(f, " cgroup /user.slice/user-%d*", n);
		break;
	default:
		fprintf(f, " cgroup /user.slice/user-%d.slice", n);
	}
}

static void print_container(FILE *f)
{
	int n = pick(shape.units);

	if (one_in(3))
		fputs(one_in(2) ? " container *" : " container user-*/*", f);
	else
		fprintf(f, " container %s%d", one_in(2) ? "user-" : "c", n);
}

static void print_who(FILE *f)
{
	static const char *const same[] = { "user", "unit", "job" };

	switch (pick(4)) {
	case 0:
		print_ids(f, "peer-user", shape.users);
		break;
	case 1:
		print_ids(f, "peer-group", shape.groups);
		break;
	case 2:
		fprintf(f, " peer-unit user@%d%s", pick(shape.units), one_in(2) ? "*" : ".scope");
		break;
	default:
		fprintf(f, " peer-same %s", same[pick(3)]);
	}
}

/* Most rules get a match, because otherwise the first few rules would decide everything. */
static void print_rule(FILE *f)
{
	int operation = pick(_POLICY_OPERATION_MAX + shape.has_any), common = shape.common;
	bool is_any = operation == _POLICY_OPERATION_MAX;
	bool is_cm = operation >= POLICY_LISTEN && operation <= POLICY_JOIN;
	bool has_peer = is_cm && operation != POLICY_LISTEN;
	long start;

	fprintf(f, "%s %s", one_in(3) ? "reject" : "allow", operations[operation]);
	start = ftell(f);
	if ((has_peer || (is_any && one_in(3))) && one_in(common))
		print_addresses(f, "peer");
	if (is_cm && operation != POLICY_JOIN && one_in(common))
		print_ports(f);
	if (one_in(common + 1))
		print_ids(f, "group", shape.groups);
	if (one_in(common + 2))
		print_unit(f);
	if (one_in(common + 4))
		print_cgroup(f);
	if (one_in(common + 4))
		print_container(f);
	if (is_cm && one_in(common + 1))
		print_addresses(f, "local");
	if ((is_cm || operation == POLICY_DEVICE) && one_in(common + 1))
		print_device(f);
	if (is_cm && one_in(common + 2))
		fprintf(f, " ps %s", port_spaces[pick(4)]);
	if (operation == POLICY_ACCEPT && one_in(common + 2))
		fprintf(f, " data %s", data_texts[pick(8)]);
	if ((operation == POLICY_CONNECT || operation == POLICY_ACCEPT) && one_in(common + 1))
		print_who(f);
	if (one_in(common) || (ftell(f) == start && !one_in(50)))
		print_ids(f, "user", shape.users);
	fputc('\n', f);
}

static struct policy *random_policy(size_t *ret_n)
{
	size_t n = random_size(), size;
	struct policy *policy;
	struct diag *diag;
	char *text;
	FILE *f;
	int r;

	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	for (int i = 0; i < SETS; i++)
		print_set(f, i);
	for (size_t i = 0; i < n; i++)
		print_rule(f);
	ck_assert_int_eq(fclose(f), 0);

	ck_assert_int_eq(diag_new(&diag), 0);
	r = policy_load_text(&policy, "random", text, size, diag);
	ck_assert_msg(r == 0, "%s", diag_first(diag));
	diag_free(diag);
	free(text);
	ck_assert_uint_eq(policy_n_rules(policy), n);
	*ret_n = n;
	return policy;
}

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

static const struct sockaddr *random_address(struct sockaddr_storage *ret, bool is_known)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	bool is_ipv6 = one_in(3), is_mapped = one_in(4);
	char text[64], mapped[80];

	memset(ret, 0, sizeof(*ret));
	if (!is_known && one_in(2))
		return NULL;
	if (!is_known) {
		ret->ss_family = one_in(2) ? AF_INET : AF_INET6;
		return (struct sockaddr *)ret;
	}

	address_of(pick(shape.hosts), is_ipv6, text, sizeof(text));
	if (one_in(8))
		snprintf(text, sizeof(text), "11.0.%d.%d", pick(10), pick(256));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1 && !is_mapped) {
		ret->ss_family = AF_INET;
		return (struct sockaddr *)ret;
	}
	memset(ret, 0, sizeof(*ret));
	snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
	ck_assert_int_eq(inet_pton(AF_INET6, mapped, &in6->sin6_addr), 1);
	ret->ss_family = AF_INET6;
	return (struct sockaddr *)ret;
}

static const char *random_unit(struct facts *facts)
{
	static const char long_name[] =
		"a-unit-whose-name-is-longer-than-sixty-three-bytes-until-it-ends-";
	int n = pick(shape.units);

	switch (pick(6)) {
	case 0:
		facts->unit[0] = '\0';
		break;
	case 1:
		snprintf(facts->unit, sizeof(facts->unit), "%s%d.scope", long_name, n);
		break;
	case 2:
		snprintf(facts->unit, sizeof(facts->unit), "user@%d.scope", n);
		break;
	default:
		snprintf(facts->unit, sizeof(facts->unit), "user@%d.service", n);
		break;
	}
	return facts->unit;
}

static const char *random_cgroup(struct facts *facts)
{
	static const char *const below[] = { "", "/a-b", "/user.slice", "/a/b/c" };
	int n = pick(shape.units);

	if (one_in(6))
		return "/";
	snprintf(facts->cgroup, sizeof(facts->cgroup), "/user.slice/user-%d.slice%s", n,
		 below[pick(4)]);
	return facts->cgroup;
}

static const char *random_container(struct facts *facts)
{
	int n = pick(shape.units);

	if (one_in(3))
		return "";
	snprintf(facts->container, sizeof(facts->container), one_in(2) ? "c%d" : "user-%d/c", n);
	return facts->container;
}

static const char *random_job(char job[16])
{
	if (one_in(3))
		return "";
	snprintf(job, 16, "%d", pick(3));
	return job;
}

static const struct policy_peer *random_who(struct facts *facts)
{
	struct policy_peer *who = &facts->who;

	*who = (struct policy_peer){
		.uid = 1000 + pick(shape.users),
		.gids = facts->peer_gids,
		.n_gids = pick(5),
	};
	for (size_t i = 0; i < who->n_gids; i++)
		facts->peer_gids[i] = 1000 + pick(shape.groups + 1);
	/* What the peer belongs to can be unknown. */
	if (one_in(4))
		return who;
	snprintf(facts->peer_unit, sizeof(facts->peer_unit), "user@%d.%s", pick(shape.units),
		 one_in(2) ? "scope" : "service");
	who->workload[WORKLOAD_UNIT] = one_in(6) ? "" : facts->peer_unit;
	who->workload[WORKLOAD_JOB] = random_job(facts->peer_job);
	return who;
}

static size_t random_n_gids(void)
{
	switch (pick(100)) {
	case 0:
		return GIDS_MAX;
	case 1:
	case 2:
		return 20 + pick(400);
	default:
		return pick(4);
	}
}

/* UNKNOWN 0: no fact is missing. */
static bool is_missing(int unknown)
{
	return unknown > 0 && one_in(unknown);
}

/*
 * In half of the questions all facts are known, except who the peer is. In the others, facts other than the user and the
 * groups can be unknown, too. Returns whether all are known.
 */
static bool random_question(struct policy_question *ret, struct facts *facts)
{
	int unknown = one_in(2) ? 0 : 2 + pick(8);
	const char *data = data_values[pick(7)];

	*ret = (struct policy_question){
		.operation = pick(_POLICY_OPERATION_MAX),
		.early = one_in(2),
		.uid = 1000 + pick(shape.users),
		.gids = facts->gids,
		.n_gids = random_n_gids(),
		.local = random_address(&facts->local, !is_missing(unknown)),
		.peer = random_address(&facts->peer, !is_missing(unknown)),
		.port = is_missing(unknown) ? -pick(2) : 1 + pick(shape.ports) * 7 + pick(3),
		.port_space = is_missing(unknown) ? 0 : port_space_numbers[pick(4)],
		.workload[WORKLOAD_UNIT] = is_missing(unknown) ? NULL : random_unit(facts),
		.workload[WORKLOAD_CGROUP] = is_missing(unknown) ? NULL : random_cgroup(facts),
		.workload[WORKLOAD_CONTAINER] = is_missing(unknown) ? NULL :
								      random_container(facts),
		.workload[WORKLOAD_JOB] = is_missing(unknown) ? NULL : random_job(facts->job),
		.knows_data = !is_missing(unknown),
		.who = one_in(3) ? random_who(facts) : NULL,
		.can_ask = !one_in(4),
		.assume_who = one_in(8),
	};
	for (size_t i = 0; i < ret->n_gids; i++)
		facts->gids[i] = 1000 + pick(shape.groups + 1);
	if (!is_missing(unknown)) {
		snprintf(facts->device, sizeof(facts->device), "%s%d", one_in(2) ? "rxe" : "mlx5_",
			 pick(shape.devices));
		ret->device = facts->device;
	}
	if (ret->knows_data && !one_in(8)) {
		ret->data = data;
		ret->data_len = strlen(data);
	}
	return unknown == 0;
}

/* Counts of what was tested. If a count is 0, the run proves nothing about that case. */
static struct {
	unsigned long policies, rules, questions;
	unsigned long answers[4], defaults;
	unsigned long by_peer[2]; /* decisions that depended on who the peer is */
	/* questions decided by one of the first rules, which are in no list of the index */
	unsigned long early_rules;
	unsigned long listed_rules; /* questions decided by a later rule */
	/* questions that no rule decided, although the policy had later rules */
	unsigned long gone_through;
} seen;

static void count_verdict(const struct policy_verdict *verdict, size_t n_rules)
{
	seen.questions++;
	seen.answers[verdict->answer]++;
	if (!verdict->rule)
		seen.defaults++;
	if (!verdict->rule && n_rules > INDEX_FIRST_RULE)
		seen.gone_through++;
	else if (verdict->rule && verdict->rule->index < INDEX_FIRST_RULE)
		seen.early_rules++;
	else if (verdict->rule)
		seen.listed_rules++;
}

static void ask_both(const struct policy *policy, const struct policy_question *question)
{
	struct policy_verdict fast, slow;

	policy_decide(policy, question, &fast);
	policy_decide_scan(policy, question, &slow);
	/* Nobody is asked if nothing depends on it, or if it is known already. */
	ck_assert(fast.answer != POLICY_ASK ||
		  (question->can_ask && !question->who && policy_asks(policy)));
	if (fast.answer != slow.answer || fast.rule != slow.rule || fast.reason != slow.reason)
		ck_abort_msg("policy %lu of %zu rules, question %lu: rule %ld (%s) instead of "
			     "rule %ld (%s)",
			     seen.policies, policy_n_rules(policy), seen.questions,
			     fast.rule ? (long)fast.rule->index : -1L,
			     fast.rule ? fast.rule->text : "none",
			     slow.rule ? (long)slow.rule->index : -1L,
			     slow.rule ? slow.rule->text : "none");
	count_verdict(&fast, policy_n_rules(policy));
}

/*
 * QUESTION does not say who the peer is, but everything else. If nobody has to be asked, the decision is the same for
 * every peer. What the decision for any peer allows is allowed if the answer is assumed.
 */
static void try_peers(const struct policy *policy, struct policy_question question,
		      struct facts *facts)
{
	struct policy_verdict unknown, assumed, known;

	question.early = question.assume_who = false;
	question.can_ask = true;
	policy_decide(policy, &question, &unknown);
	question.assume_who = true;
	policy_decide(policy, &question, &assumed);
	ck_assert_int_ne(assumed.answer, POLICY_ASK);
	for (int i = 0; i < 3; i++) {
		question.who = random_who(facts);
		policy_decide(policy, &question, &known);
		ck_assert_int_ne(known.answer, POLICY_ASK);
		if (unknown.answer != POLICY_ASK)
			ck_assert_int_eq(known.answer, unknown.answer);
		else
			seen.by_peer[known.answer]++;
		if (known.answer == POLICY_ALLOW)
			ck_assert_int_eq(assumed.answer, POLICY_ALLOW);
	}
}

static unsigned long number_from(const char *variable, unsigned long otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? strtoul(text, NULL, 0) : otherwise;
}

START_TEST(the_index_decides_as_a_scan)
{
	unsigned long rounds = number_from("ROUNDS", ROUNDS / SLOWER);
	unsigned long seed = number_from("SEED", 1);
	struct policy_question question;
	struct facts facts;
	bool knows_all;

	printf("# SEED=%lu ROUNDS=%lu\n", seed, rounds);
	fflush(stdout);
	state = seed;
	for (unsigned long round = 0; round < rounds; round++) {
		struct policy *policy;
		size_t n;

		shape = random_shape();
		policy = random_policy(&n);
		for (int i = 0; i < QUESTIONS; i++) {
			knows_all = random_question(&question, &facts);
			ask_both(policy, &question);
			if (knows_all && !question.who)
				try_peers(policy, question, &facts);
		}
		seen.policies++;
		seen.rules += n;
		policy_unref(policy);
	}

	printf("# %lu policies of %lu rules in all, %lu questions: %lu allowed, %lu rejected (%lu by "
	       "default), %lu deferred, %lu asked; by one of the first %d rules %lu, by another %lu, by none "
	       "of more %lu\n",
	       seen.policies, seen.rules, seen.questions, seen.answers[POLICY_ALLOW],
	       seen.answers[POLICY_REJECT], seen.defaults, seen.answers[POLICY_DEFER],
	       seen.answers[POLICY_ASK], INDEX_FIRST_RULE, seen.early_rules, seen.listed_rules,
	       seen.gone_through);
	fflush(stdout);
	ck_assert_uint_ge(seen.answers[POLICY_ALLOW], seen.questions / 20);
	ck_assert_uint_ge(seen.answers[POLICY_REJECT], seen.questions / 20);
	ck_assert_uint_ge(seen.answers[POLICY_DEFER], seen.questions / 50);
	ck_assert_uint_ge(seen.answers[POLICY_ASK], seen.questions / 200);
	ck_assert_uint_ge(seen.by_peer[POLICY_ALLOW], seen.questions / 1000);
	ck_assert_uint_ge(seen.by_peer[POLICY_REJECT], seen.questions / 200);
	ck_assert_uint_ge(seen.listed_rules, seen.questions / 5);
	ck_assert_uint_ge(seen.gone_through, seen.questions / 20);
	if (rounds >= ROUNDS) {
		ck_assert_uint_ge(seen.rules, 1000000);
		ck_assert_uint_ge(seen.questions, 1000000);
	}
}
END_TEST

/* Loads the policy that N calls of PRINT write. */
static struct policy *load_lines(void (*print)(FILE *f, int i), int n)
{
	struct policy *policy;
	struct diag *diag;
	size_t size;
	char *text;
	FILE *f;

	f = open_memstream(&text, &size);
	for (int i = 0; i < n; i++)
		print(f, i);
	fclose(f);
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_msg(policy_load_text(&policy, "t", text, size, diag) == 0, "%s",
		      diag_first(diag));
	diag_free(diag);
	free(text);
	return policy;
}

static void print_group(FILE *f, int i)
{
	fprintf(f, "%s session group %d user 1000\n", i % 2 ? "allow" : "reject", 1000 + i);
}

/*
 * The user is in more groups than the index merges lists for (INDEX_LISTS_MAX), and then in more than it looks up
 * (KEY_FACT_MAX).
 */
START_TEST(many_groups)
{
	struct policy *policy = load_lines(print_group, 2000);
	static const int counts[] = {
		INDEX_LISTS_MAX - 1, INDEX_LISTS_MAX, INDEX_LISTS_MAX + 1, 1023, 1024, 1025
	};
	gid_t gids[1025];

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct policy_question question = { .uid = 1000, .gids = gids };

		question.operation = POLICY_SESSION;
		question.n_gids = counts[i];
		for (int k = 0; k < counts[i]; k++)
			gids[k] = 1000 + 1999 - k;
		ask_both(policy, &question);
		question.early = true;
		ask_both(policy, &question);
		question.uid = 1001;
		ask_both(policy, &question);
	}
	policy_unref(policy);
}
END_TEST

static void print_overlapping(FILE *f, int i)
{
	fprintf(f, "set s%d = { 10.0.0.0/8, 11.0.%d.%d }\n", i, i / 256, i % 256);
	fprintf(f, "%s accept peer @s%d port %d\n", i % 3 ? "allow" : "reject", i, 1 + i / 2);
}

/* One address is in more sets than the index looks up. */
START_TEST(many_sets)
{
	struct policy *policy = load_lines(print_overlapping, 600);
	struct policy_question question = { .operation = POLICY_ACCEPT };
	struct sockaddr_in peer = { .sin_family = AF_INET };

	question.peer = (struct sockaddr *)&peer;
	for (int i = 0; i < 600; i++) {
		peer.sin_addr.s_addr = htonl(0x0a010101);
		question.port = 1 + i / 2;
		question.early = false;
		ask_both(policy, &question);
		peer.sin_addr.s_addr = htonl(0x0b000000 + i);
		ask_both(policy, &question);
		question.early = true;
		ask_both(policy, &question);
		question.port = -1;
		ask_both(policy, &question);
	}
	policy_unref(policy);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("policy_property");
	TCase *tcase = tcase_create("policy_property");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, the_index_decides_as_a_scan);
	tcase_add_test(tcase, many_groups);
	tcase_add_test(tcase, many_sets);
	tcase_set_timeout(tcase, 600);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
